// Opened in a copy of a page of `tete inspect`, after its own scripts: looks at everything it shows,
// acts as a reader would, and compares what is printed with the tensors of --save, which stand in
// the copy as base64 (tests/inspect.sh). Says "N passed, M failed" on the console when it is done.
'use strict';

const verdicts = {passed: 0, failed: []};
function check(what, holds) {
  if (holds) ++verdicts.passed;
  else verdicts.failed.push(what);
}
addEventListener('error', (event) => check('no error: ' + event.message, false));
addEventListener('unhandledrejection', (event) => check('no rejection: ' + event.reason, false));
document.addEventListener('securitypolicyviolation', (event) => check('asks for nothing: ' + event.blockedURI, false));

const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const all = (selector) => [...document.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
async function press(...keys) {
  for (const key of keys) {
    document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    await frame();
  }
}
async function act(node, type) {
  node.dispatchEvent(new MouseEvent(type, {bubbles: type !== 'mouseenter'}));
  await frame();
}

// ---- safetensors: eight bytes of length, a header, the numbers ----

// Names begin with `prefix`.
function readTensors(text, prefix = '') {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.slice(8, 8 + length)));
  const tensors = new Map();
  delete header.__metadata__;
  for (const [name, {dtype, shape, data_offsets: [begin, end]}] of Object.entries(header)) {
    const data = bytes.slice(8 + length + begin, 8 + length + end).buffer;
    if (dtype === 'F32') tensors.set(prefix + name, {shape, values: new Float32Array(data)});
  }
  return tensors;
}

// A saved value of two sequences and heads as [heads, rows, columns], whatever order its names have.
function asMap(tensor, dims, map) {
  const sizes = tensor.shape.slice(-dims.length);
  const strides = sizes.map((_, i) => sizes.slice(i + 1).reduce((a, b) => a * b, 1));
  const order = [...map.outer.map(([name]) => name), ...map.dims].filter((name) => name !== '').map((name) => dims.indexOf(name));
  return Array.from({length: map.shape.reduce((a, b) => a * b)}, (_, i) => {
    let rest = i, at = 0;
    for (const axis of [...order].reverse()) {
      at += rest % sizes[axis] * strides[axis];
      rest = Math.floor(rest / sizes[axis]);
    }
    return tensor.values[at];
  });
}
const dimsOf = (shown) => shown.slice(1, -1).split(', ').map((part) => part.split('=')[0]);

// ---- What the page shows ----

