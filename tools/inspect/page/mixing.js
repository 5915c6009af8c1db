// mixing.js: what the heads say to each other: how maps are made of maps, with the matrix that mixes
// heads drawn as wires between them, and the matrices of every layer.

// ---- What mixes, for the token that is looked at ----

// Where a mixer is read: at the token that is looked at, or the last, where it has a matrix for each.
function placeOf(mixer, to, s) {
  if (!mixer.dims[0]) return null;
  const isRow = mixer.dims[0] === to.dims[1], sequence = isRow ? s.rows : s.columns, query = state.token?.sequence === s.rows ? state.token.at : -1;
  // Of the memory it is what the chosen query looks at most, in the map that is looked at.
  const chosen = mapAt(s.path, state.map, baseRun()), map = chosen?.rowTokens && chosen.columnTokens ? chosen : to;
  const at = isRow || s.rows !== s.columns || query < 0 ? state.token?.sequence === sequence ? state.token.at : Infinity
    : strongestIn(map, Math.min(state.head, map.shape[0] - 1), Math.min(query, map.shape[1] - 1))[0];
  return {sequence, isRow, at: Math.min(mixer.shape[0] - 1, at)};
}
// A mixer as rows of numbers there, with its name: "R_Xl[n=3]".
function termOf(mixer, to, s) {
  const place = placeOf(mixer, to, s), [, rows, columns] = mixer.shape, all = values(mixer);
  const first = (place?.at ?? 0) * rows;
  return {name: mixer.name + (place ? `[${mixer.dims[0]}=${place.at}]` : ''), place, mixer,
    values: Array.from({length: rows}, (_, i) => [...all.slice((first + i) * columns, (first + i + 1) * columns)])};
}
const added = (a, b, sign = 1) => a.map((row, i) => row.map((x, j) => x + sign * b[i][j]));
// The terms of a tie in a run, and their sum: what of each head of `from` is in each of `to`.
function mixOf(run, path, tie) {
  const s = siteOf(run, path), own = s?.ties.find((t) => t.from === tie.from && t.to === tie.to);
  if (!own?.mixers.length || own.unknown) return null;
  const to = s.maps.find((m) => m.name === tie.to);
  const terms = own.mixers.map((mixer) => termOf(mixer, to, s));
  return {terms, sum: terms.map((t) => t.values).reduce((a, b) => added(a, b))};
}
// The same in the chosen view: of two runs the difference of their sums.
function mixInView(path, tie) {
  if (state.view !== difference) return mixOf(baseRun(), path, tie);
  const [a, b] = [mixOf(0, path, tie), mixOf(1, path, tie)];
  if (!a || !b || a.sum.length !== b.sum.length || a.sum[0].length !== b.sum[0].length) return null;
  const sum = added(b.sum, a.sum, -1), name = b.terms.map((t) => t.name).join(' + ');
  return {terms: [{...b.terms[0], name, values: sum}], sum};
}

// ---- Maps and the ties between them ----

// How many ties lead to each map, at most: it stands in that column.
function depthsOf(maps, ties) {
  const depth = new Map(maps.map((m) => [m.name, 0]));
  for (const _ of maps)
    for (const {from, to} of ties) depth.set(to, Math.max(depth.get(to), depth.get(from) + 1));
  return depth;
}

