// numbers.js: tables, histograms of maps, the effect of removing heads.

// ---- Tables ----

// The rows of a table in the chosen view: of a difference, numbers of the second run less the first's
// in rows that both have.
function rowsInView(name) {
  if (state.view !== difference) return table(state.view, name) ?? {columns: [], rows: []};
  const a = table(0, name), b = table(1, name);
  if (!a || !b) return {columns: [], rows: []};
  const counts = (x, i) => typeof x === 'number' && i >= b.keys;
  const key = (row) => JSON.stringify(row.slice(0, b.keys));
  const before = new Map(a.rows.map((row) => [key(row), row]));
  const same = (i) => a.columns.findIndex((c) => c.name === b.columns[i].name);
  return {columns: b.columns, rows: b.rows.filter((row) => before.has(key(row))).map((row) => row.map((x, i) => {
    const was = before.get(key(row))[same(i)] ?? null;
    return counts(x, i) || counts(was, i) ? (x === null || was === null ? null : x - was) : x;
  }))};
}

const csvCell = (x) => x === null ? '' : typeof x === 'number' ? String(x) : '"' + x.replaceAll('"', '""') + '"';
function csvOf(name) {
  const {columns, rows} = rowsInView(name), checkpoint = frameOf(baseRun()).step;
  const run = state.view === difference ? viewName(difference) : runs[state.view].name;
  return csvLines([['run', 'checkpoint', ...columns.map((c) => c.name)], ...rows.map((row) => [run, checkpoint, ...row])]);
}
const csvLines = (rows) => rows.map((row) => row.map(csvCell).join(',') + '\n').join('');
const csvButton = (name, make = () => csvOf(name)) => element('button', {class: 'save', 'aria-label': `save ${name} as CSV`,
  onclick: () => download(fileName(name) + '.csv', new Blob([make()], {type: 'text/csv'}))}, 'CSV');

// A table of numbers; a click on a column's name sorts by it. `mark(row, column)` may give a cell a
// share, 0 … 1, that is drawn behind it.
const sorting = {};
function tableView(name, {mark, pick, keep = () => true, only = () => true} = {}) {
  const data = rowsInView(name), holder = element('div', {class: 'table'});
  if (!data.rows.length) return holder;
  const shown = data.columns.map((_, i) => i).filter((i) => keep(data.columns[i]));
  const show = () => {
    const by = sorting[name], rows = data.rows.filter(only);
    if (by) rows.sort((a, b) => by.sign * ((a[by.column] ?? -Infinity) > (b[by.column] ?? -Infinity) ? 1 : -1));
    holder.replaceChildren(element('div', {class: 'scroll'}, element('table', {},
      element('thead', {}, element('tr', {}, shown.map((i) => heading(i, by)))),
      element('tbody', {}, rows.map((row) => element('tr', {onclick: pick ? () => pick(row) : null,
        class: pick ? 'pick' : null}, shown.map((i) => cellOf(row[i], data.columns[i], mark?.(row, i)))))))),
      element('div', {class: 'saving'}, csvButton(name)));
  };
  const isNumber = (i) => data.rows.some((row) => typeof row[i] === 'number');
  const heading = (i, by) => element('th', {class: isNumber(i) ? 'number' : null, title: data.columns[i].meaning || null, scope: 'col',
    'aria-sort': by?.column === i ? (by.sign > 0 ? 'ascending' : 'descending') : null}, element('button', {onclick: () => {
    const now = sorting[name];
    sorting[name] = now?.column === i && now.sign > 0 ? null : {column: i, sign: now?.column === i ? 1 : -1};
    show();
  }}, data.columns[i].name === 'site' ? 'layer' : data.columns[i].name, by?.column === i ? (by.sign > 0 ? ' ↑' : ' ↓') : ''),
  data.columns[i].unit && element('small', {}, data.columns[i].unit));
  show();
  return holder;
}
// Columns that hold paths, as people say them.
const placeLabels = {site: siteLabel, point: partLabel, part: partLabel};
function cellOf(value, column, share) {
  if (typeof value === 'string' && column.name in placeLabels) return element('td', {title: value}, placeLabels[column.name](value));
  if (typeof value === 'string') return element('td', {}, column.token ? element('code', {}, visible(value)) : value);
  const range = {low: 0, high: 1, signed: false};
  const fill = share > 0 ? linear(() => colourOf(share, range)) : null;
  return element('td', {class: 'number', style: fill ? {background: fill, color: inkOn(fill)} : {}}, number(value));
}

// A long table, made when somebody opens it; update() makes an open one anew.
function folded(name) {
  const node = element('details', {ontoggle: () => update()}, element('summary', {}, 'All of them as a table'));
  const update = () => { if (node.open) node.replaceChildren(node.firstChild, tableView(name)); };
  return {node, update};
}

