// maps.js: every head of every layer as a small map, and one of them large.

// How it is told what a cell says.
function cellText(map, s, head, row, column) {
  const value = values(map)[(head * map.shape[1] + row) * map.shape[2] + column];
  const name = (axis, at) => {
    const label = labelAt(map, s, axis, at);
    return label === null ? `${at}` : `${at} ${quoted(label)}`;
  };
  const about = map.decimals === null ? ` ± ${number(uncertainty(map), 1)}` : '';
  const told = Number.isNaN(value) ? 'hidden' : approximate(value, map) + about;
  return `${tensorName(map)}, head ${head}: ${name('row', row)} → ${name('column', column)}: ${told}`;
}

function gridSection(root) {
  const holder = element('div', {class: 'beside'});
  const grid = figure('maps', '', element('svg')), large = element('div', {class: 'large'});
  holder.append(grid, large);
  root.append(holder);
  let marks = [], aside = 0;  // how much room is beside the grid

  function build() {
    const heads = Math.max(1, ...siteNames.map((path) => mapAt(path)?.shape[0] ?? 0));
    const left = 118, gap = 6, room = Math.max(300, holder.clientWidth * (heads > 12 ? 0.62 : 0.54));
    const cell = Math.max(26, Math.min(132, Math.floor((room - left) / heads) - gap));
    const width = left + heads * (cell + gap), height = 22 + siteNames.length * (cell + gap);
    marks = [];
    const rows = siteNames.map((path, i) => {
      const y = 22 + i * (cell + gap), map = mapAt(path), range = map && rangeOf(map);
      return element('g', {}, element('text', {x: 0, y: y + cell / 2 + 4, class: 'label'}, siteLabel(path)),
        !map && element('text', {x: left, y: y + cell / 2 + 4, class: 'small'}, `no ${state.map}`),
        map && Array.from({length: map.shape[0]}, (_, head) => thumbnail(path, i, map, head, range,
          {x: left + head * (cell + gap), y, width: cell, height: cell})));
    });
    grid.show(element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, class: 'grid', role: 'grid',
      'aria-label': `${state.map} of every head`},
      Array.from({length: heads}, (_, head) => element('text', {class: 'small', 'text-anchor': 'middle',
        x: left + head * (cell + gap) + cell / 2, y: 12}, heads > 12 ? head : `head ${head}`)), rows), `maps-${state.map}`);
    grid.querySelector('figcaption span').textContent = caption();
    aside = holder.clientWidth - width - 48;
  }
  function caption() {
    const map = mapAt(sitePath());
    return [`${map ? tensorName(map) : state.map} of every layer and head${siteNames.every((path) => mapAt(path)) ? '' : ' that has it'}; a click shows one large.`, ...site().unshown].join(' ');
  }

  function thumbnail(path, i, map, head, range, box) {
    const node = element('g', {class: 'thumb', role: 'button', 'aria-label': headLabel(path, map, head),
      onclick: () => set({site: i, head})}, element('rect', {...box, class: 'paper'}),
      heat(map, head, range, box, 128), element('rect', {...box, class: 'frame'}));
    marks.push({node, i, head});
    return node;
  }

  function update() {
    for (const {node, i, head} of marks) node.classList.toggle('here', i === state.site && head === state.head);
    const views = twoRuns ? [0, 1, difference] : [state.view];
    const room = twoRuns ? holder.clientWidth / 3 - 16 : aside > 330 ? aside : holder.clientWidth;
    large.replaceChildren(...views.map((view) => largeMap(view, Math.min(460, room - 76))));
  }
  return {build, update};
}

const viewName = (view) => view === difference ? `${runs[1].name} − ${runs[0].name}` : runs[view].name;

// A token at an axis; of blanks, which are many and have no face, with its place: "·36".
const placed = (token, at) => /^\s+$/.test(token) ? visible(token) + at : visible(token);