function checkSections() {
  for (const section of sections)
    check(`section ${section.id} is there exactly if it has something to show`, !!section.has() === !!one('#' + section.id));
  for (const name of (globalThis.expected ?? [])) check(`section ${name} is expected`, !!one('#' + name));
  for (const svg of all('section svg')) {
    const box = svg.viewBox.baseVal;
    check(`a picture of ${svg.getAttribute('aria-label')} has a size`, box.width > 0 && box.height > 0);
  }
  check('every picture and map that can be acted on has a name',
    all('svg[role], [role=button], [role=option], button, select, input').every((x) =>
      x.getAttribute('aria-label') || x.textContent.trim()));
  check('pictures are named', all('section figure svg').every((x) => x.getAttribute('aria-label')));
  check('nothing is written as NaN or undefined', !/\bNaN\b|undefined|\[object/.test(one('main').innerText));
}

// Nothing in the text has become an element or an attribute.
function checkText() {
  const known = new Set(['HTML', 'HEAD', 'META', 'TITLE', 'STYLE', 'BODY', 'NOSCRIPT', 'SCRIPT', 'HEADER', 'NAV', 'MAIN',
    'FOOTER', 'SECTION', 'DIV', 'P', 'SPAN', 'A', 'B', 'I', 'BR', 'H1', 'H2', 'H3', 'SMALL', 'UL', 'LI', 'DL', 'DT', 'DD', 'CODE',
    'PRE', 'KBD', 'TABLE', 'THEAD', 'TBODY', 'TR', 'TH', 'TD', 'BUTTON', 'SELECT', 'OPTION', 'INPUT', 'LABEL', 'OUTPUT',
    'FIGURE', 'FIGCAPTION', 'DETAILS', 'SUMMARY', 'DIALOG', 'FORM', 'svg', 'g', 'rect', 'path', 'line', 'text', 'tspan', 'image',
    'title']);
  check('only elements that the page makes', all('*').every((x) => known.has(x.tagName)));
  check('the page’s two scripts, and this one’s two', all('script').length === 4);
  check('no handlers in attributes', all('*').every((x) => x.getAttributeNames().every((name) => !name.startsWith('on'))));
  check('the title is the report’s', document.title === report.title && one('h1').textContent === report.title);
  if (!siteNames.length) return;
  const said = all('.tokens .token').map((x) => x.querySelector('text').textContent);
  const meant = sequencesOf(site()).flatMap((sequence) => tokensOf(0, sequence).map(visible));
  check('every token is shown, in its order', said.join('\u0000') === meant.join('\u0000'));
  if (runs[0].sequences.length === 1)
    check('together they are the text', tokensOf(0, 0).join('') === report.text || tokensOf(0, 0).some((t) => /^<0x/.test(t)));
}

function checkNetwork() {
  const asked = performance.getEntriesByType('resource').filter((entry) => !/^(data|blob):/.test(entry.name));
  check('nothing was loaded: ' + asked.map((entry) => entry.name), asked.length === 0);
}

// ---- What a reader does ----

async function checkTokens() {
  const tokens = all('.tokens .token'), s = site(), map = mapAt(sitePath());
  if (!tokens.length || !map || !map.rowTokens || !map.columnTokens) return;
  const rows = tokens.slice(-tokensOf(0, s.rows).length), last = rows.at(-1);
  if (map.shape[0] > 12) check('of many heads the chosen one is told, and few wires are drawn', all('.strongest li').length === 1
    && all('.wire:not(.weak)').length <= map.shape[0] * all('.tied').length + 2);
  await press('a');
  await press('Escape');
  check('without a token there are no lines', all('.tie, .weight').length === 0);
  await act(last, 'mouseenter');
  check('a token that is pointed at is marked', last.classList.contains('here'));
  const heads = new Set(all('.weight').map((x) => x.getAttribute('fill')));
  check('its heads have bars in their colours', heads.size > 0 && [...heads].every((c) => headColours[state.dark ? 'dark' : 'light'].includes(c)));
  check('as many heads are told as there are', all('.strongest li').length === map.shape[0]);
  checkTold(map, s, rows.length - 1);
  await press('0');
  check('a head that is off has no line', all('.tie[data-head="0"]').length === 0 && all('.strongest li').length === map.shape[0] - 1);
  check('and its button says so', one('.heads button').getAttribute('aria-pressed') === 'false');
  one('.heads button').dispatchEvent(new MouseEvent('click', {bubbles: true, shiftKey: true}));
  await frame();
  check('its button puts it on again with shift', all('.strongest li').length === map.shape[0]);
  await press('o');
  check('one head alone', all('.strongest li').length === 1);
  await press('a');
  check('all again', all('.strongest li').length === map.shape[0]);
  await act(one('.tokens'), 'mouseleave');
  check('what is no longer pointed at is let go', all('.tie, .weight').length === 0);
  await act(rows[0], 'click');
  await act(one('.tokens'), 'mouseleave');
  check('a click holds a token', rows[0].classList.contains('here'));
  await press('.');
  check('. goes to the next token', (rows[1] ?? rows[0]).classList.contains('here'));
  await press(',');
  check(', to the one before', rows[0].classList.contains('here'));
  await act(all('.heads button').at(-1), 'click');
  check('a click on a chip selects its head and hides nothing', state.head === map.shape[0] - 1 && all('.strongest li').length === map.shape[0]);
  await act(one('.heads button'), 'click');
  checkDirections();
  if (s.rows === s.columns) {
    await press('d');
    check('d turns round who looks at whom', one('[data-from=column]').getAttribute('aria-pressed') === 'true');
    await press('d');
  }
}

// The numbers told under the tokens are the strongest of the row, in the map's digits.
function checkTold(map, s, at) {
  const [heads, rows, columns] = map.shape, all_ = values(map);
  all('.strongest li').forEach((line, head) => {
    const row = [...all_.slice((head * rows + at) * columns, (head * rows + at + 1) * columns)].filter((x) => !Number.isNaN(x));
    const most = row.reduce((a, b) => Math.abs(b) > Math.abs(a) ? b : a, 0);
    check(`head ${head} tells its strongest`, most === 0 || line.textContent.includes(approximate(most, map)));
  });
  check('no more heads than the map has', heads >= all('.strongest li').length);
}

async function checkKeys() {
  const count = mapAt(sitePath()).shape[0], theme = document.documentElement.dataset.theme;
  await press('ArrowRight');
  check('→ is the next head', state.head === Math.min(1, count - 1));
  check('its button is marked', all('.heads button')[state.head].classList.contains('here'));
  await press('ArrowLeft', 'ArrowLeft');
  check('← the one before, and not beyond the first', state.head === 0);
  await press('ArrowDown');
  check('↓ is the next layer', state.site === Math.min(1, siteNames.length - 1) && one('.controls select').value === String(state.site));
  await press('ArrowUp', 'ArrowUp');
  check('↑ the one before, and not beyond the first', state.site === 0);
  const maps = mapNames().filter((name) => mapAt(sitePath(), name)), before = state.map;
  for (let i = 1; i <= maps.length; ++i) {
    await press('m');
    check('m shows another map', state.map === maps[(maps.indexOf(before) + i) % maps.length]);
    check('the pictures follow', one('.large svg').getAttribute('aria-label').startsWith(tensorName(mapAt(sitePath())) + ' of '));
  }
  await press('t');
  check('t turns light to dark', document.documentElement.dataset.theme !== theme);
  const dark = getComputedStyle(document.body).backgroundColor;
  await press('t');
  check('and back', document.documentElement.dataset.theme === theme && getComputedStyle(document.body).backgroundColor !== dark);
  await press('s', 's', '?');
  check('? opens the help', one('dialog').open);
  one('dialog').close();
  const {frames} = runs[0];
  if (frames.length > 1) {
    const newest = one('#heads tbody')?.innerText;
    await press('[');
    check('[ is the checkpoint before', state.frame === frames.length - 2 && one('.slider output').textContent.includes(grouped(frames.at(-2).step)));
    check('its numbers are others', one('#heads tbody')?.innerText !== newest);
    await press(']', ']');
    check('] the next, and not beyond the last', state.frame === frames.length - 1);
  }
  if (twoRuns) {
    await press('c', 'c');
    check('c shows the difference', state.view === difference);
    const [a, b] = [0, 1].map((run) => table(run, 'heads').rows), at = table(1, 'heads').columns.findIndex((c) => c.name === 'entropy');
    const both = rowsInView('heads').rows;
    check('of the heads, too', both.length > 0 && all('#heads tbody tr').length > 0
      && both.filter((row) => row[at] !== null).every((row) => {
        const of = (rows) => rows.find((r) => row.slice(0, 3).join() === r.slice(0, 3).join())[at];
        return Math.abs(row[at] - (of(b) - of(a))) < 1e-12;
      }));
    checkSections();
    await press('c');
  }
}

// Another place of a further axis is other pictures of the same tensor, with measures of their own.
async function checkAxes() {
  const [axis] = mapOf(0, sitePath(), state.map).outer, chosen = one('.axes select');
  check('an axis is chosen exactly where there is one', !axis === !chosen);
  if (!axis) return;
  const before = [...values(mapAt(sitePath()))], told = one('#heads tbody').innerText;
  chosen.value = '1';
  chosen.dispatchEvent(new Event('change'));
  await frame();
  const whole = values(mapOf(0, sitePath(), state.map)), now = values(mapAt(sitePath()));
  check('the pictures are those of the next place', now.every((x, i) => Object.is(x, whole[before.length + i])) && now.some((x, i) => x !== before[i]));
  check('its measures are told', one('#heads tbody').innerText !== told && one('#heads tbody').innerText.includes(`${state.map}[${axis[0]}=1]`));
}

// What the buttons say is what is drawn: queries look at the memory.
function checkDirections() {
  const s = site(), pressed = one('[aria-label=direction] [aria-pressed=true]').dataset.from;
  check('picture and button agree', s.rows === s.columns || (state.token?.sequence === s.rows) === (pressed === 'row'));
}
async function checkCross() {
  const at = siteNames.findIndex((path) => siteOf(0, path).rows !== siteOf(0, path).columns);
  const titles = () => [...new Set(all('.large .axis-title').map((x) => x.textContent))].join();
  const lines = all('.sequences span:not(.judged)').map((x) => x.textContent), judged = one('.judged')?.textContent;
  const answered = table(0, 'predictions').rows.filter((row) => row[0] === 'own answer').map((row) => row[3]).join('').replace('\n', '');
  if (findings().length) check(`it is said whether the model’s own answer is right: ${judged}`, !judged === !answered && (!judged || judged === `The model answers ${answered}, which is `
    + (answered === [...report.text].reverse().join('') ? 'right.' : `wrong: the task’s answer is ${[...report.text].reverse().join('')}.`)));
  check(`the first screen has the text, of two sequences it says which is which: ${lines}`, lines.length === (findings().length ? runs[0].sequences.length : 0)
    && lines.every((line, i) => line.endsWith(tokensOf(0, i).slice(0, 160).map(visible).join('') + (tokensOf(0, i).length > 160 ? '…' : ''))
      && line.startsWith(runs[0].sequences[i].name + (lines.length < 2 ? ': '
        : [', read by the encoder', `, written by the decoder, whose cross attention looks at the ${runs[0].sequences[0].name}: `][i]))));
  const dims = mapAt(sitePath()).dims;
  check(`the axes say who looks at whom: ${titles()}`, site().rows !== site().columns || titles() === `who looks (${dims[1]}),at whom (${dims[2]})`);
  if (at < 0) return;
  await press('d');
  set({site: at});
  await frame();
  checkDirections();
  check(`the axes say which sequence is which: ${titles()}`, /^.+ \(decoder\) looks,at .+ \(encoder\)$/.test(titles()));
  const heights = all('.tokens .token rect').slice(-tokensOf(0, site().rows).length).map((x) => x.getAttribute('y'));
  check('what begins with a newline has it on its first line', tokensOf(0, site().rows)[0] !== '\n' || heights[0] === heights[1]);
  check('the tokens say it, too', all('.tokens > .small').map((x) => x.textContent).join()
    === [site().columns, site().rows].map(sequenceLabel).join());
  for (const from of ['column', 'row']) {
    await act(one(`[data-from=${from}]`), 'click');
    check('the button turns it', one(`[data-from=${from}]`).getAttribute('aria-pressed') === 'true' && all('.tie, .weight').length > 0);
    checkDirections();
  }
  set({site: 0});
  await frame();
}

// Text reads on what is behind it, in light and dark: the contrast of WCAG 2.
function checkContrast() {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => parts(colour).slice(0, 3).map((x) => x / 255)
    .reduce((sum, x, i) => sum + [0.2126, 0.7152, 0.0722][i] * (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4), 0);
  const behind = (node) => {
    const colour = node ? getComputedStyle(node).backgroundColor : 'rgb(0,0,0)', alpha = parts(colour)[3] ?? 1;
    return colour.startsWith('rgb') && alpha > 0.9 || !node ? colour : behind(node.parentElement);
  };
  const svgBehind = (node) => behind(node.closest('figure') ?? node.closest('section'));
  let worst = [99, ''];
  for (const node of all('header *, main *, footer *, .controls *')) {
    const inSvg = node.namespaceURI.endsWith('svg');
    if (![...node.childNodes].some((x) => x.nodeType === 3 && x.data.trim()) || node.tagName === 'title') continue;
    if (inSvg && !node.matches('.small, .tick, .label, .name') || inSvg && node.style.fill) continue;
    const style = getComputedStyle(node), [a, b] = [light(inSvg ? style.fill : style.color), light(inSvg ? svgBehind(node) : behind(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst[0]) worst = [contrast, node.textContent.slice(0, 30)];
  }
  check(`contrast in ${state.dark ? 'dark' : 'light'}: ${worst[0].toFixed(2)} of ‘${worst[1]}’`, worst[0] >= 4.5);
}
function checkWidth() {
  check(`nothing is wider than the window: ${document.documentElement.scrollWidth} of ${innerWidth}`, document.documentElement.scrollWidth <= innerWidth);
  // Beside a long title the menu has every section, and two lines.
  const nav = one('nav'), own = [...nav.childNodes], {textContent} = one('h1');
  one('h1').textContent = 'Inside runs/one-layer and runs/two-layers';
  nav.replaceChildren(...sections.map(({title}) => element('a', {href: '#'}, title)));
  const lines = new Set([...nav.children].map((x) => x.offsetTop)).size;
  check(`the menu has two lines at most: ${lines}`, innerWidth < 1200 || lines <= 2);
  nav.replaceChildren(...own);
  one('h1').textContent = textContent;
}

// A head of cross attention that looks one token back at each step reads the other sequence backwards.
function checkWalk() {
  const s = frameOf(0).sites.find(({rows, columns, weights}) => rows !== columns && weights), map = s && mapOf(0, s.path, s.weights);
  if (!map?.rowTokens || !map.columnTokens || map.outer.length) return;
  const [heads, rows, columns] = map.shape, own = values(map), last = heads - 1;
  for (const by of [-1, 1]) {
    const walked = own.map((_, i) => {
      const head = Math.floor(i / rows / columns), row = Math.floor(i / columns) % rows, column = i % columns;
      return head !== last ? (column === 0 ? 1 : 0) : column === (by < 0 ? columns - 1 - row : row) ? 1 : 0;
    });
    decoded.set(map, walked);
    const found = ofWalk(), steps = Math.min(rows, columns) - 1;
    check(`a head that reads ${by < 0 ? 'backwards' : 'forwards'} is found`, rows < 4 || steps < 0.75 * (rows - 1) ? true
      : found?.heads[0].site === s.path && found.heads[0].picture === last
        && walkInWords(found.heads[0]).includes(`${by < 0 ? 'backwards' : 'forwards'}, token by token: in ${found.heads[0].taken} of its ${rows - 1} steps`));
  }
  decoded.set(map, own.map((_, i) => i % columns === 0 ? 1 : 0));
  check('one that stays at a token reads nothing', ofWalk()?.heads.every(({site: path}) => path !== s.path) ?? true);
  decoded.set(map, own);
}
// Tokens that give much more than others, where a row may have any sum.
function checkOpening() {
  const tokens = ['a', 'b', 'a', 'b'], map = {shape: [1, 4, 4], values: Float32Array.from({length: 16}, (_, i) =>
    i % 4 > Math.floor(i / 4) ? NaN : Math.floor(i / 4) % 2 ? 0.5 : 0.125)};
  const told = (numbers) => element('p', {}, opening({...map, values: numbers}, 0, tokens)).textContent;
  check('a token that gives much to all that it sees is named', told(map.values) === ` On average b gives each token that it sees ${number(0.5, 2)}, any other token ${number(0.125, 2)}.`);
  check('one that gives as much as others is not', told(map.values.map((x) => x && 0.5)) === '');
  check('nor one whose weights sum to 1', told(map.values.map((x, i) => x && 1 / (1 + Math.floor(i / 4)))) === '');
  const early = {shape: [1, 8, 8], values: Float32Array.from({length: 64}, (_, i) => i % 8 > Math.floor(i / 8) ? NaN : 2 / (1 + Math.floor(i / 8)))};
  check('nor one that stands early, and sees few', element('p', {}, opening(early, 0, [...'abaaaaaa'])).textContent === '');
  check('nor one that has no choice', told(map.values.map((x, i) => i === 0 ? 8 : x && 0.5)) === '');
}
// "from 1.661 to 1.851": the loss with a head and without it.
const lossesOf = ({value}) => `the loss ${value > 0 ? 'rises' : 'falls'} from ${number(frameOf(0).losses[0])} to ${number(frameOf(0).losses[0] + value)} nats a token`;
// The list is told above the list, and the colours of the map above the map.
function checkHint() {
  const top = (selector) => one(selector)?.getBoundingClientRect().top ?? Infinity, height = one('.legend')?.getBoundingClientRect().height ?? 0;
  check('the list is told before it comes', !all('.entry-head').length || one('.hint').textContent.includes('a click selects') && top('.hint') < top('.list'));
  check('a legend stands above the map', height > 0 && top('.finding .legend') < top('.finding svg') && one('.finding .bar').getBoundingClientRect().top < one('.finding image').getBoundingClientRect().top);
  check('the map leaves room for what stands above it', one('.finding image').getBoundingClientRect().height <= Math.max(241, innerHeight - 360));
}
// The largest of k normally distributed numbers is in one of twenty cases beyond: 1.960 of 1, 2.858 of
// 12, 4.046 of 992.
function checkChance() {
  for (const [count, most] of [[1, 1.96], [12, 2.858], [992, 4.046]])
    check(`the largest of ${count} by chance`, isByChance(most - 0.005, count) && !isByChance(most + 0.005, count));
}
// A head that looks at one kind of token alone is said to, with what equal weights have.
function checkKinds() {
  const s = frameOf(0).sites.find(({rows, columns, weights}) => rows === columns && weights), map = s && mapOf(0, s.path, s.weights);
  if (!map?.rowTokens || !map.columnTokens || map.outer.length) return;
  const [heads, rows, columns] = map.shape, own = values(map), tokens = tokensOf(0, s.rows), picture = heads - 1, finding = {site: s.path, map: map.name, picture};
  const sees = (i, j) => !Number.isNaN(own[(picture * rows + i) * columns + j]);
  const sets = (isOne, sign) => {
    decoded.set(map, own.map((x, at) => {
      const i = Math.floor(at / columns) % rows, j = at % columns, ones = [...Array(columns).keys()].filter((k) => sees(i, k) && isOne(i, k));
      return Number.isNaN(x) ? x : (ones.length ? isOne(i, j) ? sign / ones.length : 0 : sign / columns);
    }));
    kindsFound.delete(map);
    return element('p', {}, kindInWords(finding, map)).textContent;
  };
  const told = {'the token itself': (i, j) => i === j, 'spaces': (i, j) => tokens[j] === ' ', 'the first token': (i, j) => j === 0};
  for (const [words, isOne] of Object.entries(told)) {
    const asked = [...Array(rows).keys()].map((i) => [...Array(columns).keys()].filter((j) => sees(i, j)).map((j) => isOne(i, j)))
      .filter((seen) => seen.includes(true) && seen.includes(false));
    if (asked.length < 3) continue;
    const uniform = asked.reduce((sum, seen) => sum + seen.filter(Boolean).length / seen.length, 0) / asked.length;
    const line = `${words}: ${map.decimals === null ? '≈' : ''}1 of its weight in ${map.name} on average, over ${counted(asked.length, 'token')}; uniform attention would give ${number(uniform, 2)}. `;
    check(`a head that looks at ${words} is said to: ${sets(isOne, 1)}`, sets(isOne, 1) === ` looks at ${line}`);
    check('one whose weights are negative weighs it, and it is said', sets(isOne, -1) === ` weighs ${line.replace('its weight', 'its absolute weight')}Of all its absolute weight ${map.decimals === null ? '≈' : ''}1 is negative. `);
  }
  check('one that looks everywhere alike is drawn to nothing', sets(() => true, 1).startsWith(' looks at no kind of token much more'));
  decoded.set(map, own);
  kindsFound.delete(map);
}
// A head raises no logit more than those that it is said to, that of the token that is asked about included.
function checkRaised() {
  const asked = frameOf(0).attribution, last = runs[0].sequences.length - 1;
  const parts = table(0, 'attribution')?.rows ?? [];
  check('where a logit is a sum of what heads add it is known what they raise', parts.some(([, head]) => typeof head === 'number') === frameOf(0).sites.some((s) => s.raised));
  if (asked.texts !== 1) return;
  for (const [path, head, logit] of parts) {
    const s = siteOf(0, path), {raised} = s ?? {};
    if (!raised || s.rows !== last || typeof head !== 'number') continue;
    const [, n, k] = raised.shape, at = (head * n + asked.position) * k, own = raised.tokens.slice(at, at + k).indexOf(asked.token);
    check(`${path}, head ${head}: what it raises most`, raised.logits[at] >= logit - 2e-5 && (own < 0 ? raised.logits[at + k - 1] >= logit - 2e-5 : Math.abs(raised.logits[at + own] - logit) <= 2e-5 * Math.max(1, Math.abs(logit))));
  }
}

// The page opens on what it found: the sentence and the list are the table's, a click selects.
async function checkFindings() {
  if (!findings().length) return check('of one token nothing stands out', runs[0].sequences.every(({tokens}) => tokens.length === 1));
  const found = findings(), said = headline(), [first] = said.heads, {head} = placeOfFinding(first);
  const told = all('.headline:not(.talks)').map((x) => x.textContent).join(' ');
  check('the first section is what stands out', all('main section')[0].id === 'findings');
  checkHint();
  checkChance();
  const even = almostUniform(), entropies = table(0, 'heads').columns.findIndex((c) => c.name === 'entropy');
  check('where attention is almost uniform it says so, and names no head', one('.headline').textContent.startsWith('No head chooses') === !!even
    && (!even || table(0, 'heads').rows.some((r) => r[entropies] === even[0])));
  if (!even) check('the sentence says which head, which measure and which score', one('.headline').textContent.includes(`head ${head} `)
    && one('.headline').textContent.includes({walk: 'token by token', kind: 'uniform attention would give ', 'loss without it': 'changes the loss on '}[said.measure] ?? said.measure)
    && one('.headline').textContent.includes({walk: `in ${first.taken} of its ${first.steps} steps`, kind: number(first.value, 2), 'loss without it': lossesOf(first)}[said.measure] ?? number(first.value)));
  const weighed = siteOf(0, first.site), lost = found.find(({measure}) => measure === 'loss without it')?.heads ?? [];
  const sharp = lost.find(({site: path}) => siteOf(0, path).rows !== siteOf(0, path).columns && table(0, 'heads').rows.some((r) => r[0] === path
    && r[1] === siteOf(0, path).weights && r[entropies] < 0.8 * Math.log(tokensOf(0, siteOf(0, path).columns).length)));
  if (!even && sharp && !['induction', 'walk'].includes(said.measure)) check('a head of cross attention that is far from uniform comes first', weighed.rows !== weighed.columns
    && first.value === sharp.value && one('.headline').textContent.includes('most of all heads of cross attention') === (sharp !== lost[0]));
  const missed = found.find(({measure}) => measure === 'loss without it')?.heads[0], mixes = siteOf(0, first.site).ties.some((tie) => tie.mixers.length || tie.unknown);
  if (!even && mixes) check('where heads are mixed each is said to be one of a tensor', [first, missed].filter((x) => x && x.site === first.site).every((x) =>
    x === missed && first.map === missed.map && first.picture === missed.picture || told.includes(`, head ${placeOfFinding(x).head} of ${x.map || x.tensor} `)));
  const map = mapOf(0, first.site, first.map), row = map && !isEven(first) ? queryOf(first, map) : -1;
  const rest = map && [...Array(map.shape[1]).keys()].map((i) => [i, seenOf(map, first.picture, i)]).filter(([, seen]) => seen.length > 1);
  const ofRow = (i) => [...values(map)].slice((first.picture * map.shape[1] + i) * map.shape[2], (first.picture * map.shape[1] + i + 1) * map.shape[2]).map((x) => x || 0);
  const isFlat = map?.weights && rest.reduce((sum, [i]) => sum - ofRow(i).reduce((s, p) => s + (p > 0 ? p * Math.log(p) : 0), 0), 0)
    >= 0.95 * rest.reduce((sum, [, seen]) => sum + Math.log(seen.length), 0);
  if (!even && missed) check('the loss is told with the head and without it', told.includes(lossesOf(said.measure === 'loss without it' ? first : missed)));
  if (!even && map?.weights && rest.length) check('a head that looks almost evenly at everything is said to', one('.headline').textContent.includes('looks almost evenly at everything') === isFlat);
  if (!even && row >= 0 && map.columnTokens) {
    const sum = ofRow(row).reduce((a, b) => a + b);
    check('of a row that does not sum to 1 the sum is told', one('.headline').textContent.includes(`its row sums to ${number(sum, 3)}.`) === Math.abs(sum - 1) > 0.02);
  }
  if (!even && row >= 0 && map.columnTokens) {
    const [at, , weight] = strongestIn(map, first.picture, row), words = weight < 0 ? ' most, with a negative sign: −' : ' it looks most at ';
    check('it looks at what weighs more than 0, and a weight below 0 has its sign', one('.headline').textContent.includes(words)
      && one('.headline').textContent.includes(` (${at})`) && /most at.*, ≈?−/.test(one('.headline').textContent) === false);
    const cell = one('.finding .named-cell'), size = +cell?.getAttribute('width'), paper = one('.finding .paper');
    const place = (axis) => Math.round((cell?.getAttribute(axis) - paper.getAttribute(axis)) / size);
    check('its cell is outlined in the map', place('x') === at && place('y') === row);
    check('its tokens stand at the axes', all('.finding .tick.named').map((x) => x.textContent).join('\n')
      === [[tokensOf(0, siteOf(0, first.site).rows)[row], row], [tokensOf(0, siteOf(0, first.site).columns)[at], at]]
        .map(([token, i]) => visible(token) + (/^\s+$/.test(token) ? i : '')).join('\n'));
    check('no two blanks at an axis look alike', all('.finding .tick').every((x) => !'·⏎⇥'.includes(x.textContent)));
  }
  checkKinds();
  checkRaised();
  checkWalk();
  checkOpening();
  check('the page opens on that head', sitePath() === first.site && state.head === head && (first.row < 0 || state.token.at === first.row));
  const matrices = site().ties.map((tie) => mixOf(0, sitePath(), tie)?.sum ?? []).filter((m) => m.length), talk = one('.talks');
  // That a head speaks to itself is not worth a word.
  const wires = matrices.flatMap((m) => m.flatMap((row, a) => row.map((x, b) => m.length === row.length && a === b && m.length > 1 ? null
    : [x, Math.abs(x) / Math.sqrt(m.flat().reduce((sum, y) => sum + y * y, 0) / m.flat().length), m.flat().length - (m.length === row.length && m.length > 1 ? m.length : 0)]))).filter(Boolean);
  const thickest = wires.length && wires.reduce((a, b) => b[1] > a[1] ? b : a);
  check('it says that heads talk where they do, and which wire stands out', !talk === !wires.length
    && (!talk || talk.textContent.includes(number(thickest[0]))));
  check('a wire that chance explains does not stand out', !talk || talk.textContent.includes('no wire between two of them stands out') === isByChance(thickest[1], thickest[2])
    && talk.textContent.includes(isByChance(thickest[1], thickest[2]) ? `the largest of ${counted(thickest[2], 'random number')} is as large in ${Math.round(100 * chanceOf(thickest[1], thickest[2]))} % of cases` : 'root mean square'));
  const of = site().ties.flatMap((tie) => tie.mixers).filter((m) => m.dims[0] && talk?.textContent.includes(`(${m.name})`));
  check('what queries and keys make is told in words, by their tokens', !talk || !talk.textContent.includes('=')
    && of.every((m) => talk.textContent.includes(`what the ${m.dims[0] === site().maps[0].dims[1] ? 'query' : 'key'} `)));
  const {columns, rows} = table(0, 'heads');
  for (const {measure, heads} of found) {
    const column = columns.findIndex((c) => c.name === measure);
    const own = heads.map(({site: path, tensor}) => rows.filter((r) => r[0] === path && r[column] !== null
      && (r[1] === tensor || r[1].startsWith(tensor + '['))));
    check(`${measure}: its numbers are the table’s`, heads.every(({picture, value}, i) => own[i][picture][column] === value));
    check(`${measure}: the strongest come first`, heads.every(({value}, i) => i === 0 || Math.abs(value) <= Math.abs(heads[i - 1].value)));
    check(`${measure}: none is stronger`, new Set(heads.map((h) => h.tensor)).size > 1 || siteNames.length > 2
      || rows.every((r) => r[1] !== heads[0].tensor || r[column] === null || Math.abs(r[column]) <= Math.abs(heads[0].value)));
  }
  const isListed = (measure, {value}, uniform) => measure === 'entropy' ? value >= 0.95 * uniform : measure === 'distance' ? value > 1.1 * uniform
    : !(measure in patterns && value <= 1.1 * uniform);
  const listed = found.map((f) => ({...f, heads: f.heads.filter((head) => isListed(f.measure, head, uniformOf(f.measure, head)))})).filter((f) => f.heads.length);
  check('what follows a pattern, or looks as far or as widely, no more than equal weights do is not listed', all('.strongest-heads tr').length === listed.length
    && all('.entry-head').length === listed.flatMap((f) => f.heads).length);
  check('each row says whose heads they are', all('.strongest-heads th').every((th, i) => found.find((f) => f.measure === listed[i].measure).heads.every(({tensor, map}) =>
    th.textContent.includes(`${listed[i].measure}, of `) && [...th.querySelectorAll('code')].some((code) => code.textContent === tensor)
      && (!map || map === tensor || th.textContent.includes('shown in ') && th.textContent.includes(map)))));
  listed.forEach(({measure, heads}, i) => heads.forEach((finding, k) => {
    const uniform = uniformOf(measure, finding);
    const line = all('.strongest-heads tr')[i], told = line.querySelectorAll('.entry-head')[k].textContent;
    const once = new Set(heads.map((head) => number(uniformOf(measure, head), 3))).size === 1;
    check(`${measure}: what equal weights have stands beside it, or where all have the same once`,
      (once ? line.querySelector('th').textContent.endsWith(`uniform ${number(uniform, 3)}`) && !told.includes('uniform')
        : told.endsWith(` (uniform ${number(uniform, 3)})`)) === uniform > 0);
    const m = mapOf(0, finding.site, finding.map), count = m?.shape[1];
    const known = {'previous token': () => [...Array(count - 1)].reduce((sum, _, j) => sum + 1 / (j + 2), 0) / (count - 1),
      'entropy': () => [...Array(count - 1)].reduce((sum, _, j) => sum + Math.log(j + 2), 0) / (count - 1)}[measure];
    if (known && m.half && values(m).filter(Number.isNaN).length === m.shape[0] * count * (count - 1) / 2)
      check(`${measure}: that is the mean of causal attention`, Math.abs(uniform - known()) < 1e-9 || count === 1);
  }));
  const last = listed.flatMap(({heads}) => heads).at(-1);
  if (last) await act(all('.entry-head').at(-1), 'click');
  check('an entry selects layer and head', !last || sitePath() === last.site && state.head === placeOfFinding(last).head);
  check('and the picture beside it is of that head', one('.finding svg').getAttribute('aria-label').endsWith(`head ${state.head}`));
  if (siteOf(0, sitePath()).ties.some((tie) => tie.mixers.length)) check('where heads talk, that comes next', all('main section')[1].id === 'talk');
  set({site: 0, head: 0, map: siteOf(0, siteNames[0]).weights, slices: {}, from: 'row'});
  const token = lastToken();
  set({token, pinned: token});
  await frame();
}

// Under a map its colours are told in words, those of signs and those of amounts.
async function checkCaption() {
  check('signs of tokens and scales of tables are told', one('footer').textContent.includes('· is a space')
    && (!one('#heads') || !one('#heads tbody') || one('#heads').textContent.includes('Darkest is the most of a column')));
  const names = site().maps.map((m) => m.name), was = state.map;
  for (const map of names) {
    set({map});
    await frame();
    const {signed} = rangeOf(mapAt(sitePath())), words = signed ? 'orange adds, blue subtracts' : `${state.dark ? 'brighter' : 'darker'} is more`;
    if (Math.max(...mapAt(sitePath()).shape.slice(1)) > 50) check(`${map}: between its tokens every fifth has a number`,
      all('.large .tick:not(.named)').every((x) => x.textContent % 5 === 0));
    const caption = one('.large').textContent, ends = all('.large .bar text').map((x) => x.textContent);
    check(`${map}: the caption says what the colours are, and that the heads share them`, caption.toLowerCase().includes(words)
      && caption.includes('One scale for all '));
    check(`${map}: a scale with signs has a 0: ${ends}`, ends.length > 1 && (!signed || ends.includes('0')));
    checkScale(mapAt(sitePath()));
    // A softmax, or what is made of one.
    const made = (name) => site().maps.find((m) => m.name === name).weights || site().ties.some((tie) => tie.to === name && made(tie.from));
    const forced = site().rows === site().columns && site().causal && made(map);
    check(`${map}: a row without a choice is grey, and it is said`, all('.large .forced').length > 0 === forced
      && caption.includes('Grey: the first token sees itself alone.') === forced);
    const rest = [...values(mapAt(sitePath()))].filter((x, i) => !Number.isNaN(x) && Math.floor(i / mapAt(sitePath()).shape[2]) % mapAt(sitePath()).shape[1]);
    const high = rest.reduce((a, b) => Math.max(a, b), -Infinity), low = rest.reduce((a, b) => Math.min(a, b), Infinity);
    if (forced && !mapAt(sitePath()).weights && rest.length) check(`${map}: nor does it stretch the scale`,
      ends.includes(short(high)) && (low >= 0 || ends.includes(short(low))));
    check(`${map}: where a layer has a name, its path is told for hooks alone`, caption.includes(`For hooks it is ${mapAt(sitePath()).path}.`)
      && one('.large .told').textContent.endsWith(headLabel(sitePath(), mapAt(sitePath()), state.head)));
  }
  set({map: was});
  await frame();
}

// Each number of a scale stands where its colour is.
function checkScale(map) {
  for (const root of [state.root, !state.root]) {
    state.root = root;
    const bar = colourBar(rangeOf(map), 0, 0, 220), range = rangeOf(map), rects = [...bar.querySelectorAll('rect:not(.frame)')];
    const told = [...bar.querySelectorAll('.small:not(.root)')].map((x) => [+x.textContent.replace('−', '-'), +x.getAttribute('x')]);
    const [first, last] = [range.low, range.high].map((x) => place(x, range));
    check(`${map.name}: numbers stand at their colours: ${told.map(([value]) => value)}`, told.length > 2 && told.every(([value, x], i) =>
      i < 2 ? x === 220 * i && Math.abs(value - [range.low, range.high][i]) <= 0.005 * Math.abs(value) : Math.abs(first + (last - first) * x / 220 - place(value, range)) < 0.01));
    check(`${map.name}: a colour is that of its place`, rects.every((rect, i) => {
      const parts = (colour) => colour.match(/\d+/g).map(Number), bent = (i + 0.5) / rects.length * (last - first) + first;
      const value = range.signed ? Math.sign(bent - 0.5) * Math.max(-range.low, range.high) * (root ? (2 * bent - 1) ** 2 : Math.abs(2 * bent - 1))
        : range.low + (range.high - range.low) * (root ? bent ** 2 : bent);
      return parts(rect.getAttribute('fill')).every((x, k) => Math.abs(x - parts(colourOf(value, range))[k]) <= 3);
    }));
    check(`${map.name}: a square root is named`, !!bar.querySelector('.root') === root);
  }
  state.root = !state.root;
}

// The column of the weights that the chosen head looks at most from a query.
function lookedAt(at) {
  const map = mapOf(0, sitePath(), site().weights), [heads, rows, columns] = map.shape, first = (Math.min(state.head, heads - 1) * rows + at) * columns;
  const row = [...values(map).slice(first, first + columns)].map((x) => Math.abs(x) || 0);
  return row.indexOf(Math.max(...row));
}
// The lines between maps are what the text makes of them, for the token that is looked at.
async function checkTalk() {
  const ties = site().ties, drawn = all('.tied').map((g) => g.dataset.tie);
  check('a tie is drawn for each that the text has', drawn.join() === ties.map((t) => `${t.from} ${t.to}`).join());
  const overlaps = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const words = all('svg.talk text').map((x) => [x.textContent, x.getBoundingClientRect()]);
  const over = words.flatMap(([a, box], i) => words.slice(i + 1).filter(([, other]) => overlaps(box, other)).map(([b]) => `${a} ${b}`));
  check(`no words lie over others between maps: ${over}`, over.length === 0);
  const numbers = all('svg.talk .thumb text').map((x) => x.getBBox());
  const ends = all('svg.talk .tied path').flatMap((x) => [0, 4, 8, 12, 16].map((back) => x.getPointAtLength(x.getTotalLength() - back)));
  check('no wire ends in the number of a head', ends.every(({x, y}) => numbers.every((box) => x < box.x || x > box.x + box.width || y < box.y || y > box.y + box.height)));
  for (const at of [0, tokensOf(0, site().rows).length - 1]) {
    set({token: {sequence: site().rows, at}});
    await frame();
    for (const tie of ties) {
      const wires = all(`[data-tie="${tie.from} ${tie.to}"] .wire`);
      if (tie.unknown || !tie.mixers.length) { check('nothing mixes, no wires', wires.length === 0); continue; }
      const sum = (a, b) => tie.mixers.reduce((total, m) => {
        const [, rows, columns] = m.shape, sequence = m.dims[0] === mapOf(0, sitePath(), tie.to).dims[1] ? site().rows : site().columns;
        const isRow = m.dims[0] === mapOf(0, sitePath(), tie.to).dims[1], own = site().rows === site().columns;
        const place = !m.dims[0] ? 0 : !isRow && own ? lookedAt(at) : sequence === site().rows ? at : m.shape[0] - 1;
        return total + values(m)[(place * rows + a) * columns + b];
      }, 0);
      const told = new Set(wires.map((x) => x.textContent));
      const [, from, to] = tie.mixers[0].shape;
      check(`${tie.from} → ${tie.to}: a wire for each pair of heads`, wires.length === from * to);
      check(`${tie.from} → ${tie.to}: wires are sums of the matrices at ${at}`, [...Array(from * to).keys()].every((i) =>
        [...told].some((x) => x.endsWith(`: ${tie.from} ${Math.floor(i / to)} → ${tie.to} ${i % to} = ${number(sum(Math.floor(i / to), i % to))}`))));
      check(`${tie.from} → ${tie.to}: each term is named`, tie.mixers.every((m) => one('.sums').textContent.includes(m.name)));
    }
  }
}

// Cells tell the table's numbers, and have them in their titles.
function checkGrid(id, numbers) {
  const told = all(`#${id} .cell title`).map((x) => x.textContent.split(': ').at(-1));
  check(`${id}: a cell for each number of the table`, told.length === numbers.length);
  const sorted = (list) => [...list].sort().join();
  check(`${id}: cells have the table’s numbers`, sorted(told) === sorted(numbers.map((x) => number(x))));
}
async function checkInterventions() {
  if (!one('#changes')) return;
  const {columns, rows} = table(0, 'changes');
  for (const [i, name] of ['Δ loss', 'Δ probability'].entries()) {
    await act(all('#changes .choice button')[i], 'click');
    const column = columns.findIndex((c) => c.name === name);
    checkGrid('changes', rows.map((row) => row[column]));
  }
  check('what is without a change is told', one('#changes .caption').textContent.includes(number(frameOf(0).changes.loss[0])));
}
function checkAttribution() {
  if (!one('#attribution')) return;
  const {rows} = table(0, 'attribution'), {logit} = frameOf(0).attribution;
  checkGrid('attribution', rows.map((row) => row[2]));
  const sum = rows.reduce((total, row) => total + row[2], 0);
  const {slots} = frameOf(0).attribution;
  check('a part that fills a slot is told with a word', all('#attribution .label').every((x) => !x.textContent.includes('layer') || /, (attention|cross-attention|feed-forward)$/.test(x.textContent))
    && Object.values(slots).filter((slot) => slot === 'FeedForward').length === all('#attribution .label').filter((x) => x.textContent.endsWith(', feed-forward')).length);
  if (one('#lens')) check('a point on the way says what was added', all('#lens .label').every((x) => /, (embedding|after (attention|cross-attention|feed-forward))$/.test(x.firstChild.data)));
  check('the parts’ sum is the logit that is told', Math.abs(sum - logit[0]) < 1e-6 && one('#attribution .caption').textContent.includes(number(logit[0])));
}
async function checkCircuits() {
  if (!one('#circuits')) return;
  const {circuits} = frameOf(0), heads = new Set(circuits.map((c) => c.path + c.head));
  check('a button for each head with circuits', all('#circuits .entries button').length === heads.size);
  await act(all('#circuits .entries button').at(-1), 'click');
  const last = circuits.filter((c) => c.path + c.head === circuits.at(-1).path + circuits.at(-1).head);
  const drawn = all('#circuits svg.map');
  check('its circuits stand side by side', drawn.map((x) => x.getAttribute('aria-label')).join()
    === last.map((c) => `${c.kind} of ${siteLabel(c.path)}, head ${c.head}`).join());
  const box = drawn[0].getBoundingClientRect(), cell = drawn[0].querySelector('image').getBoundingClientRect();
  drawn[0].dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: cell.left + 2, clientY: cell.top + 2}));
  check('what is pointed at is told', box.width > 0 && one('#circuits .read').textContent.endsWith(approximate(values(last[0].map)[0], last[0].map)));
}

