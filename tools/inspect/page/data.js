// data.js: the report and what is looked at: which run, checkpoint, site, map, head, token.

const report = JSON.parse(document.getElementById('report').textContent);
const runs = report.runs;
const twoRuns = runs.length > 1;
// Two runs are shown one at a time or as the second less the first.
const difference = 2;

const state = {
  view: 0,       // the first run, the second, or their difference
  frame: Math.max(0, runs[0].frames.length - 1),  // of the first run
  site: 0,       // a number in siteNames
  map: '',       // 'W'
  slices: {},    // which of a map's further axes: {s: 1}; not named: 0
  head: 0,
  off: null,       // heads whose lines are not drawn, a set; null: of many, all but the chosen one
  token: null,     // {sequence, at}: the one that is looked at
  pinned: null,    // the same, if a click holds it
  from: 'row',     // or column: what the token looks at, or what looks at it
  root: true,      // small values are spread: colours go with the square root
  dark: matchMedia('(prefers-color-scheme: dark)').matches,
};

const baseRun = () => state.view === 1 ? 1 : 0;
// The checkpoint of a run that is nearest to the one chosen of the first.
function frameOf(run) {
  const frames = runs[run].frames;
  if (run === 0 || frames.length === 0) return frames[state.frame];
  const step = runs[0].frames[state.frame].step;
  return frames.reduce((a, b) => Math.abs(b.step - step) < Math.abs(a.step - step) ? b : a);
}
const siteNames = [...new Set(runs.flatMap((run) => run.frames.length ? run.frames[0].sites.map((s) => s.path)
  : []))];
const siteOf = (run, path) => frameOf(run)?.sites.find((s) => s.path === path);
const sitePath = () => siteNames[state.site];
const site = () => siteOf(baseRun(), sitePath()) || siteOf(1 - baseRun(), sitePath());
// In the order of the text that has most of them.
const mapNames = () => [...new Set(runs.flatMap((_, r) => frameOf(r)?.sites ?? [])
  .sort((a, b) => b.maps.length - a.maps.length).flatMap((s) => s.maps.map((m) => m.name)))];
const mapOf = (run, path, name) => siteOf(run, path)?.maps.find((m) => m.name === name);

// The values of a map, row-major [heads, rows, columns]; NaN: hidden by the mask, or not finite.
const decoded = new WeakMap();
function values(map) {
  if (map.values) return map.values;
  if (!decoded.has(map)) decoded.set(map, decode(map));
  return decoded.get(map);
}
function decode(map) {
  const bytes = Uint8Array.from(atob(map.data), (c) => c.charCodeAt(0));
  const levels = map.bits === 16 ? new Uint16Array(bytes.buffer) : bytes;
  const top = 2 ** map.bits - 1;
  const [heads, rows, columns] = map.shape;
  const out = new Float32Array(heads * rows * columns).fill(NaN);
  let at = 0;
  for (let row = 0; row < heads * rows; ++row) {
    const seen = map.half ? row % rows + 1 : columns;
    for (let column = 0; column < seen; ++column, ++at)
      if (levels[at] !== top) out[row * columns + column] = map.origin + levels[at] * map.step;
  }
  return out;
}
// Half a step of the scale on which the page keeps it.
const uncertainty = (map) => map.step / 2;

// The second less the first, of maps that have one shape; else null.
const differences = new WeakMap();
function differenceOf(a, b) {
  if (!a || !b || a.shape.join() !== b.shape.join()) return null;
  if (!differences.has(a)) {
    const from = values(a), to = values(b), out = from.map((x, i) => to[i] - x);
    const size = out.reduce((m, x) => Math.abs(x) > m ? Math.abs(x) : m, 0);
    differences.set(a, new Map());
    differences.get(a).set(b, {...b, values: out, weights: false, low: -size, high: size,
      step: a.step + b.step, decimals: null, data: null});
  }
  return differences.get(a).get(b) ?? (differences.delete(a), differenceOf(a, b));
}