function talkSection(root) {
  const made = figure('talk', '', element('svg')), terms = figure('mixers', '', element('svg'));
  const least = element('input', {type: 'range', min: 0, max: 1, step: 0.01, 'aria-label': 'wires from', oninput: () => update()});
  const threshold = element('label', {class: 'slider'}, 'wires from ', least, element('output'));
  const meanings = element('p', {class: 'caption'});
  root.append(meanings, threshold, made);
  const drawing = element('g');
  let wires = [], faces = [], places = new Map(), face = 0, room = 0, gap = 0, isNew = true;

  function build() {
    const path = sitePath(), s = site();
    const maps = s.maps.map((m) => mapAt(path, m.name)).filter(Boolean);
    const ties = s.ties.filter((t) => [t.from, t.to].every((name) => maps.some((m) => m.name === name)));
    const depths = depthsOf(maps, ties), columns = [];
    for (const map of maps) (columns[depths.get(map.name)] ||= []).push(map);
    const most = Math.max(...columns.map((column) => column.reduce((n, map) => n + map.shape[0], 0)));
    const space = most > 12 ? 3 : 8, title = 44;
    room = Math.max(300, root.clientWidth);
    face = Math.max(18, Math.min(112, Math.floor(560 / most) - space, (room - 56) / columns.length - 36));
    const tall = (column) => column.reduce((y, map) => y + title + map.shape[0] * (face + space), 0);
    const height = Math.max(...columns.map(tall));
    gap = columns.length > 1 ? Math.min(300, (room - 56 - columns.length * face) / (columns.length - 1)) : 0;
    const width = 30 + columns.length * face + (columns.length - 1) * gap + 26;
    places = new Map();
    faces = [];
    const drawn = columns.map((column, i) => {
      let y = (height - tall(column)) / 2;
      return column.map((map) => {
        places.set(map.name, {x: 30 + i * (face + gap), y: y + title, step: face + space, heads: map.shape[0], column: i});
        y += title + map.shape[0] * (face + space);
        return stack(map, places.get(map.name));
      });
    });
    made.show(element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, class: 'talk', role: 'img',
      'aria-label': `maps of ${siteLabel(path)} and how they are made of each other`}, drawing, drawn), `talk-${path}`);
    mixersOf = null;
    isNew = true;
  }

  function stack(map, {x, y, step, heads}) {
    const range = rangeOf(map);
    return element('g', {}, mathName(map.name, {'text-anchor': 'middle', x: x + face / 2, y: y - 28}),
      element('text', {class: 'small', 'text-anchor': 'middle', x: x + face / 2, y: y - 12},
        map.dims[0] ? `${map.dims[0]}=${heads}` : 'one head'),
      Array.from({length: heads}, (_, head) => {
        const box = {x, y: y + head * step, width: face, height: face};
        const node = element('g', {class: 'thumb', role: 'button', 'aria-label': `${map.name}, head ${head}`,
          onclick: () => set({map: map.name, head}), onmouseenter: () => light(map.name, head), onmouseleave: () => light()},
          element('rect', {...box, class: 'paper'}), heat(map, head, range, box, 128),
          element('rect', {...box, class: 'frame'}),
          heads > 1 && element('text', {class: 'small over', 'text-anchor': 'end', x: x - 5, y: box.y + face / 2 + 4}, head));
        faces.push({node, name: map.name, head});
        return node;
      }));
  }

  const passesBy = ({from, to}) => places.get(to)?.column - places.get(from)?.column > 1;
  // One tie: wires where a matrix mixes, a line a head where each is for itself.
  function tieOf(tie, mix) {
    const from = places.get(tie.from), to = places.get(tie.to);
    const start = (head) => [from.x + face, from.y + head * from.step + face / 2];
    // A wire ends before the number of its head.
    const end = (head) => [to.x - (to.heads > 1 ? 13 + 7 * String(head).length : 0), to.y + head * to.step + face / 2];
    // The words of a tie that passes by another map stand before its end, and say whence it comes.
    const told = [mix?.terms.map((t) => t.name).join(' + '), tie.by].filter(Boolean).join(', '), isLong = passesBy(tie);
    const words = told && isLong ? `${tie.from}: ${told}` : told, level = from.y === to.y || isLong, x = level ? to.x - gap / 2 : from.x + face + 10;
    const before = site().ties.filter((other) => other.to === tie.to && passesBy(other)).findIndex((other) => other.from === tie.from);
    const y = !level ? from.y + face / 2 - 6 : to.y - 6 - (isLong ? 14 * (before + 1) : 0);
    return element('g', {class: 'tied', 'data-tie': `${tie.from} ${tie.to}`},
      mix ? wiresOf(tie, mix, start, end) : straight(tie, from.heads, to.heads, start, end),
      6.5 * words.length < gap && element('text', {class: 'small over', 'text-anchor': level ? 'middle' : 'start', x, y}, words));
  }
  // Of many heads the strongest wires, one a head; of few heads all.
  function fewOf(all) {
    const heads = new Set(all.map((w) => w.a)).size, mixing = new Set(all.map((w) => w.tie)).size;
    return heads > 12 ? Math.floor(100 * all.map((w) => w.share).sort((a, b) => b - a)[heads * mixing]) / 100 : 0;
  }
  const curve = ([x1, y1], [x2, y2]) => `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;

  function straight(tie, count, heads, start, end) {
    const mixes = siteOf(baseRun(), sitePath())?.ties.find((t) => t.from === tie.from && t.to === tie.to);
    if (tie.unknown || mixes?.mixers.length)
      return element('path', {class: 'rule', fill: 'none', 'stroke-dasharray': '4 4', d: curve(start((count - 1) / 2), end((heads - 1) / 2))});
    const pairs = Array.from({length: Math.max(count, heads)}, (_, i) => [count > 1 ? i : 0, heads > 1 ? i : 0]);
    return pairs.map(([a, b]) => element('path', {class: 'rule', fill: 'none', d: curve(start(a), end(b))}));
  }

  function wiresOf(tie, {sum, terms}, start, end) {
    const size = Math.max(1e-12, ...sum.flat().map(Math.abs)), sign = {low: -1, high: 1, signed: true};
    const name = terms.map((t) => t.name).join(' + ');
    return sum.flatMap((row, a) => row.map((value, b) => {
      const share = Math.abs(value) / size;
      const node = element('path', {class: 'wire', fill: 'none', d: curve(start(a), end(b)),
        stroke: linear(() => colourOf(Math.sign(value) * (0.45 + 0.4 * share), sign)), 'stroke-width': 0.4 + 5 * share,
        opacity: 0.15 + 0.8 * share}, element('title', {}, `${name}: ${tie.from} ${a} → ${tie.to} ${b} = ${number(value)}`));
      wires.push({node, tie, a, b, share});
      return {node, share};
    })).sort((p, q) => p.share - q.share).map((p) => p.node);
  }

  // Only the wires of this head are bright, and all of them are there.
  function light(name, head) {
    for (const {node, tie, a, b, share} of wires) {
      const own = (tie.from === name && a === head) || (tie.to === name && b === head);
      node.classList.toggle('dim', name !== undefined && !own);
      node.classList.toggle('weak', share < least.value && !own);
    }
  }

  let mixersOf = null;  // the token and the head whose mixers are drawn
  function update() {
    // That of the chosen one stands at the top of the page.
    meanings.textContent = [...places.keys()].filter((name) => name !== state.map).map((name) => mapAt(sitePath(), name)?.meaning).join(' ');
    for (const {node, name, head} of faces)
      node.classList.toggle('here', name === state.map && head === state.head);
    const chosen = JSON.stringify([state.token, state.head, state.map]);
    if (chosen !== mixersOf) drawMixers();
    mixersOf = chosen;
    threshold.lastChild.textContent = `${Math.round(100 * least.value)} % of the largest`;
    light();
  }

  function drawMixers() {
    const path = sitePath(), ties = site().ties.filter((t) => places.has(t.from) && places.has(t.to));
    const mixes = ties.map((tie) => [tie, mixInView(path, tie)]);
    wires = [];
    drawing.replaceChildren(...mixes.map(([tie, mix]) => tieOf(tie, mix)));
    threshold.hidden = !wires.length;
    if (isNew) least.value = fewOf(wires);
    isNew = false;
    const mixed = mixes.filter(([, mix]) => mix);
    const places_ = mixed.flatMap(([, mix]) => mix.terms).filter((t) => t.place)
      .map((t) => `${t.name} is that of ${quoted(tokensOf(baseRun(), t.place.sequence)[t.place.at] ?? '')}`);
    made.querySelector('figcaption span').textContent = (mixed.length
      ? 'A wire is an entry of what mixes heads: thick is large beside the others between the same two tensors, orange adds, blue subtracts. '
        + 'Point at a head to see what it says to whom. ' + [...new Set(places_)].join('; ')
      : ties.some((t) => t.unknown) ? `The heads of ${siteLabel(path)} are mixed by what has no name (dashed).` : `The heads of ${siteLabel(path)} do not talk: nothing mixes them.`);
    if (!mixed.length) return terms.remove();
    root.append(terms);
    terms.show(sumsPicture(path, mixed), `mixers-${path}`);
    terms.querySelector('figcaption span').textContent = 'What mixes, as a sum. Rows are the heads that speak, columns those that hear; the matrices of a line share the scale under them.';
  }
  return {build, update};
}

// L = J × (P_l + R_Xl[n=3]): a line a tie, a matrix a term, then their sum.
function sumsPicture(path, mixed) {
  const box = 104, left = 74, top = 40, line = box + 66, lines = mixed.map(([tie, {terms, sum}]) =>
    [tie, terms.length > 1 ? [...terms, {name: 'sum', values: sum}] : terms]);
  const width = left + Math.max(...lines.map(([, all]) => all.length)) * (box + 40), height = lines.length * line;
  return linear(() => element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, class: 'sums', role: 'img',
    'aria-label': `what mixes the heads of ${siteLabel(path)}`}, lines.map(([tie, all], i) => {
    const size = Math.max(1e-12, ...all.flatMap((t) => t.values.flat()).map(Math.abs)), range = {low: -size, high: size, signed: true};
    return element('g', {}, element('text', {class: 'label', x: 0, y: i * line + top + box / 2 + 4}, `${tie.from} → ${tie.to}`),
      all.map((term, k) => [
        k > 0 && element('text', {class: 'name', 'text-anchor': 'middle', x: left + k * (box + 40) - 24, y: i * line + top + box / 2 + 6},
          k === all.length - 1 && all.length > 1 ? '=' : '+'),
        element('text', {class: 'small', x: left + k * (box + 40), y: i * line + top - 22}, term.name),
        matrixPicture(term.values, term.name, left + k * (box + 40), i * line + top, box, range)]),
      element('g', {}, colourBar(range, left, i * line + top + box + 6, 100)));
  })));
}

// The entries of a matrix between heads, numbered on both sides.
function matrixPicture(entries, name, x, y, box, range, told = (i, j) => `[${i}, ${j}]`) {
  const rows = entries.length, columns = entries[0].length, cell = box / Math.max(rows, columns);
  const numbers = (count, room) => [...Array(count).keys()].filter((i) => i % Math.ceil(room / cell) === 0);
  return [entries.flatMap((row, i) => row.map((value, j) => element('rect', {class: 'entry', x: x + j * cell, y: y + i * cell,
    width: cell + 0.3, height: cell + 0.3, fill: colourOf(value, range)},
    element('title', {}, `${name}${told(i, j)} = ${number(value)}`)))),
  element('rect', {x, y, width: columns * cell, height: rows * cell, class: 'frame'}),
  numbers(rows, 11).map((i) => element('text', {class: 'tick', 'text-anchor': 'end', x: x - 3, y: y + (i + 0.5) * cell + 4}, i)),
  numbers(columns, columns > 10 ? 18 : 11).map((j) => element('text', {class: 'tick', 'text-anchor': 'middle', x: x + (j + 0.5) * cell, y: y - 3}, j))];
}

// ---- The matrices of every layer, as figure 1 of the talking-heads paper shows them ----

// The matrix that the view shows: a run's, or the second's less the first's.
function matrixAt(path, name) {
  const of = (run) => siteOf(run, path)?.mixing.find((m) => m.name === name);
  if (state.view !== difference) return of(state.view);
  const [a, b] = [of(0), of(1)];
  if (!a || !b || a.values.length !== b.values.length || a.values[0].length !== b.values[0].length) return undefined;
  return {...b, values: b.values.map((row, i) => row.map((x, j) => x - a.values[i][j]))};
}

function matricesSection(root) {
  const made = figure('mixing', 'Each matrix is divided by its largest |entry|, so that its entries lie in '
    + '[−1, 1]. Rows are the heads that speak, columns those that hear. A product leaves out the softmax between its two.', element('svg'));
  const numbers = element('div');
  root.append(element('div', {class: 'beside'}, made, numbers));

  function build() {
    const names = [...new Set(runs.flatMap((_, r) => frameOf(r)?.sites.flatMap((s) => s.mixing.map((m) => m.name)) ?? []))];
    const paths = siteNames.filter((path) => names.some((name) => matrixAt(path, name)));
    const range = {low: -1, high: 1, signed: true};
    const box = Math.max(90, Math.min(150, Math.floor((root.clientWidth - 40) / Math.max(1, paths.length)) - 16));
    const left = 84, step = box + 26, width = Math.max(left + paths.length * step, 320), height = 32 + names.length * step + 30;
    const cells = names.flatMap((name, j) => [
      mathName(name, {x: 0, y: 32 + j * step + box / 2 + 4}),
      paths.map((path, i) => matrix(matrixAt(path, name), path, left + i * step, 32 + j * step, box, range))]);
    made.show(element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
      'aria-label': 'matrices that mix heads'},
      paths.map((path, i) => element('text', {class: 'small', 'text-anchor': 'middle', x: left + i * step + box / 2, y: 14}, siteLabel(path))),
      cells, linear(() => colourBar(range, left, height - 24, 160))));
    numbers.replaceChildren(tableView('mixing'));
  }

  function matrix(m, path, x, y, box, range) {
    if (!m) return null;
    const size = Math.max(...m.values.flat().map(Math.abs)) || 1;
    return linear(() => matrixPicture(m.values.map((row) => row.map((v) => v / size)), `${m.name} of ${siteLabel(path)}`, x, y, box, range,
      (i, j) => `[${m.rows}=${i}, ${m.columns}=${j}] = ${number(m.values[i][j])}, divided by ${number(size)}`));
  }
  return {build};
}

// Draws with colours that go straight with the value, whatever is chosen for maps.
function linear(drawing) {
  const root = state.root;
  state.root = false;
  try { return drawing(); } finally { state.root = root; }
}