// Measures are of the tensor that is shown, or it is said why it has none.
async function checkMeasures() {
  for (const {name, unmeasured} of site().maps) {
    set({map: name});
    await frame();
    const tensors = new Set(all('#heads tbody td:nth-child(2)').map((x) => x.textContent.replace(/\[.*/, '')));
    check(`measures are of ${name}`, unmeasured ? one('#heads').innerText.includes(unmeasured) : tensors.has(name));
  }
  set({map: site().weights});
  await frame();
}

async function checkMaps() {
  const thumbs = all('.grid .thumb');
  check('a small map a head', thumbs.length === siteNames.reduce((sum, path) => sum + (mapAt(path)?.shape[0] ?? 0), 0));
  await act(thumbs.at(-1), 'click');
  check('a click chooses it', thumbs.at(-1).classList.contains('here') && sitePath() === siteNames.filter((p) => mapAt(p)).at(-1));
  const svg = one('.large svg'), image = svg.querySelector('image'), box = image.getBoundingClientRect();
  svg.dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: box.left + 1, clientY: box.bottom - 1}));
  await frame();
  const map = mapAt(sitePath()), [, rows, columns] = map.shape;
  const value = values(map)[((state.head + 1) * rows - 1) * columns];
  check('a cell that is pointed at is told', Number.isNaN(value) || one('.large .read').textContent.includes(approximate(value, map)));
  await act(svg, 'mouseleave');
  await act(thumbs[0], 'click');
}

