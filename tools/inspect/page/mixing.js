// mixing.js: what the heads say to each other: maps before and after a mix with the mixing matrix
// drawn as wires between them, and the matrices of every layer.

// The matrix through which the heads of `from` become those of `to`, as weights [from][to], or null.
function mixBetween(s, from, to) {
  for (const m of s.mixing) {
    if (m.name.includes('×')) continue;
    if (m.rows === from.dims[0] && m.columns === to.dims[0] && m.values.length === from.shape[0]) return m;
    if (m.columns === from.dims[0] && m.rows === to.dims[0] && m.values[0].length === from.shape[0])
      return {...m, values: m.values[0].map((_, j) => m.values.map((row) => row[j]))};
  }
  return null;
}

function talkSection(root) {
  const made = figure('talk', '', element('svg'));
  root.append(made);
  let wires = [], faces = [];

  function build() {
    const path = sitePath(), s = site();
    const maps = s.maps.map((m) => mapAt(path, m.name)).filter(Boolean);
    const most = Math.max(...maps.map((m) => m.shape[0])), count = maps.length;
    const face = Math.max(22, Math.min(112, Math.floor(560 / most) - 8)), gap = 8;
    const top = 44, height = top + most * (face + gap), room = Math.max(480, root.clientWidth);
    const between = count > 1 ? Math.min(300, (room - 44 - count * face) / (count - 1)) : 0;
    const width = 40 + count * face + (count - 1) * between;
    const x = (i) => 40 + i * (face + between);
    const y = (m, head) => top + head * (face + gap) + (most - m.shape[0]) * (face + gap) / 2;
    wires = [];
    faces = [];
    const columns = maps.map((map, i) => column(map, i, x(i), y, face));
    const ties = maps.slice(1).map((to, i) => {
      const from = maps[i], mix = mixBetween(s, from, to);
      if (!mix) return straight(from, to, x(i) + face, x(i + 1), y, face);
      return [mathName(mix.name, {'text-anchor': 'middle', x: x(i) + face + between / 2, y: 16}),
        tiesOf(mix, i, (head) => [x(i) + face, y(from, head) + face / 2], (head) => [x(i + 1), y(to, head) + face / 2])];
    });
    made.show(element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, class: 'talk', role: 'img',
      'aria-label': `maps of ${path} and how heads are mixed between them`}, ties, columns), `talk-${path}`);
    const mixed = maps.some((m, i) => i > 0 && mixBetween(s, maps[i - 1], m));
    made.querySelector('figcaption span').textContent = `${path}. ` + (mixed
      ? 'A wire is an entry of the matrix that mixes heads: thick is large, orange adds, blue subtracts. '
        + 'Point at a head to see what it says to whom.'
      : 'Its heads do not talk: nothing mixes them.');
  }

  function column(map, i, x, y, face) {
    const range = rangeOf(map);
    return element('g', {}, mathName(map.name, {'text-anchor': 'middle', x: x + face / 2, y: 16}),
      element('text', {class: 'small', 'text-anchor': 'middle', x: x + face / 2, y: 32},
        map.dims[0] ? `${map.dims[0]}=${map.shape[0]}` : 'one head'),
      Array.from({length: map.shape[0]}, (_, head) => {
        const box = {x, y: y(map, head), width: face, height: face};
        const node = element('g', {class: 'thumb', role: 'button', 'aria-label': `${map.name}, head ${head}`,
          onclick: () => set({map: map.name, head}), onmouseenter: () => light(i, head), onmouseleave: () => light()},
          element('rect', {...box, class: 'paper'}), heat(map, head, range, box, 128),
          element('rect', {...box, class: 'frame'}), i === 0 && element('text', {class: 'small', 'text-anchor': 'end',
            x: x - 7, y: box.y + face / 2 + 4}, head));
        faces.push({node, name: map.name, head});
        return node;
      }));
  }

  // Each head for itself.
  function straight(from, to, x1, x2, y, face) {
    return from.shape[0] !== to.shape[0] ? null : [to.weights && element('text', {class: 'small', 'text-anchor': 'middle',
      x: (x1 + x2) / 2, y: 16}, 'softmax'), Array.from({length: to.shape[0]}, (_, head) => element('line', {class: 'rule',
      x1, x2, y1: y(from, head) + face / 2, y2: y(to, head) + face / 2}))];
  }

  function tiesOf(mix, i, from, to) {
    const size = Math.max(1e-12, ...mix.values.flat().map(Math.abs)), sign = {low: -1, high: 1, signed: true};
    return mix.values.flatMap((row, a) => row.map((value, b) => {
      const [x1, y1] = from(a), [x2, y2] = to(b), middle = (x1 + x2) / 2, share = Math.abs(value) / size;
      const node = element('path', {class: 'wire', fill: 'none', d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`,
        stroke: colourOf(Math.sign(value) * (0.25 + 0.5 * share), sign), 'stroke-width': 0.4 + 5 * share,
        opacity: 0.12 + 0.8 * share}, element('title', {}, `${mix.name}[${a}, ${b}] = ${number(value)}`));
      wires.push({node, from: i, a, b});
      return {node, share};
    })).sort((p, q) => p.share - q.share).map((p) => p.node);
  }

  // Only the wires of this head are bright.
  function light(column, head) {
    for (const wire of wires)
      wire.node.classList.toggle('dim', column !== undefined
        && !(wire.from === column && wire.a === head) && !(wire.from === column - 1 && wire.b === head));
  }
  function update() {
    for (const {node, name, head} of faces)
      node.classList.toggle('here', name === state.map && head === state.head);
  }
  return {build, update};
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
    + '[−1, 1]. Rows are the heads that speak, columns those that hear.', element('svg'));
  const numbers = element('div');
  root.append(element('div', {class: 'beside'}, made, numbers));

  function build() {
    const names = [...new Set(runs.flatMap((_, r) => frameOf(r)?.sites.flatMap((s) => s.mixing.map((m) => m.name)) ?? []))];
    const paths = siteNames.filter((path) => names.some((name) => matrixAt(path, name)));
    const range = {low: -1, high: 1, signed: true};
    const box = Math.max(90, Math.min(150, Math.floor((root.clientWidth - 40) / Math.max(1, paths.length)) - 16));
    const left = 84, width = Math.max(left + paths.length * (box + 14), 320), height = 24 + names.length * (box + 14) + 30;
    const cells = names.flatMap((name, j) => [
      mathName(name, {x: 0, y: 24 + j * (box + 14) + box / 2 + 4}),
      paths.map((path, i) => matrix(matrixAt(path, name), path, left + i * (box + 14), 24 + j * (box + 14), box, range))]);
    made.show(element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
      'aria-label': 'matrices that mix heads'},
      paths.map((path, i) => element('text', {class: 'small', 'text-anchor': 'middle', x: left + i * (box + 14) + box / 2, y: 14}, path)),
      cells, linear(() => colourBar(range, left, height - 24, 160))));
    numbers.replaceChildren(tableView('mixing'));
  }

  function matrix(m, path, x, y, box, range) {
    if (!m) return null;
    const rows = m.values.length, columns = m.values[0].length, cell = box / Math.max(rows, columns);
    const size = Math.max(...m.values.flat().map(Math.abs)) || 1;
    return linear(() => m.values.flatMap((row, i) => row.map((value, j) => element('rect', {x: x + j * cell, y: y + i * cell,
      width: cell + 0.3, height: cell + 0.3, fill: colourOf(value / size, range)},
      element('title', {}, `${path}/${m.name}[${m.rows}=${i}, ${m.columns}=${j}] = ${number(value)}`)))))
      .concat(element('rect', {x, y, width: columns * cell, height: rows * cell, class: 'frame'}));
  }
  return {build};
}

// Draws with colours that go straight with the value, whatever is chosen for maps.
function linear(drawing) {
  const root = state.root;
  state.root = false;
  try { return drawing(); } finally { state.root = root; }
}
