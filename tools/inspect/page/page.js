// page.js: the sections, the bar that says what is looked at, the keyboard.

// A section is drawn anew when something in `needs` changes; `update` is for what changes often.
const sections = [
  {id: 'findings', title: 'What stands out', says: 'the strongest heads', make: findingsSection, has: () => findings().length,
    needs: ['frame', 'view', 'dark'], often: ['site', 'map', 'slices', 'head', 'root', 'pinned']},
  {id: 'tokens', title: 'Tokens', says: 'who looks at whom', make: tokensSection, has: () => siteNames.length,
    needs: ['site', 'view'], often: ['token', 'from', 'off', 'map', 'slices', 'frame', 'dark', 'head']},
  {id: 'maps', title: 'Maps', says: 'every layer, every head', make: gridSection, has: () => siteNames.length,
    needs: ['map', 'slices', 'frame', 'view', 'dark', 'root'], often: ['site', 'head', 'pinned']},
  {id: 'talk', title: headsTalk() ? 'Before and after mixing' : 'From tensor to tensor',
    says: headsTalk() ? 'what the heads say to each other' : 'how maps are made of each other', make: talkSection,
    has: () => siteNames.length, needs: ['site', 'slices', 'frame', 'view', 'dark', 'root'], often: ['map', 'head', 'token']},
  {id: 'mixing', title: 'Mixing matrices', says: 'who speaks to whom', make: matricesSection,
    has: () => anySite((s) => s.mixing.length), needs: ['frame', 'view', 'dark'], often: []},
  {id: 'heads', title: 'Heads', says: 'what each one does, in numbers', make: headsSection,
    has: () => anyRow('heads'), needs: ['map', 'slices', 'site', 'frame', 'view', 'dark'], often: []},
  {id: 'ablation', title: 'Without a head', says: 'what the loss says about it', make: ablationSection,
    has: () => anySite((s) => s.ablation), needs: ['frame', 'view', 'dark'], often: []},
  {id: 'changes', title: 'Interventions', says: 'what a change of values does', make: changesSection,
    has: () => anyRow('changes'), needs: ['frame', 'view', 'dark'], often: []},
  {id: 'attribution', title: 'Where a logit comes from', says: 'what each part adds to it', make: attributionSection,
    has: () => anyRow('attribution'), needs: ['frame', 'view', 'dark'], often: []},
  {id: 'circuits', title: 'Circuits', says: 'what a head does with tokens as such', make: circuitsSection,
    has: () => runs.some((_, r) => frameOf(r)?.circuits.length || frameOf(r)?.withoutCircuit.length),
    needs: ['frame', 'view', 'dark', 'root'], often: []},
  {id: 'histograms', title: 'Histograms', says: 'where the weights lie', make: histogramsSection,
    has: () => anySite((s) => s.histograms.length), needs: ['frame', 'view', 'dark', 'off', 'site', 'map', 'head'], often: []},
  {id: 'predictions', title: 'Predictions', says: 'what comes next', make: predictionsSection,
    has: () => anyRow('predictions'), needs: ['frame', 'view', 'dark'], often: ['token']},
  {id: 'lens', title: 'Logit lens', says: 'what it would say after each layer', make: lensSection,
    has: () => anyRow('lens'), needs: ['frame', 'view', 'dark'], often: []},
  {id: 'text', title: 'The text', says: 'what was run, and what it costs', make: textSection,
    has: () => runs.some((run) => run.texts.length) && siteNames.length, needs: ['site', 'frame', 'view'], often: []},
  {id: 'training', title: 'Training', says: 'how it came to this', make: curvesSection,
    has: () => runs.some((run) => run.curves.length || run.samples.length), needs: ['frame', 'dark'], often: []},
];
function anySite(test) {
  return runs.some((_, r) => frameOf(r)?.sites.some(test));
}
function headsTalk() {
  return anySite((s) => s.ties.some((tie) => tie.mixers.length || tie.unknown));
}
function anyRow(name) {
  return runs.some((_, r) => table(r, name)?.rows.length);
}

// ---- What is looked at changes ----