// ---- Head statistics ----

function headsSection(root) {
  const holder = element('div');
  root.append(holder);
  function build() {
    const all = rowsInView('heads'), rows = all.rows.filter(isShown), {columns} = all;
    const shown = columns.filter((_, i) => i < 3 || rows.some((row) => row[i] !== null));
    const largest = columns.map((_, i) => i < 3 ? 0 : Math.max(...rows.map((row) => Math.abs(row[i] ?? 0))));
    const map = mapAt(sitePath()), entropy = columns.findIndex((c) => c.name === 'entropy');
    const hasEntropy = rows.some((row) => row[0] === sitePath() && row[entropy] !== null);
    holder.replaceChildren(
      element('p', {class: 'caption'}, map?.unmeasured || (hasEntropy || !map ? ''
        : `${tensorName(map)} has negative entries, so its rows are no shares and have no entropy. `),
      map?.unmeasured ? '' : 'A row that sees one column has no choice, and is not counted. Darkest is the most of a column.'),
      element('dl', {class: 'meanings'}, shown.slice(3).map((c) =>
        element('div', {}, element('dt', {}, c.name), element('dd', {}, c.meaning)))),
      tableView('heads', {
        mark: (row, i) => i < 3 || !largest[i] ? 0 : Math.max(0, row[i] ?? 0) / largest[i] * 0.5,
        pick: (row) => set({site: Math.max(0, siteNames.indexOf(row[0])), head: row[2]}),
        keep: (column) => shown.includes(column), only: isShown,
      }));
  }
  // Rows of the map that is looked at, or of the weights where that has no measures.
  function isShown([path, tensor]) {
    const map = mapAt(path);
    return tensor === tensorName(map && !map.unmeasured ? map : mapAt(path, siteOf(baseRun(), path)?.weights) ?? {name: ''});
  }
  return {build};
}

// ---- Histograms ----

function histogramsSection(root) {
  const figures = element('div', {class: 'row'});
  root.append(figures);

  function build() {
    const shown = (state.view === difference ? [0, 1] : [state.view]);
    const maps = [...new Set(shown.flatMap((r) => frameOf(r).sites.flatMap((s) => s.histograms.map((h) => h.map))))];
    const sites = siteNames.filter((path) => shown.some((r) => siteOf(r, path)?.histograms.length));
    const width = Math.max(250, Math.min(420, Math.floor((root.clientWidth - 20) / Math.min(4, Math.max(1, sites.length))) - 16));
    figures.replaceChildren(...maps.flatMap((map) => sites.map((path) => one(path, map, shown, width))).filter(Boolean));
  }

  function one(path, name, shown, width) {
    const found = shown.map((r) => [r, siteOf(r, path)?.histograms.find((h) => h.map === name)]).filter(([, h]) => h);
    if (!found.length) return null;
    const {low, high} = found[0][1];
    const most = Math.max(1, ...found.flatMap(([, h]) => sums(h.counts)));
    const label = `how often ${name} of ${siteLabel(path)} lies where`;
    const ten = Math.max(1, Math.ceil(Math.log10(most)));
    const svg = plot({width, height: 190, x: [low, high], y: [0, tall(10 ** ten)], xLabel: name, yLabel: 'cells', label,
      yTicks: Array.from({length: ten + 1}, (_, i) => i ? [tall(10 ** i), plain(10 ** i)] : [0, '0']),
      draw: (toX, toY) => found.map(([r, h]) => bars(h, toX, toY, shown.length > 1 ? r : null))});
    return figure(`histogram-${path}-${name}`, `${name} of ${siteLabel(path)}` + (shown.length > 1 ? ', both runs' : headsShown(found[0][1].counts.length))
      + (found.some(([r]) => {
        const map = mapOf(r, path, name);
        return map.half && map.weights;
      }) ? ', without the first row’s 1' : ''), svg);
  }
  // Which heads have a line of their own.
  function headsShown(count) {
    const on = [...Array(count).keys()].filter((head) => !isOff(head));
    return ', all heads' + (count === 1 || !on.length ? '' : on.length === count ? ', and each' : `, and head${on.length > 1 ? 's' : ''} ${on.join(', ')}`);
  }
  const sums = (counts) => counts[0].map((_, bin) => counts.reduce((sum, head) => sum + head[bin], 0));
  const tall = (count) => Math.log10(count + 1);  // none is 0

  function bars(h, toX, toY, run) {
    const bins = h.counts[0].length, at = (bin) => h.low + (h.high - h.low) * bin / bins;
    const steps = (counts) => counts.flatMap((count, bin) => [[toX(at(bin)), toY(tall(count))], [toX(at(bin + 1)), toY(tall(count))]]);
    const all = sums(h.counts);
    const area = steps(all).concat([[toX(h.high), toY(0)], [toX(h.low), toY(0)]]);
    const colour = run === null ? null : headColour(run);
    return [lineThrough(area, {class: 'area', style: colour ? {fill: colour, stroke: colour} : {}}),
      all.map((count, bin) => element('rect', {x: toX(at(bin)), y: toY(tall(count)), width: toX(at(1)) - toX(at(0)),
        height: toY(0) - toY(tall(count)), fill: 'transparent'}, element('title', {},
        `${number(at(bin), 3)} … ${number(at(bin + 1), 3)}: ${grouped(count)}`))),
      run === null && h.counts.map((counts, head) => isOff(head) ? null
        : lineThrough(steps(counts), {stroke: headColour(head), 'stroke-width': 1, opacity: 0.85}))];
  }
  return {build};
}