async function checkSaving() {
  for (const folded of all('details')) folded.open = true;
  await frame();
  const saved = [];
  const make = URL.createObjectURL;
  URL.createObjectURL = (blob) => { saved.push(blob); return make.call(URL, blob); };
  for (const button of all('.save').filter((x) => x.textContent === 'SVG')) button.click();
  for (const button of all('.save').filter((x) => x.textContent === 'CSV')) button.click();
  const texts = await Promise.all(saved.map((blob) => blob.text()));
  const pictures = texts.filter((text) => text.startsWith('<svg')), tables = texts.filter((text) => !text.startsWith('<'));
  check('every picture is saved', pictures.length === all('figure').length);
  for (const picture of pictures) {
    const parsed = new DOMParser().parseFromString(picture, 'image/svg+xml');
    check('a saved picture is well-formed', !parsed.querySelector('parsererror') && parsed.documentElement.tagName === 'svg');
    check('and stands alone', !/var\(|class=|href="http/.test(picture));
    check('a name is in italics in it, too', [...parsed.querySelectorAll('tspan')].every((x) => x.closest('text').getAttribute('font-style') === 'italic'));
  }
  check('every table is saved', tables.length === all('.save').filter((x) => x.textContent === 'CSV').length);
  for (const table of tables) check('a saved table has a line of names and lines of cells', table.split('\n').length > 2 && /^"run","(checkpoint|text)"/.test(table));
  saved.length = 0;
  all('.save').find((x) => x.textContent === 'PNG')?.click();
  for (let i = 0; i < 1500 && !saved.length; ++i) await new Promise((done) => setTimeout(done, 20));
  check('a picture is saved as PNG', saved.length === 1 && saved[0].type === 'image/png' && saved[0].size > 100);
  URL.createObjectURL = make;
}

// ---- What is printed is what was computed ----

// Values of every saved tensor, as the page tells them, from the numbers in the file.
function checkNumbers(tensors) {
  let compared = 0;
  for (const s of frameOf(0).sites) {
    const rows = table(0, 'values').rows.filter((row) => row[0] === s.path);
    for (const [, name, path, shape, mean, deviation, smallest, largest] of rows) {
      const tensor = tensors.get(path);
      if (!tensor) continue;
      ++compared;
      const all_ = [...tensor.values], n = all_.length, sum = all_.reduce((a, b) => a + b, 0);
      const least = all_.reduce((a, b) => Math.min(a, b)), most = all_.reduce((a, b) => Math.max(a, b));
      const spread = Math.sqrt(all_.reduce((a, b) => a + (b - sum / n) ** 2, 0) / n), size = Math.max(Math.abs(least), Math.abs(most));
      check(`${path}: smallest and largest`, number(least) === number(smallest) && number(most) === number(largest));
      check(`${path}: mean and deviation`, Math.abs(mean - sum / n) <= 1e-5 * size && Math.abs(deviation - spread) <= 1e-4 * size);
      const map = s.maps.find((m) => m.name === name);
      if (map) checkCells(map, asMap(tensor, dimsOf(shape), map));
    }
    for (const m of s.maps) {
      const tensor = tensors.get(m.path), row = rows.find((r) => r[2] === m.path);
      if (!tensor) continue;
      if (!m.unmeasured) checkHeads(s, m, tensor, row);
      const histogram = s.histograms.find((h) => h.map === m.name);
      if (histogram) checkHistogram(m, histogram, asMap(tensor, dimsOf(row[3]), m));
    }
    for (const m of s.ties.flatMap((tie) => tie.mixers)) {
      const tensor = tensors.get(m.path), row = rows.find((r) => r[2] === m.path), sign = m.name.startsWith('−') ? -1 : 1;
      if (tensor && row) checkCells({...m, outer: []}, asMap(tensor, dimsOf(row[3]), {...m, outer: []}).map((x) => sign * x));
    }
    for (const m of s.mixing) {
      const tensor = tensors.get(`${s.path}/${m.name}`);
      if (tensor) check(`${s.path}/${m.name}: its entries`, m.values.flat().every((x, i) => near(x, tensor.values[i], 1e-6)));
    }
  }
  for (const path of globalThis.savedAt ? [] : frameOf(0).logits) {
    check(`the logits ${path} are saved`, tensors.has(path));
    checkProbabilities(path, tensors.get(path));
  }
  checkShare(tensors);
  check('tensors were compared', compared > 0);
}
// The part of its weight that a head is said to have on a kind of token is that of the saved tensor.
function checkShare(tensors) {
  const said = findings().length ? headline() : undefined, first = said?.heads[0], {map} = first ? placeOfFinding(first) : {}, tensor = tensors.get(map?.path);
  const told = one('.headline')?.textContent.match(/: ≈?([\d.]+) of its (?:absolute )?weight in /);
  if (!told || !tensor || said.measure in patterns) return;
  const s = siteOf(0, first.site), [, n, m] = map.shape, all_ = asMap(tensor, dimsOf(table(0, 'values').rows.find((r) => r[2] === map.path)[3]), map);
  const from = tokensOf(0, s.rows), to = tokensOf(0, s.columns), {has} = kindOf(first, map), shares = [];
  for (let i = 0; i < n; ++i) {
    const W = all_.slice((first.picture * n + i) * m, (first.picture * n + i + 1) * m).slice(0, map.half ? i + 1 : m).map(Math.abs);
    const on = W.filter((_, j) => has({from, to, i, j, isOwn: s.rows === s.columns})), total = W.reduce((a, b) => a + b, 0);
    if (on.length && on.length < W.length && total > 0) shares.push(on.reduce((a, b) => a + b) / total);
  }
  const mean = shares.reduce((a, b) => a + b, 0) / shares.length, last = 10 ** (Math.floor(Math.log10(mean)) - 1);
  check(`${map.path}: ${told[1]} of its weight is on a kind of token, ${mean} in the tensor`, Math.abs(mean - told[1]) <= (map.decimals === null ? 1.5 : 0.51) * last);
}
const near = (a, b, share) => Math.abs(a - b) <= share * Math.max(1e-6, Math.abs(b));
function checkCells(map, tensor) {
  const shown = values(map);
  let wrong = 0;
  for (let i = 0; i < shown.length; ++i) {
    if (Number.isNaN(shown[i])) continue;
    const right = map.decimals === null ? Math.abs(shown[i] - tensor[i]) <= uncertainty(map) * 1.001 + 1e-7 * Math.abs(tensor[i])
      : approximate(shown[i], map).replace('−', '-').replace(/^-(0\.?0*)$/, '$1') === tensor[i].toFixed(map.decimals).replace(/^-(0\.?0*)$/, '$1');
    if (!right) ++wrong;
  }
  check(`${map.path}: ${wrong} of ${shown.length} cells are not the tensor’s`, wrong === 0);
  check(`${map.path}: its scale`, map.weights || Math.abs(map.low - shown.reduce((a, b) => b < a ? b : a, Infinity)) <= map.step);
}
// Statistics that follow from the weights and the tokens: the means, over rows that have a choice, of
// what `ofRow` gives where it is a number.
function checkHeads(s, map, tensor, row) {
  const weights = asMap(tensor, dimsOf(row[3]), map), [heads, n, m] = map.shape;
  const {columns, rows} = table(0, 'heads'), tokens = tokensOf(0, s.rows);
  const total = (W) => W.reduce((a, w) => a + Math.abs(w), 0);
  const onEarlier = (W, i, after) => {
    const sum = [...Array(Math.max(0, i - after)).keys()].filter((j) => tokens[j] === tokens[i]).map((j) => W[j + after]);
    return sum.length ? sum.reduce((a, b) => a + b) / total(W) : NaN;
  };
  const own = rows.filter(([path, tensor]) => path === s.path && (tensor === map.name || tensor.startsWith(map.name + '[')));
  check(`${map.path}: a row of measures a picture`, own.length >= heads);
  const ofRow = {
    'entropy': (W) => -W.filter((w) => w > 0).map((w) => w / total(W)).reduce((a, p) => a + p * Math.log(p), 0),
    'distance': (W, i) => W.reduce((a, w, j) => a + Math.abs(w) * Math.abs(i - j), 0) / total(W),
    'previous token': (W, i) => i ? W[i - 1] / total(W) : NaN,
    'duplicate token': (W, i) => onEarlier(W, i, 0),
    'induction': (W, i) => onEarlier(W, i, 1),
  };
  for (let head = 0; head < heads; ++head) {
    const told = own[head];
    columns.forEach(({name}, at) => {
      if (!ofRow[name] || told[at] === null) return;
      const found = Array.from({length: n}, (_, i) => [weights.slice((head * n + i) * m, (head * n + i + 1) * m), i])
        .filter(([W, i]) => W.some((w) => w !== 0) && (map.half ? i > 0 : m > 1)).map(([W, i]) => ofRow[name](W, i)).filter((x) => !Number.isNaN(x));
      const mean = found.reduce((a, b) => a + b, 0) / found.length;
      check(`${map.path}, picture ${head}: its ${name}`, found.length > 0 && near(told[at], mean, 1e-4));
      const [first] = findings().filter((f) => f.measure === name).flatMap((f) => f.heads)
        .filter((f) => f.site === s.path && f.tensor === map.name && f.picture === head);
      if (first) check(`${map.path}, picture ${head}: its ${name} is shown by a row with a choice`, first.row > (map.half ? 0 : -1));
    });
  }
}
function checkHistogram(map, {low, high, counts}, values_) {
  const [, n, m] = map.shape, bins = counts[0].length, width = (high - low) / bins;
  const own = counts.map(() => Array(bins).fill(0));
  values_.forEach((x, at) => {
    const row = Math.floor(at / m) % n;
    if (map.half && (at % m > row || map.weights && row === 0)) return;  // hidden, or always 1
    ++own[Math.floor(at / m / n)][Math.min(bins - 1, Math.max(0, Math.floor((x - low) / width)))];
  });
  // The ends of U are told in fewer digits than they have: a value may fall on the other side.
  const moved = own.flat().reduce((sum, count, i) => sum + Math.abs(count - counts.flat()[i]), 0);
  check(`${map.path}: its histogram, but for ${moved}`, map.weights ? moved === 0 : moved <= 0.05 * values_.length);
}
// The likeliest tokens' probabilities are those of the logits, and so are the lens's at its end, and
// the logit that is a sum of parts is one of them.
function checkProbabilities(path, {shape, values: logits}) {
  const size = shape.at(-1), {columns, rows} = table(0, 'predictions'), lens = table(0, 'lens').rows;
  const row = (at) => [...logits.slice(at * size, (at + 1) * size)];
  rows.forEach((told_, i) => {
    const line = row(i), most = Math.max(...line), total = line.reduce((sum, x) => sum + Math.exp(x - most), 0);
    const chances = line.map((x) => Math.exp(x - most) / total).sort((a, b) => b - a);
    const told = told_.filter((_, k) => columns[k].name.startsWith('probability '));
    check(`after ${i}: the probabilities of the likeliest`, told.length > 0 && told.every((p, k) => near(p, chances[k], 1e-4)));
    const last = lens.filter((r) => r[2] === i).at(-1);
    check(`after ${i}: the lens ends on them`, !last || near(last[5], chances[0], 1e-4));
  });
  check(`the page says that they are of ${path}`, [...one('#predictions').querySelectorAll('code')].some((x) => x.textContent === path));
  const asked = frameOf(0).attribution;
  check('the logit whose parts are told', !one('#attribution') || row(asked.position).some((x) => Math.abs(x - asked.logit[0]) < 1e-4));
}
// All pictures at once, as --pictures takes them from the page.
function checkPictures() {
  writePictures();
  const files = Object.entries(JSON.parse(one('body > script[type="application/json"]').textContent));
  check('there are pictures', files.length > 0 || !siteNames.length);
  for (const [name, picture] of files) {
    const parsed = new DOMParser().parseFromString(picture, 'image/svg+xml');
    check(`the picture ${name} is well-formed`, !parsed.querySelector('parsererror') && parsed.documentElement.tagName === 'svg');
    check(`the picture ${name} has a size and stands alone`, Number(parsed.documentElement.getAttribute('width')) > 0
      && Number(parsed.documentElement.getAttribute('height')) > 0 && !/var\(|class=|href="http|NaN|undefined/.test(picture.replace(/base64,[^"]*/g, '')));
  }
}
function checkPredictions() {
  for (const row of table(0, 'predictions')?.rows ?? []) {
    const chances = row.filter((x, i) => i > 5 && i % 2 === 0);
    check('the likeliest come first, and are probabilities', chances.every((p, i) => p >= 0 && p <= 1 && (i === 0 || p <= chances[i - 1])));
  }
  const rows = (table(0, 'predictions')?.rows ?? []).filter((row) => row[4] !== null);
  const loss = -rows.reduce((sum, row) => sum + Math.log(row[4]), 0) / rows.length;
  if (rows.length && frameOf(0).losses.length === 1)
    check('the loss is that of the probabilities', Math.abs(loss - frameOf(0).losses[0]) < 1e-3 * Math.max(1, loss));
}

async function main() {
  while (document.documentElement.dataset.drawn !== 'all') await frame();
  checkSections();
  checkText();
  checkWidth();
  checkContrast();
  await press('t');
  await frame();
  checkContrast();
  await press('t');
  if (siteNames.length && !globalThis.brief) {
    await checkFindings();
    await checkTokens();
    await checkKeys();
    await checkCross();
    await checkMaps();
    await checkMeasures();
    await checkInterventions();
    checkAttribution();
    await checkCircuits();
    await checkAxes();
    await checkCaption();
    await checkTalk();
  }
  if (!globalThis.brief) await checkSaving();
  if (globalThis.savedTensors) checkNumbers(readTensors(globalThis.savedTensors, globalThis.savedAt));
  if (siteNames.length) checkPredictions();
  checkNetwork();
  if (!globalThis.brief) checkPictures();
}
main().catch((error) => check('the test runs: ' + error.stack, false)).finally(() => {
  for (const what of verdicts.failed) console.log('FAILED: ' + what.replaceAll('\n', ' '));
  console.log(`${verdicts.passed} passed, ${verdicts.failed.length} failed`);
});