// The pictures of a map at the chosen places of its further axes, A[n, m, s, h] at s=1: a map of heads.
const slices = new WeakMap();
function sliceOf(map) {
  if (!map?.outer.length) return map;
  const at = map.outer.map(([name, size]) => Math.min(size - 1, state.slices[name] ?? 0));
  const chosen = '[' + map.outer.map(([name], i) => `${name}=${at[i]}`).join(', ') + ']';
  if (!slices.has(map)) slices.set(map, new Map());
  const made = slices.get(map);
  if (!made.has(chosen)) {
    const first = map.outer.reduce((sum, [, size], i) => sum * size + at[i], 0);
    const [pictures, rows, columns] = map.shape, heads = pictures / map.outer.reduce((n, [, size]) => n * size, 1);
    const part = values(map).subarray(first * heads * rows * columns, (first + 1) * heads * rows * columns);
    made.set(chosen, {...map, chosen, shape: [heads, rows, columns], values: part, data: null});
  }
  return made.get(chosen);
}
// The name that tables give the tensor: "W", "A[s=1]".
const tensorName = (map) => map.name + (map.chosen ?? '');

// The map that is looked at, in the chosen view; undefined where the site has none of that name.
function mapAt(path, name = state.map, view = state.view) {
  const of = (run) => sliceOf(mapOf(run, path, name));
  return view === difference ? differenceOf(of(0), of(1)) || undefined : of(view);
}

// From which value to which the colours of a map go. Weights share one scale over all sites, so that
// one colour is one weight everywhere.
function rangeOf(map) {
  if (!map.weights) {
    const {low, high} = hasForcedRow(map) ? chosenRange(map) : map;
    // Amounts that come near 0 begin there.
    return {low: low > 0 && low < 0.1 * high ? 0 : low, high, signed: low < 0 && high > 0};
  }
  const all = runs.flatMap((_, r) => frameOf(r) ? frameOf(r).sites.flatMap((s) => s.maps) : []);
  const high = Math.max(...all.filter((m) => m.weights && m.name === map.name).map((m) => m.high));
  return {low: 0, high: high > 0 ? high : 1, signed: false};
}
// True of a map whose first row sees one token and is 1 in a softmax, whatever the head does: a softmax,
// and what is made of one.
const hasForcedRow = (map) => map.half && isOfSoftmax(map);
function isOfSoftmax({path, name, weights}) {
  if (weights) return true;
  const s = siteOf(baseRun(), path.slice(0, -name.length - 1));
  return !!s && s.ties.some((tie) => tie.to === name && isOfSoftmax(s.maps.find((map) => map.name === tie.from)));
}
// Without the first row, which would be the largest of all for no reason but that it is the first.
const chosenRanges = new WeakMap();
function chosenRange(map) {
  if (chosenRanges.has(map)) return chosenRanges.get(map);
  const [, rows, columns] = map.shape, own = values(map).filter((x, i) => Math.floor(i / columns) % rows && !Number.isNaN(x));
  const made = own.length ? {low: own.reduce((a, b) => Math.min(a, b)), high: own.reduce((a, b) => Math.max(a, b))} : map;
  chosenRanges.set(map, made);
  return made;
}
// Where a value lies on the scale: 0 … 1; of signed ones ½ is zero.
function place(value, range) {
  const bent = (x) => state.root ? Math.sqrt(x) : x;
  if (!range.signed) {
    const width = range.high - range.low;
    return width > 0 ? bent(Math.min(1, Math.max(0, (value - range.low) / width))) : 0;
  }
  const size = Math.max(-range.low, range.high);
  return 0.5 + 0.5 * Math.sign(value) * bent(Math.min(1, Math.abs(value) / size));
}

const isOff = (head) => state.off ? state.off.has(head)
  : (mapAt(sitePath())?.shape[0] ?? 1) > 12 && head !== state.head;
const tokensOf = (run, sequence) => runs[run].sequences[sequence]?.tokens ?? [];
const sequenceName = (sequence) => runs[baseRun()].sequences[sequence].name;
// The stack whose sequence it is: "encoder", "decoder".
const stackOf = (sequence) => frameOf(baseRun()).sites.find((s) => s.rows === sequence && s.columns === sequence)?.stack;
// "source (encoder)"
const sequenceLabel = (sequence) => sequenceName(sequence) + (stackOf(sequence) ? ` (${stackOf(sequence)})` : '');
// The label of a row or column of a map: a token, or a number where it has none.
function labelAt(map, s, axis, at) {
  const named = axis === 'row' ? map.rowTokens : map.columnTokens;
  const tokens = tokensOf(baseRun(), axis === 'row' ? s.rows : s.columns);
  return named && at < tokens.length ? tokens[at] : null;
}
const table = (run, name) => frameOf(run)?.tables[name];
