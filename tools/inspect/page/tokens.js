// tokens.js: the text, and lines from the token that is looked at to what its heads attend to.

const tokenFont = '13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const ruler = element('canvas').getContext('2d');

// Boxes of a sequence's tokens, line by line, from the height y on; a newline ends a line.
function layTokens(tokens, sequence, y, width) {
  ruler.font = tokenFont;
  const line = 74;
  const widths = tokens.map((token) => Math.max(18, Math.ceil(ruler.measureText(visible(token)).width) + 8));
  const whole = widths.reduce((sum, w) => sum + w + 3, 0), lines = Math.ceil(whole / width);
  // Few tokens take the width; many are as long on each line, so that none is left alone on the last.
  const space = lines === 1 ? Math.min(60, 3 + (width - whole) / Math.max(1, tokens.length)) : 3;
  width = lines === 1 ? width + 3 : Math.min(width, whole / lines + 40);
  let x = 0;
  const boxes = tokens.map((token, at) => {
    const shown = visible(token), w = widths[at];
    if (x + w > width && x > 0) { x = 0; y += line; }
    const box = {sequence, at, token, shown, x, y, width: w, height: 24};
    x += w + space;
    if (token === '\n' && at > 0 && tokens[at + 1] !== '\n') { x = 0; y += line; }
    return box;
  });
  return {boxes, end: (x > 0 ? y + line : y)};
}

// The sequences of a site: one for self-attention, the memory's and the queries' for cross.
const sequencesOf = (s) => s.rows === s.columns ? [s.rows] : [s.columns, s.rows];

// The tokens that a token looks at, or that look at it: a list for each head, and whose they are.
function attentionOf(map, s, token) {
  const byRow = state.from === 'row';
  const [heads, rows, columns] = map.shape, all = values(map);
  if (!(map.rowTokens && map.columnTokens) || token.at >= (byRow ? rows : columns)) return null;
  const of = (head) => Array.from({length: byRow ? columns : rows}, (_, i) =>
    byRow ? all[(head * rows + token.at) * columns + i] : all[(head * rows + i) * columns + token.at]);
  return {to: byRow ? s.columns : s.rows, heads: Array.from({length: heads}, (_, head) => of(head))};
}

// A line between two boxes: an arc above what lies between them, or from line to line; `side`, -1 … 1,
// keeps heads on one token apart.
function tie(a, b, side) {
  const x1 = a.x + a.width / 2, x2 = b.x + b.width / 2;
  if (Math.abs(a.y - b.y) < 1) {
    const up = Math.min(44, 8 + Math.abs(x1 - x2) * 0.1) * (1 + 0.5 * side);
    return `M${x1 + 4 * side} ${a.y}C${x1 + 4 * side} ${a.y - up} ${x2 + 4 * side} ${b.y - up} ${x2 + 4 * side} ${b.y}`;
  }
  const [y1, y2] = a.y > b.y ? [a.y, b.y + b.height] : [a.y + a.height, b.y];
  return `M${x1 + 5 * side} ${y1}C${x1 + 5 * side} ${(y1 + y2) / 2} ${x2 + 5 * side} ${(y1 + y2) / 2} ${x2 + 5 * side} ${y2}`;
}

// True of a map that becomes a softmax, whose highest entry is the largest weight, and not its farthest
// from 0.
const isLogit = (map, s) => s.ties.some(({from, to}) => from === map.name && (s.maps.find((m) => m.name === to)?.weights
  || isLogit({name: to}, s)));
// How strong each of a head's lines is, 0 … 1: of logits e to what it is below the highest, else its share of `size`.
function strengthsOf(weights, size, isOfLogits) {
  const highest = weights.reduce((most, x) => x > most ? x : most, -Infinity);
  return weights.map((x) => Number.isNaN(x) ? 0 : isOfLogits ? Math.exp(x - highest) : Math.abs(x) / size);
}
// The strongest of a head's lines; the others would only be grey.
function strongest(weights, strengths) {
  return weights.map((weight, at) => ({weight, at, strength: strengths[at]})).filter((x) => x.strength > 0.04)
    .sort((a, b) => b.strength - a.strength).slice(0, 8);
}

// Between two sequences the other direction is another token's: the last of the other sequence.
function turn(from) {
  const s = site(), sequence = from === 'row' ? s.rows : s.columns;
  if (s.rows === s.columns || state.from === from) return set({from});
  const token = {sequence, at: tokensOf(baseRun(), sequence).length - 1};
  set({token, pinned: token});
}