const live = element('div', {class: 'unseen', 'aria-live': 'polite'});
let bar = null;
let shown = [];
const changed = new Set();
const redraw = settled(() => {
  const keys = new Set(changed);
  changed.clear();
  const touches = (list) => list.some((key) => keys.has(key));
  if (touches(['site', 'map', 'slices', 'head', 'off', 'frame', 'view', 'root', 'dark'])) bar?.update();
  if (touches(['frame'])) showRuns();
  for (const {section, drawn} of shown) {
    if (touches(section.needs)) drawn.build?.();
    if (touches(section.needs) || touches(section.often)) drawn.update?.();
  }
});
// set({head: 2}): what is looked at from now on.
function set(next) {
  for (const [key, value] of Object.entries(next)) {
    if (state[key] === value) continue;
    state[key] = value;
    changed.add(key);
  }
  if (changed.has('site') && state.token && !sequencesOf(site()).includes(state.token.sequence)) {
    state.token = state.pinned = lastToken();
    changed.add('token');
  }
  // Queries look at the memory; a token of the memory is looked at.
  if ((changed.has('site') || changed.has('token')) && state.token && site().rows !== site().columns) {
    state.from = state.token.sequence === site().rows ? 'row' : 'column';
    changed.add('from');
  }
  if (changed.has('site') && !mapAt(sitePath()) && site().weights) {
    state.map = site().weights;
    changed.add('map');
  }
  const heads = mapAt(sitePath())?.shape[0] ?? 1;
  if (state.head >= heads) { state.head = heads - 1; changed.add('head'); }
  if (changed.has('site') || changed.has('head') || changed.has('map'))
    live.textContent = `${siteLabel(sitePath())}, ${state.map}, head ${state.head}`;
  if (changed.has('dark')) document.documentElement.dataset.theme = state.dark ? 'dark' : 'light';
  if (changed.size) redraw();
}

const lastToken = () => ({sequence: site().rows, at: tokensOf(baseRun(), site().rows).length - 1});

// ---- The bar ----

function makeBar() {
  const sites = element('select', {'aria-label': 'layer', onchange: (e) => set({site: +e.target.value})},
    siteNames.map((path, i) => element('option', {value: i}, siteLabel(path))));
  const choice = (label, names, key) => element('div', {class: 'choice', role: 'group', 'aria-label': label},
    names.map(([value, name]) => element('button', {'data-value': value, onclick: () => set({[key]: value})}, name)));
  const named = (name, group) => element('span', {class: 'named'}, element('small', {}, name), group);
  const maps = choice('map', mapNames().map((name) => [name, name]), 'map');
  const views = choice('run', [[0, runs[0].name], [1, runs[1]?.name], [difference, 'difference']], 'view');
  const heads = element('div', {class: 'heads', role: 'group', 'aria-label': 'heads'});
  const axes = element('div', {class: 'axes'});
  const step = element('output');
  const slider = element('input', {type: 'range', min: 0, max: runs[0].frames.length - 1, 'aria-label': 'checkpoint',
    oninput: (e) => set({frame: +e.target.value})});
  const meaning = element('p', {class: 'meaning'});
  const root = element('button', {title: 'colours with the square root of a value, so that small ones are seen (s)',
    onclick: () => set({root: !state.root})}, '√ colours');
  const node = element('div', {class: 'controls'}, element('label', {}, sites), named('tensor', maps), axes, root, named('', heads),
    runs[0].frames.length > 1 && element('label', {class: 'slider'}, slider, step), twoRuns && views, meaning);

  function update() {
    // What one goes to stands under the bar, if that stays.
    const stays = getComputedStyle(node).position === 'sticky';
    document.documentElement.style.scrollPaddingTop = `${stays ? node.offsetHeight : 0}px`;
    sites.value = state.site;
    slider.value = state.frame;
    step.textContent = 'step ' + grouped(runs[0].frames[state.frame].step);
    root.setAttribute('aria-pressed', state.root);
    meaning.textContent = mapAt(sitePath())?.meaning ?? '';
    for (const button of maps.children) {
      button.setAttribute('aria-pressed', button.dataset.value === state.map);
      button.disabled = !mapAt(sitePath(), button.dataset.value);
    }
    axes.replaceChildren(...(mapAt(sitePath())?.outer ?? []).map(([name, size]) => element('select', {'aria-label': name,
      onchange: (e) => set({slices: {...state.slices, [name]: +e.target.value}})}, Array.from({length: size}, (_, i) =>
      element('option', {value: i, selected: i === (state.slices[name] ?? 0)}, `${name}=${i}`)))));
    for (const button of views.children) button.setAttribute('aria-pressed', +button.dataset.value === state.view);
    const count = mapAt(sitePath())?.shape[0] ?? 0;
    heads.previousSibling.textContent = `head of ${state.map}`;  // those of another tensor may be others
    heads.replaceChildren(...Array.from({length: count}, (_, head) => element('button', {
      class: 'head' + (head === state.head ? ' here' : ''), 'aria-pressed': !isOff(head),
      'aria-label': `head ${head}`, title: `head ${head}: a click selects it; with shift its lines are hidden or shown; twice: this one only`,
      style: {'--colour': headColour(head)}, onclick: (e) => e.shiftKey ? toggle(head) : set({head}), ondblclick: () => only(head)}, head)));
    // The chosen one of many heads is in view.
    const here = heads.children[state.head];
    if (here) heads.scrollLeft = here.offsetLeft - heads.offsetLeft - (heads.clientWidth - here.offsetWidth) / 2;
  }
  return {node, update};
}
function toggle(head) {
  const count = mapAt(sitePath())?.shape[0] ?? 1;
  const off = new Set(Array.from({length: count}, (_, i) => i).filter(isOff));
  if (!off.delete(head)) off.add(head);
  set({off});
}
// This head only; all of them, if it is the only one.
function only(head) {
  const count = mapAt(sitePath())?.shape[0] ?? 1;
  const off = new Set(Array.from({length: count}, (_, i) => i).filter((i) => i !== head));
  const already = [...off].every(isOff) && !isOff(head);
  set({off: already ? new Set() : off, head});
}