// The chosen head of the chosen layer, `side` wide, with its tokens on both axes.
function largeMap(view, side) {
  const s = site(), map = mapAt(sitePath(), state.map, view), head = Math.min(state.head, map ? map.shape[0] - 1 : 0);
  if (!map) return element('p', {class: 'told'}, `${siteLabel(sitePath())}: ${state.map} cannot be compared.`);
  const range = rangeOf(map), [, rows, columns] = map.shape;
  const cell = side / Math.max(rows, columns), every = cell < 10 ? 5 * Math.ceil(2.2 / cell) : 1;
  const [row, column] = namedCell(view), named = {row, column};
  const name = (axis, at) => {
    const label = labelAt(map, s, axis, at);
    return label === null || every > 1 && at !== named[axis] ? `${at}` : placed(label, at);
  };
  // Numbers give way to the named token.
  const isTick = (axis, i) => i === named[axis] || i % every === 0 && !(every > 1 && Math.abs(i - named[axis]) * cell < 11);
  const tickClass = (axis, i) => i === named[axis] ? 'tick named' : 'tick';
  const longest = Math.max(...Array.from({length: columns}, (_, i) => name('column', i).length));
  // The axes say who looks at whom, of two sequences which is which.
  const looking = s.rows === s.columns ? `who looks (${map.dims[1]})` : `${sequenceLabel(s.rows)} looks`;
  const lookedAt = s.rows === s.columns ? `at whom (${map.dims[2]})` : `at ${sequenceLabel(s.columns)}`;
  // The scale stands above the map, that it is seen first.
  const left = 74, scale = state.root ? 54 : 38, top = scale + (longest > 1 ? 14 + 7 * Math.min(longest, 7) : 22) + 16;
  const w = cell * columns, h = cell * rows, width = left + Math.max(side + 10, 240), height = top + h + 8;
  const box = {x: left, y: top, width: w, height: h};
  const cross = element('g', {class: 'cross'}), told = element('div', {class: 'told read'},
    (twoRuns ? viewName(view) + ': ' : '') + headLabel(sitePath(), map, head));
  function point(event) {
    const bounds = svg.getBoundingClientRect(), zoom = width / bounds.width;
    const column = Math.floor(((event.clientX - bounds.left) * zoom - left) / cell);
    const row = Math.floor(((event.clientY - bounds.top) * zoom - top) / cell);
    if (row < 0 || column < 0 || row >= rows || column >= columns) return;
    cross.replaceChildren(
      element('rect', {class: 'frame', x: left, y: top + row * cell, width: w, height: cell}),
      element('rect', {class: 'frame', x: left + column * cell, y: top, width: cell, height: h}));
    told.textContent = cellText(map, s, head, row, column);
    if (map.rowTokens) set({token: {sequence: s.rows, at: row}});
  }
  const svg = element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', class: 'map',
    'aria-label': headLabel(sitePath(), map, head), onmousemove: point,
    onmouseleave: () => { cross.replaceChildren(); set({token: state.pinned}); }},
    element('rect', {...box, class: 'paper'}), heat(map, head, range, box),
    element('rect', {...box, class: 'frame'}),
    Array.from({length: rows}, (_, i) => isTick('row', i) && element('text', {class: tickClass('row', i), x: left - 5,
      y: top + (i + 0.5) * cell + 3.5, 'text-anchor': 'end'}, name('row', i))),
    Array.from({length: columns}, (_, i) => isTick('column', i) && (name('column', i).length === 1
      ? element('text', {class: tickClass('column', i), 'text-anchor': 'middle', x: left + (i + 0.5) * cell, y: top - 6}, name('column', i))
      : element('text', {class: tickClass('column', i), transform: `translate(${left + (i + 0.5) * cell + 3.5} ${top - 5}) rotate(-90)`}, name('column', i)))),
    element('text', {class: 'small axis-title', transform: `translate(10 ${top + h / 2}) rotate(-90)`, 'text-anchor': 'middle'}, looking),
    element('text', {class: 'small axis-title', x: left + w / 2, y: scale + 11, 'text-anchor': 'middle'}, lookedAt),
    row >= 0 && element('rect', {class: 'named-cell', x: left + column * cell, y: top + row * cell, width: cell, height: cell}),
    cross, colourBar(range, left, 12, Math.min(Math.max(w, 160), 220)));
  const legend = element('p', {class: 'caption legend'}, `${colourWords(map, view)}. `.replace(/^./, (c) => c.toUpperCase()),
    hasForcedRow(map) ? 'Grey: the first token sees itself alone.' : '');
  return element('div', {}, told, legend, figure(`${map.path}-head-${head}${twoRuns ? '-' + viewName(view) : ''}`,
    [`One scale for all ${map.weights ? 'layers and heads' : 'heads of a layer'}. For hooks it is `, element('code', {}, map.path), '.'], svg));
}