function tokensSection(root) {
  const overlay = element('g', {class: 'ties'}), told = element('div', {class: 'told', 'aria-live': 'polite'});
  const directions = element('div', {class: 'choice', role: 'group', 'aria-label': 'direction'},
    [['row', 'what it looks at'], ['column', 'what looks at it']].map(([from, name]) =>
      element('button', {'data-from': from, onclick: () => turn(from)}, name)));
  const made = figure('tokens', 'Hover over a token, or walk with the arrow keys; a click holds it. '
    + 'Each line and bar is one head, in its colour.', element('svg'));
  root.append(directions, made, told);
  let boxes = new Map();

  function build() {
    const s = site(), width = Math.max(320, root.clientWidth);
    let y = 54;
    boxes = new Map();
    const labels = [], groups = [];
    for (const sequence of sequencesOf(s)) {
      const tokens = tokensOf(baseRun(), sequence);
      if (runs[baseRun()].sequences.length > 1) {
        labels.push(element('text', {x: 0, y: y - 18, class: 'small'}, sequenceLabel(sequence)));
        y += 8;
      }
      const laid = layTokens(tokens, sequence, y, width);
      boxes.set(sequence, laid.boxes);
      groups.push(laid.boxes.map(tokenBox));
      y = laid.end + 8;
    }
    made.show(element('svg', {viewBox: `0 0 ${width} ${y}`, width, height: y, role: 'listbox',
      'aria-label': 'tokens', class: 'tokens', onmouseleave: () => set({token: state.pinned})},
      labels, groups, overlay), `tokens-${sitePath()}`);
  }

  function tokenBox(box) {
    const here = {sequence: box.sequence, at: box.at};
    return box.node = element('g', {class: 'token', tabindex: -1, role: 'option',
      'aria-label': `token ${box.at}, ${quoted(box.token)}`,
      onmouseenter: () => set({token: here}),
      onfocus: () => set({token: here, pinned: here}),
      onclick: () => set({token: here, pinned: here}),
      onkeydown: (event) => walk(event, box)},
      element('rect', {x: box.x, y: box.y, width: box.width, height: box.height, rx: 4}),
      element('text', {x: box.x + box.width / 2, y: box.y + 17, 'text-anchor': 'middle'}, box.shown));
  }

  function walk(event, box) {
    const step = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
    if (!step) return;
    const row = boxes.get(box.sequence);
    row[Math.min(row.length - 1, Math.max(0, box.at + step))].node.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  function lines() {
    for (const row of boxes.values())
      for (const box of row) {
        const here = state.token && state.token.sequence === box.sequence && state.token.at === box.at;
        box.node.classList.toggle('here', here);
        box.node.setAttribute('aria-selected', here);
        box.node.setAttribute('tabindex', here || (!state.token && box.at === 0) ? 0 : -1);
      }
    for (const button of directions.children)
      button.setAttribute('aria-pressed', button.dataset.from === state.from);
    overlay.replaceChildren();
    const map = mapAt(sitePath()), from = state.token && boxes.get(state.token.sequence)?.[state.token.at];
    if (!map) return told.replaceChildren(`${siteLabel(sitePath())} has no ${state.map} to compare.`);
    if (!from) return told.replaceChildren('');
    const attention = attentionOf(map, site(), state.token);
    if (!attention)
      return told.replaceChildren(`The rows or columns of ${state.map} in ${siteLabel(sitePath())} are not these tokens.`);
    const to = boxes.get(attention.to), on = attention.heads.map((_, head) => head).filter((h) => !isOff(h));
    const size = Math.max(1e-12, ...on.flatMap((h) => attention.heads[h].map((x) => Math.abs(x) || 0)));
    const isOfLogits = isLogit(map, site()), strengths = attention.heads.map((row) => strengthsOf(row, size, isOfLogits));
    overlay.append(...on.flatMap((head, i) => strongest(attention.heads[head], strengths[head])
      .filter(({at}) => to[at] !== from).map(({weight, at, strength}) => element('path', {class: 'tie', d: tie(from, to[at], on.length > 1 ? 2 * i / (on.length - 1) - 1 : 0),
        stroke: headColour(head), 'stroke-width': 0.7 + 2.6 * strength, 'data-head': head,
        'data-to': at, opacity: 0.12 + 0.88 * strength,
        'stroke-dasharray': weight < 0 && !isOfLogits ? '3 3' : null}))));
    overlay.append(...to.flatMap((box) => bars(box, on, strengths)));
    told.replaceChildren(element('p', {class: 'caption'}, element('code', {}, tensorName(map)), ` of ${siteLabel(sitePath())}`,
      isOfLogits ? ', logits: the highest first; a line is as strong as e to its distance from the highest.' : ':'),
    sentence(on, attention, to, map, isOfLogits));
  }

  // Under a token a bar a head, as high as its line is strong.
  function bars(box, on, strengths) {
    const width = Math.min(6, (box.width - 2) / on.length), left = box.x + (box.width - width * on.length) / 2;
    return on.map((head, i) => [head, i, strengths[head][box.at] * 18])
      .filter(([, , height]) => height > 0.4)
      .map(([head, i, height]) => element('rect', {class: 'weight', x: left + i * width, width: Math.max(0.8, width - 0.6),
        y: box.y + box.height + 2, height, fill: headColour(head)}));
  }

  function sentence(on, attention, to, map, isOfLogits) {
    return element('ul', {class: 'strongest'}, on.map((head) => {
      const row = attention.heads[head], size = Math.max(...row.map((x) => Math.abs(x) || 0));
      const best = strongest(row, strengthsOf(row, size, isOfLogits)).slice(0, 3);
      return element('li', {}, element('b', {style: {color: headColour(head)}}, `head ${head} `),
        best.map(({weight, at}) => element('span', {class: 'pair'}, element('code', {}, to[at].shown),
          ` ${at}: ${approximate(weight, map)} `)));
    }));
  }

  return {build, update: lines};
}

// A value of a map in the digits that the page keeps: exactly those of the tensor, or about.
function approximate(value, map) {
  if (map.decimals !== null) return value.toFixed(map.decimals).replace('-', '−');
  const half = uncertainty(map), digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(half)) - 1));
  return half > 0 ? '≈' + value.toFixed(digits).replace('-', '−') : number(value);
}