// ---- The keyboard ----

const keys = [
  ['← →', 'head', {ArrowLeft: () => moveHead(-1), ArrowRight: () => moveHead(1)}],
  ['↑ ↓', 'layer', {ArrowUp: () => moveSite(-1), ArrowDown: () => moveSite(1)}],
  ['m M', 'map: the next, the one before', {m: () => moveMap(1), M: () => moveMap(-1)}],
  ['0 … 9', 'a head’s lines on or off', Object.fromEntries(Array.from({length: 10}, (_, i) => [i, () => toggle(i)]))],
  ['o', 'only this head’s lines, or all again', {o: () => only(state.head)}],
  ['a', 'all heads’ lines', {a: () => set({off: new Set()})}],
  [', .', 'token: the one before, the next', {',': () => moveToken(-1), '.': () => moveToken(1)}],
  ['d', 'what the token looks at, or what looks at it', {d: () => turn(state.from === 'row' ? 'column' : 'row')}],
  ['[ ]', 'checkpoint', {'[': () => moveFrame(-1), ']': () => moveFrame(1)}],
  ['c', 'the first run, the second, their difference', {c: () => twoRuns && set({view: (state.view + 1) % 3})}],
  ['s', 'colours straight, or with the square root', {s: () => set({root: !state.root})}],
  ['t', 'light or dark', {t: () => set({dark: !state.dark})}],
  ['Esc', 'let go of the token', {Escape: () => set({token: null, pinned: null})}],
  ['?', 'this help', {'?': () => help.open ? help.close() : help.showModal()}],
];
const within = (i, count) => Math.min(count - 1, Math.max(0, i));
const moveHead = (by) => set({head: within(state.head + by, mapAt(sitePath())?.shape[0] ?? 1)});
const moveSite = (by) => set({site: within(state.site + by, siteNames.length)});
const moveFrame = (by) => set({frame: within(state.frame + by, runs[0].frames.length)});
function moveMap(by) {
  const there = mapNames().filter((name) => mapAt(sitePath(), name));
  set({map: there[(there.indexOf(state.map) + by + there.length) % there.length]});
}
function moveToken(by) {
  const sequence = state.token?.sequence ?? site().rows;
  const token = {sequence, at: within((state.token?.at ?? -1) + by, tokensOf(baseRun(), sequence).length)};
  set({token, pinned: token});
}
const help = element('dialog', {'aria-label': 'keys'}, element('h2', {}, 'Keys'),
  element('table', {}, element('tbody', {}, keys.map(([key, what]) => element('tr', {},
    element('th', {scope: 'row'}, element('kbd', {}, key)), element('td', {}, what))))),
  element('form', {method: 'dialog'}, element('button', {}, 'close')));

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest?.('input, select, textarea, dialog');
  if (typing && event.key !== '?') return;
  for (const [, , acts] of keys)
    if (acts[event.key] && (siteNames.length || 't?'.includes(event.key))) {
      event.preventDefault();
      return acts[event.key]();
    }
}