// ---- Cells ----

// A heat map whose cells tell their numbers where there is room: rows and columns by name, and
// at(row, column): {value, title, pick, here}, or null where there is none. Blue is below 0, orange above.
function cellGrid(root, label, rows, columns, at) {
  const all = rows.map((_, i) => columns.map((_, j) => at(i, j)));
  const size = Math.max(1e-12, ...all.flat().map((cell) => Math.abs(cell?.value ?? 0)));
  const range = {low: -size, high: size, signed: true}, long = Math.max(...columns.map((name) => name.length));
  const left = Math.max(118, 14 + 7.4 * Math.max(...rows.map((name) => name.length)));
  const w = Math.max(16, Math.min(92, Math.floor((root.clientWidth - left) / columns.length) - 3)), h = 34;
  const turned = long * 7 > w, top = turned ? 14 + Math.min(long, 12) * 7 : 20;
  const width = Math.max(left + 220, left + columns.length * (w + 3)), height = top + rows.length * (h + 3) + 34;
  const x = (j) => left + j * (w + 3), y = (i) => top + i * (h + 3);
  const heading = (name, j) => turned
    ? element('text', {class: 'small', transform: `translate(${x(j) + w / 2 + 4} ${top - 6}) rotate(-90)`}, name)
    : element('text', {class: 'small', 'text-anchor': 'middle', x: x(j) + w / 2, y: top - 8}, name);
  return linear(() => element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label},
    columns.map(heading),
    rows.map((name, i) => [element('text', {class: 'label', x: 0, y: y(i) + h / 2 + 4}, name),
      all[i].map((cell, j) => cell && oneCell(cell, x(j), y(i), w, h, range))]),
    colourBar(range, left, height - 24, 200)));
}
function oneCell({value, title, pick}, left, top, width, height, range) {
  const fill = colourOf(value ?? NaN, range), told = number(value, 3);
  return element('g', {class: pick ? 'pick cell' : 'cell', onclick: pick},
    element('rect', {x: left, y: top, width, height, rx: 3, fill}),
    told.length * 6.4 <= width && element('text', {class: 'small', 'text-anchor': 'middle', x: left + width / 2, y: top + height / 2 + 4,
      style: {fill: fill === 'transparent' ? null : inkOn(fill)}}, told),
    element('title', {}, `${title}: ${number(value)}`));
}
// "head 0", or of many the number alone.
const headNames = (count) => Array.from({length: count}, (_, i) => count > 12 ? `${i}` : `head ${i}`);

// ---- The loss without each head ----

function ablationSection(root) {
  const made = figure('ablation', '', element('svg'));
  root.append(made);

  function build() {
    const of = (run, path) => siteOf(run, path)?.ablation;
    const change = (path) => {
      if (state.view !== difference) return of(state.view, path);
      const [a, b] = [of(0, path), of(1, path)];
      return a && b && a.length === b.length ? b.map((x, i) => x - a[i]) : null;
    };
    const paths = siteNames.filter(change), heads = Math.max(1, ...paths.map((path) => change(path).length));
    const all = ofRemoval()?.heads ?? [], names = (key) => [...new Set(all.map((head) => head[key]).filter(Boolean))].join(' or ');
    made.querySelector('figcaption span').textContent = 'What the loss gains (nats a token) when what a head adds'
      + `${names('tensor') && ` to ${names('tensor')}`} is set to zero: orange, it is missed; blue, the loss is lower without it.`
      + (names('map') && ` Heads are those of ${names('map')}.`);
    made.show(cellGrid(root, 'the loss without each head', paths.map(siteLabel), headNames(heads), (i, head) =>
      head >= change(paths[i]).length ? null : {value: change(paths[i])[head], title: `${siteLabel(paths[i])}, head ${head}`,
        pick: () => set({site: siteNames.indexOf(paths[i]), head})}));
  }
  return {build};
}