// ---- The page ----

function header() {
  const theme = element('button', {title: 'light or dark (t)', 'aria-label': 'light or dark', onclick: () => set({dark: !state.dark})}, '◐');
  const keysButton = element('button', {title: 'keys (?)', 'aria-label': 'keys', onclick: () => help.showModal()}, '?');
  return element('header', {}, element('div', {class: 'top'}, element('h1', {}, report.title),
    element('nav', {'aria-label': 'sections'}, shown.map(({section}) => element('a', {href: '#' + section.id}, section.title))),
    element('div', {class: 'switches'}, theme, keysButton)),
    runLines);
}
const runLines = element('div');
function showRuns() {
  runLines.replaceChildren(...runs.map((run, r) => element('p', {class: 'run'}, element('b', {}, run.name), ' ', run.description,
    run.frames.length ? ` · ${lossText(r)}` : '')));
}
function lossText(run) {
  const {losses, counted} = frameOf(run), known = losses.map((x, i) => [x, counted[i]]).filter(([x]) => x !== null);
  const {name, tokens} = runs[run].sequences.at(-1) ?? {};
  const of = name === 'own answer' ? 'the model’s own answer (how sure it is, right or wrong)' : name === 'answer' ? 'the answer' : 'this text';
  return `step ${grouped(frameOf(run).step)}` + (known.length ? ` · loss on ${of} ${known.map(([x, n]) =>
    `${number(x)} nats a token, over ${n === tokens.length ? 'all' : n + ' of'} ${tokens.length} tokens`).join(', ')}`
    : tokensOf(run, runs[run].sequences.length - 1).length > 1 ? ' · no loss, as this text has no answer' : '');
}

// Everything anew, from the top: each section gives way to what the reader does meanwhile.
function drawAll(from = 0) {
  const next = shown[from];
  if (!next) return document.documentElement.dataset.drawn = 'all';
  next.drawn.build?.();
  next.drawn.update?.();
  setTimeout(drawAll, 0, from + 1);
}

function start() {
  document.title = report.title;
  document.documentElement.dataset.theme = state.dark ? 'dark' : 'light';
  const names = mapNames();
  state.map = siteNames.length && site().weights || names.at(-1) || '';
  if (siteNames.length) state.token = state.pinned = lastToken();
  if (findings().length) choose(headline().heads[0]);
  // Where heads talk, what they say to each other comes first.
  const rank = ({id}) => id === 'findings' ? 0 : id === 'talk' && headsTalk() ? 1 : 2;
  const main = element('main');
  shown = sections.filter((section) => section.has()).sort((a, b) => rank(a) - rank(b)).map((section) => {
    const body = element('div', {class: 'body'});
    main.append(element('section', {id: section.id, 'aria-labelledby': section.id + '-title'},
      element('h2', {id: section.id + '-title'}, section.title, ' ', element('small', {}, section.says)), body));
    return {section, body};
  });
  document.body.append(header());
  if (siteNames.length) {
    bar = makeBar();
    document.body.append(bar.node);
  }
  document.body.append(main, footer(), live, help);
  for (const entry of shown) entry.drawn = entry.section.make(entry.body);
  showRuns();
  bar?.update();
  if (location.hash === '#pictures') return writePictures();
  drawAll();
  document.addEventListener('keydown', onKey);
  let wide = innerWidth;
  addEventListener('resize', settled(() => {
    if (innerWidth === wide) return;
    wide = innerWidth;
    drawAll();
  }));
  if (report.refresh > 0) setTimeout(() => location.reload(), 1000 * report.refresh);
}
function footer() {
  const map = runs.flatMap((run) => run.frames.flatMap((f) => f.sites.flatMap((s) => s.maps)))[0];
  return element('footer', {}, element('p', {},
    map && (map.decimals === null ? 'Maps are kept here in 8 bits, on the scale that stands under them: what is read off a cell is told with its uncertainty. '
      : 'Maps are kept here in 16 bits: what is read off a cell has the digits of the tensor. '),
    report.saved && ['The tensors in full are in ', element('code', {}, report.saved), '. '],
    'Layers, heads and positions are counted from 0.'),
    element('p', {class: 'legend'}, 'Of tokens · is a space and ⏎ the end of a line; the one that begins or ends a text is read, not written.'),
    element('p', {}, report.program));
}

start();
