// findings.js: the heads that stand out, as a sentence and a list, with the picture of the chosen one.

// "layer 0" where every layer has one attention, "decoder 0 cross" where that is one place, else its path.
const allSites = runs.flatMap((run) => run.frames[0]?.sites ?? []).filter((s, i, all) => all.findIndex((t) => t.path === s.path) === i);
const isOneStack = new Set(allSites.map((s) => s.layer)).size === allSites.length && new Set(allSites.map((s) => s.stack)).size === 1;
const layerLabel = (s) => isOneStack ? `layer ${s.layer}` : `${s.stack} ${s.layer}`;
function siteLabel(path) {
  const label = (s) => layerLabel(s) + (allSites.some((t) => !isOneStack && t.stack === s.stack && t.kind !== s.kind) ? ' ' + s.kind : '');
  const own = label(allSites.find((s) => s.path === path));
  return allSites.filter((s) => label(s) === own).length > 1 ? path : own;
}
// A tensor beside an attention by the same name: "layer 0: F" for decoder/0/F; of no layer, its path.
function partLabel(path) {
  const layer = (s) => s.path.slice(0, s.path.lastIndexOf('/') + 1);
  const own = allSites.find((s) => layer(s) && path.startsWith(layer(s)));
  return own && siteLabel(own.path) !== own.path ? `${layerLabel(own)}: ${path.slice(layer(own).length)}` : path;
}
// "W of layer 0, head 1"
const headLabel = (path, map, head) => `${tensorName(map)} of ${siteLabel(path)}, head ${head}`;
// A pattern that a head may follow; it is told before how widely and how far each looks.
const patterns = {
  'induction': 'at what followed the same token earlier', 'duplicate token': 'at the same token, earlier', 'previous token': 'at the token before',
};
const isPattern = ({measure}) => measure in patterns;
const inWords = {...patterns, 'entropy': 'looks almost evenly at everything', 'distance': 'looks farther away than uniform attention', 'loss without it': 'what the loss gains'};
function findings() {
  const all = frameOf(baseRun())?.findings ?? [];
  return [...all.filter(isPattern), ...all.filter((found) => !isPattern(found))];
}

// A finding's map, and where its picture stands among the map's.
function placeOfFinding({site: path, map: name, picture}) {
  const map = mapOf(baseRun(), path, name);
  const heads = map ? map.shape[0] / map.outer.reduce((n, [, size]) => n * size, 1) : Infinity;
  const chosen = {};
  let rest = Math.floor(picture / heads);
  for (const [name, size] of [...map?.outer ?? []].reverse()) {
    chosen[name] = rest % size;
    rest = Math.floor(rest / size);
  }
  return {map, head: picture % heads, slices: {...state.slices, ...chosen}};
}
// The query that shows it most; of what has none the one that looks most at what it is said to look at.
function queryOf({site: path, row, picture}, map) {
  if (row >= 0 || !map?.rowTokens) return row;
  // Of a head that looks evenly the last, which looks at most tokens.
  if (isEven({site: path, map: map.name, picture})) return map.shape[1] - 1;
  const s = siteOf(baseRun(), path), rows = [...Array(map.shape[1]).keys()].map((i) => [i, ...strongestIn(map, picture, i)]);
  const kind = kindOf({site: path, picture}, map), isOfKind = kind && isDrawn(kind)
    ? ([i, j]) => kind.has({from: tokensOf(baseRun(), s.rows), to: tokensOf(baseRun(), s.columns), i, j, isOwn: s.rows === s.columns}) : () => false;
  // One whose strongest is of the kind that is told, else one that looks at another token.
  const shows = rows.filter(isOfKind), others = shows.length ? shows : rows.filter(([i, at]) => s.rows !== s.columns || at !== i);
  // Of few tokens one has much by chance: what counts is how much more than the equal share.
  const beyond = ([i, , weight]) => weight - rowOf(map, picture, i).reduce((sum, x) => sum + Math.abs(x || 0), 0) / seenOf(map, picture, i).length;
  return others.reduce((best, found) => beyond(found) > best[1] ? [found[0], beyond(found)] : best, [-1, 0])[0];
}
const rowOf = (map, picture, row) => {
  const [, rows, columns] = map.shape, first = (picture * rows + row) * columns;
  return values(map).slice(first, first + columns);
};
// The columns that a row sees.
const seenOf = (map, picture, row) => [...rowOf(map, picture, row).entries()].filter(([, x]) => !Number.isNaN(x)).map(([j]) => j);
// Where a row has most, and how much.
function strongestIn(map, picture, row) {
  const all = rowOf(map, picture, row);
  const at = all.reduce((best, x, i) => Math.abs(x) > Math.abs(all[best] || 0) ? i : best, 0);
  return [at, Math.abs(all[at]), all[at]];
}
function choose(finding) {
  const {map, head, slices} = placeOfFinding(finding), s = siteOf(baseRun(), finding.site), row = queryOf(finding, map);
  const token = map?.rowTokens && row >= 0 ? {sequence: s.rows, at: row}
    : state.token?.sequence === s.rows ? state.token : {sequence: s.rows, at: tokensOf(baseRun(), s.rows).length - 1};
  set({site: siteNames.indexOf(finding.site), map: map?.name ?? s.weights, slices, head, from: 'row'});
  set({token, pinned: token});
}

// ---- Kinds of token ----

// Kinds of key, at j, for a query at i. Some are there in prose alone.
const isLetter = (token) => /^\p{L}$/u.test(token ?? '');
const kinds = [
  {words: 'the token itself', has: ({i, j, isOwn}) => isOwn && j === i},
  {words: 'the token before', has: ({i, j, isOwn}) => isOwn && j === i - 1},
  {words: 'the same token, earlier', has: ({from, i, j, isOwn}) => isOwn && j < i && from[j] === from[i]},
  {words: 'what followed the same token earlier', has: ({from, i, j, isOwn}) => isOwn && j > 0 && j < i && from[j - 1] === from[i]},
  {words: 'the same token', has: ({from, to, i, j, isOwn}) => !isOwn && to[j] === from[i]},
  {words: 'the token at the same place', has: ({i, j, isOwn}) => !isOwn && j === i},
  {words: 'the first token', has: ({j}) => j === 0},
  {words: 'digits', has: ({to, j}) => /^\p{N}$/u.test(to[j])},
  {words: 'earlier letters of the same word', isOfProse: true, has: ({from, i, j, isOwn}) => isOwn && j < i && from.slice(j, i + 1).every(isLetter)},
  {words: 'first letters of words', isOfProse: true, has: ({to, j}) => isLetter(to[j]) && !isLetter(to[j - 1])},
  {words: 'spaces', isOfProse: true, has: ({to, j}) => to[j] === ' '},
  {words: 'ends of lines', isOfProse: true, has: ({to, j}) => to[j] === '\n'},
  {words: 'first tokens of lines', isOfProse: true, has: ({to, j}) => to[j - 1] === '\n'},
  {words: 'vowels', isOfProse: true, has: ({to, j}) => /^[aeiou]$/i.test(to[j])},
  {words: 'consonants', isOfProse: true, has: ({to, j}) => /^[b-df-hj-np-tv-z]$/i.test(to[j])},
  {words: 'capital letters', isOfProse: true, has: ({to, j}) => /^\p{Lu}$/u.test(to[j])},
  {words: 'punctuation marks', isOfProse: true, has: ({to, j}) => /^\p{P}$/u.test(to[j])},
];
// The part of a head's weight that is on a kind and the part that equal weights would have there, means over
// the queries that see tokens of the kind and others. Of weights with signs it is a part of their absolute values.
function shareOfKind({has}, map, picture, s) {
  const from = tokensOf(baseRun(), s.rows), to = tokensOf(baseRun(), s.columns), found = {share: 0, uniform: 0, queries: 0};
  for (let i = 0; i < map.shape[1]; ++i) {
    const row = rowOf(map, picture, i), seen = [...row.keys()].filter((j) => !Number.isNaN(row[j]));
    const those = seen.filter((j) => has({from, to, i, j, isOwn: s.rows === s.columns})), total = seen.reduce((sum, j) => sum + Math.abs(row[j]), 0);
    if (!those.length || those.length === seen.length || total === 0) continue;
    found.share += those.reduce((sum, j) => sum + Math.abs(row[j]), 0) / total;
    found.uniform += those.length / seen.length;
    ++found.queries;
  }
  return {share: found.share / found.queries, uniform: found.uniform / found.queries, queries: found.queries};
}
// How far a share is from the uniform one, in nats, over all queries.
function surpriseOf({share, uniform, queries}) {
  const part = (p, q) => p > 0 ? p * Math.log(p / q) : 0;
  return share > uniform ? queries * (part(share, uniform) + part(1 - share, 1 - uniform)) : 0;
}
// The kind at which a head looks most beyond what uniform attention does; undefined where there are no tokens.
const kindsFound = new WeakMap();
function kindOf({site: path, picture}, map) {
  if (!map?.rowTokens || !map.columnTokens) return undefined;
  if (!kindsFound.has(map)) kindsFound.set(map, {});
  const known = kindsFound.get(map), s = siteOf(baseRun(), path), isProse = tokensOf(baseRun(), s.columns).includes(' ');
  return known[picture] ?? (known[picture] = kinds.filter(({isOfProse}) => isProse || !isOfProse).map((kind) => ({...kind, ...shareOfKind(kind, map, picture, s)}))
    .filter(({queries}) => queries > 0).sort((a, b) => surpriseOf(b) - surpriseOf(a))[0]);
}
// True if a head looks at a kind for more than it is often there.
const isDrawn = ({share, uniform}) => share >= 1.2 * uniform && share >= uniform + 0.05;
// " looks at spaces: 0.62 of its weight in W on average, over 40 tokens; uniform attention would give 0.21."
function kindInWords(finding, map) {
  const kind = kindOf(finding, map), s = siteOf(baseRun(), finding.site), negative = negativePart(map, finding.picture);
  const about = (x) => (map.decimals === null ? '≈' : '') + number(x, 2), looks = negative > 0.5 ? 'weighs' : 'looks at';
  const words = kind.words + (s.rows === s.columns ? '' : ` of the ${sequenceName(s.columns)}`);
  return [isDrawn(kind) ? ` ${looks} ${words}: ` : ` ${looks} no kind of token much more than uniform attention would, most ${negative > 0.5 ? '' : 'at '}${words}: `,
    about(kind.share), negative > 0 ? ' of its absolute weight in ' : ' of its weight in ', element('code', {}, map.name),
    ` on average, over ${counted(kind.queries, 'token')}; uniform attention would give ${number(kind.uniform, 2)}. `,
    negative > 0 ? `Of all its absolute weight ${about(negative)} is negative. ` : ''];
}
// The mean part of a row's absolute weights that is negative.
function negativePart(map, picture) {
  const sum = (row) => row.reduce((total, x) => total + Math.abs(x || 0), 0);
  const rows = [...Array(map.shape[1]).keys()].map((i) => [...rowOf(map, picture, i)]).filter((row) => sum(row) > 0);
  return rows.reduce((total, row) => total + sum(row.filter((x) => x < 0)) / sum(row), 0) / rows.length;
}
// The heads that are drawn to a kind of token, the one that is least so by chance first.
function ofKinds() {
  const heads = frameOf(baseRun()).sites.filter((s) => s.weights).flatMap((s) => {
    const map = mapOf(baseRun(), s.path, s.weights);
    return Array.from({length: map.shape[0]}, (_, picture) => ({site: s.path, map: map.name, tensor: map.name, picture, row: -1}))
      .map((head) => ({...head, kind: kindOf(head, map)}));
  }).filter(({kind}) => kind && isDrawn(kind)).sort((a, b) => surpriseOf(b.kind) - surpriseOf(a.kind)).map((head) => ({...head, value: head.kind.share}));
  return heads.length ? {measure: 'kind', heads} : undefined;
}

// What a measure is where each query looks equally at all that it sees: a row's mean, by measure. A row
// that sees one token has no choice and is not counted.
const ofEqualWeights = {
  'entropy': (i, seen) => Math.log(seen.length),
  'distance': (i, seen) => seen.reduce((sum, j) => sum + Math.abs(i - j), 0) / seen.length,
  'previous token': (i, seen) => i > 0 ? 1 / seen.length : NaN,
  'duplicate token': (i, seen, tokens) => shareOf(seen, earlier(tokens, i)),
  'induction': (i, seen, tokens) => shareOf(seen, earlier(tokens, i).map((j) => j + 1).filter((j) => j < i)),
};
const earlier = (tokens, i) => [...tokens.keys()].filter((j) => j < i && tokens[j] === tokens[i]);
const shareOf = (seen, those) => those.length ? those.length / seen.length : NaN;
const uniforms = new WeakMap();
// NaN of what is not measured by the weights alone.
function uniformOf(measure, finding) {
  const map = mapOf(baseRun(), finding.site, finding.map), key = `${measure} ${finding.picture}`;
  if (!map || finding.map !== finding.tensor || !(measure in ofEqualWeights)) return NaN;
  if (!uniforms.has(map)) uniforms.set(map, {});
  const known = uniforms.get(map);
  return known[key] ?? (known[key] = meanOfEqual(measure, map, siteOf(baseRun(), finding.site), finding.picture));
}
function meanOfEqual(measure, map, s, picture) {
  const tokens = map.rowTokens ? tokensOf(baseRun(), s.rows) : [];
  const each = [...Array(map.shape[1]).keys()].map((i) => [i, seenOf(map, picture, i)])
    .filter(([, seen]) => seen.length > 1).map(([i, seen]) => ofEqualWeights[measure](i, seen, tokens)).filter((x) => !Number.isNaN(x));
  return each.reduce((sum, x) => sum + x, 0) / each.length;
}
// True if a head's measure hardly tells it from one that looks everywhere equally.
const isNear = (value, uniform) => Math.abs(value - uniform) <= 0.1 * uniform;
// Only what uniform attention does not have; of entropy, which is never above that, what is as wide.
const standsOut = (measure, head) => measure === 'entropy' ? isEven(head)
  : measure === 'distance' ? head.value > 1.1 * uniformOf(measure, head) : !(measure in patterns) || !(head.value <= 1.1 * uniformOf(measure, head));
// [least entropy, uniform entropy] of all heads' weights where each is within 2 % of the uniform one; else null.
function almostUniform() {
  const {columns, rows} = table(baseRun(), 'heads') ?? {columns: [], rows: []}, at = columns.findIndex((c) => c.name === 'entropy');
  const sites = frameOf(baseRun()).sites.filter((s) => s.weights), least = [];
  for (const s of sites) {
    const uniform = uniformOf('entropy', {site: s.path, map: s.weights, tensor: s.weights, picture: 0});
    const own = rows.filter((r) => r[0] === s.path && (r[1] === s.weights || r[1].startsWith(s.weights + '['))).map((r) => r[at]);
    if (!(uniform > 0) || !own.length || own.some((x) => typeof x !== 'number' || x < 0.98 * uniform)) return null;
    least.push([Math.min(...own), uniform]);
  }
  return least.sort(([a, b], [c, d]) => a / b - c / d)[0] ?? null;
}

// Induction if a head follows it mostly, else the pattern that is followed most; where none is followed
// what changes the loss most, and where no head does so much, what is drawn most to a kind of token. A
// pattern that equal weights follow as well is none.
function headline() {
  const found = findings().filter((each) => isPattern(each) && !isNear(each.heads[0].value, uniformOf(each.measure, each.heads[0]))).sort((a, b) => b.heads[0].value - a.heads[0].value);
  const induction = found.find(({measure, heads}) => measure === 'induction' && heads[0].value >= 0.5);
  const missed = ofRemoval();
  const drawn = () => ofKinds() ?? missed;
  return induction ?? ofWalk() ?? ofCross(missed) ?? (found[0]?.heads[0].value >= 0.5 ? found[0] : matters(missed?.heads[0]) ? missed : drawn() ?? found[0] ?? findings()[0]);
}

// Where one sequence looks at another, the head of cross attention that changes the loss most comes
// first, if a head there is far from uniform.
function ofCross(missed) {
  const isCross = ({site: path}) => {
    const s = siteOf(baseRun(), path), entropies = (table(baseRun(), 'heads')?.rows ?? []).filter((row) => row[0] === path && row[1] === s.weights)
      .map((_, picture) => measureOf('entropy', {site: path, map: s.weights, picture}));
    return s.rows !== s.columns && entropies.some((x) => x < 0.8 * uniformOf('entropy', {site: path, map: s.weights, tensor: s.weights, picture: 0}));
  };
  const heads = missed?.heads.filter(isCross) ?? [];
  return heads.length ? {...missed, heads, among: missed.heads[0] === heads[0] ? '' : ' of all heads of cross attention'} : undefined;
}
// The head of cross attention that reads the other sequence token by token, forwards or backwards, if what
// it looks at most moves by one in most of its steps.
function ofWalk() {
  const heads = frameOf(baseRun()).sites.filter((s) => s.rows !== s.columns && s.weights).flatMap((s) => {
    const map = mapOf(baseRun(), s.path, s.weights), [pictures, rows] = map.shape;
    if (!map.rowTokens || !map.columnTokens || map.outer.length || rows < 4) return [];
    return Array.from({length: pictures}, (_, picture) => {
      const at = [...Array(rows).keys()].map((i) => strongestIn(map, picture, i)), steps = at.slice(1).map(([j], i) => j - at[i][0]);
      const by = steps.filter((x) => x === 1).length < steps.filter((x) => x === -1).length ? -1 : 1, taken = steps.filter((x) => x === by).length;
      return {site: s.path, map: map.name, tensor: map.name, picture, row: -1, by, taken, steps: steps.length, value: taken / steps.length,
        weight: at.reduce((sum, [, weight]) => sum + weight, 0) / rows};
    });
  }).filter(({value}) => value >= 0.75).sort((a, b) => b.value - a.value || b.weight - a.weight);
  return heads.length ? {measure: 'walk', heads} : undefined;
}
const walkInWords = ({by, taken, steps, site: path}) => ` reads the ${sequenceName(siteOf(baseRun(), path).columns)} ${by < 0 ? 'backwards' : 'forwards'}, token by token: in ${taken} of its ${steps} steps what it looks at most is the token ${by < 0 ? 'before' : 'after'} that of the last step. `;
const lossOf = () => frameOf(baseRun()).losses.find((x) => x !== null);
// True if the loss without a head is another one, by 2 % or more.
const matters = (head) => !!head && Math.abs(head.value) >= 0.02 * lossOf();
const ofRemoval = () => findings().find(({measure}) => measure === 'loss without it');

// [row, column] of the cell where the token that is held looks most, in the map and head looked at.
function namedCell(view) {
  const map = mapAt(sitePath(), state.map, view), s = site(), held = state.pinned;
  if (!map?.rowTokens || !map.columnTokens || held?.sequence !== s.rows || held.at >= map.shape[1]) return [];
  const head = Math.min(state.head, map.shape[0] - 1);
  return [held.at, strongestIn(map, head, held.at)[0]];
}

const tokenAt = (tokens, i) => [element('code', {}, visible(tokens[i])), ` (${i})`];
// "Layer 1, head 3 looks at what followed the same token earlier (induction): 0.99 of its weight in W on
// average, over …"
function sentenceOf(found) {
  const even = almostUniform();
  if (even) return [element('b', {}, 'No head chooses'), `: attention is almost uniform. The least entropy of a head is ${number(even[0])} nats, that of uniform attention ${number(even[1])}.`];
  const {measure, unit, heads: [first]} = found, {map} = placeOfFinding(first);
  const told = element('code', {}, first.tensor), pattern = `${patterns[measure]} (${measure})`, uniform = uniformOf(measure, first);
  const lead = measure === 'walk' ? walkInWords(first)
    : isPattern(found) ? [first.value >= 0.5 ? ` looks ${pattern}: ` : ` looks, but seldom, ${pattern}: `, `${number(first.value)} of its weight in `, told, ' on average', queriesOf(measure, first, map),
      uniform > 0 ? `; uniform attention would give ${number(uniform, 2)}. ` : '. ']
    : isEven(first) ? [' ', evenly(first)] : kindOf(first, map) ? kindInWords(first, map)
    : measure === 'loss without it' ? '' : [` has most ${measure}: ${number(first.value)} ${unit} in `, told, '. '];
  const own = measure === 'loss without it' ? first : ofRemoval()?.heads[0];
  // No query is an example of a head that is drawn to no kind of token but opens for some queries.
  const kind = map && !isPattern(found) && measure !== 'walk' ? kindOf(first, map) : null;
  const opens = kind && !isDrawn(kind) && map.rowTokens ? opening(map, first.picture, tokensOf(baseRun(), siteOf(baseRun(), first.site).rows)) : '';
  const shown = isEven(first) ? '' : opens ? [opens, ' '] : map?.rowTokens && map.columnTokens && queryOf(first, map) >= 0 ? [example(first, map), ' '] : '';
  return [headTitle(first), lead, isEven(first) && (measure === 'walk' || isPattern(found)) ? ['It ', evenly(first)] : '',
    shown, raisedInWords(first, map), own && isSameHead(own, first) ? [lead ? 'It' : '', removalOf(own, found.among)] : ''];
}
const isSameHead = (a, b) => a.site === b.site && a.map === b.map && a.picture === b.picture;
// The head that is missed most, if the headline is another's.
function otherLoss(found) {
  const missed = ofRemoval()?.heads[0];
  return !missed || almostUniform() || found.measure === 'loss without it' || isSameHead(missed, found.heads[0]) ? ''
    : element('p', {class: 'headline missed'}, headTitle(missed), removalOf(missed));
}
// Where heads are mixed, head 0 of W is not head 0 of U: " of U".
const ofMixed = ({site: path, map, tensor}) => siteOf(baseRun(), path)?.ties.some((tie) => tie.mixers.length || tie.unknown) ? ` of ${map || tensor}` : '';
// A head's measure in the table; of the finding's picture, not of the tensor whose heads it is about.
function measureOf(measure, {site: path, map: name, picture}) {
  const {columns, rows} = table(baseRun(), 'heads') ?? {columns: [], rows: []}, at = columns.findIndex((c) => c.name === measure);
  const own = rows.filter((row) => row[0] === path && (row[1] === name || row[1].startsWith(name + '[')));
  return own[picture]?.[at] ?? NaN;
}
const uniformEntropy = (finding) => uniformOf('entropy', {...finding, tensor: finding.map});
// True if its entropy is within 5 % of that of uniform attention: what it looks at most says nothing then.
const isEven = (finding) => measureOf('entropy', finding) >= 0.95 * uniformEntropy(finding);
const evenly = (finding) => `looks almost evenly at everything: the entropy of ${finding.map} is ${number(measureOf('entropy', finding))} nats, that of uniform attention ${number(uniformEntropy(finding))}. `;
function headTitle(finding) {
  const place = siteLabel(finding.site);
  return element('b', {}, `${place[0].toUpperCase()}${place.slice(1)}, head ${placeOfFinding(finding).head}${ofMixed(finding)}`);
}
// " changes the loss most: …"
function removalOf(head, among = '') {
  const {tensor, value} = head, loss = lossOf();
  return [` changes the loss on ${lossIsOn()} most${among}: without it (what it adds to `, element('code', {}, tensor),
    ` set to zero) the loss ${value > 0 ? 'rises' : 'falls'} from ${number(loss)} to ${number(loss + value)} nats a token`,
    matters(head) ? '. ' : ': no head matters much here. '];
}
function lossIsOn() {
  const {name} = runs[baseRun()].sequences.at(-1);
  return name === 'own answer' ? 'the model’s own answer' : name === 'answer' ? 'the answer' : 'this text';
}
// Over which queries that is the mean.
function queriesOf(measure, {site: path, picture}, map) {
  const s = siteOf(baseRun(), path), tokens = tokensOf(baseRun(), s.rows);
  const before = {'previous token': (i) => i > 0, 'duplicate token': (i) => tokens.indexOf(tokens[i]) < i, 'induction': (i) => tokens.indexOf(tokens[i]) < i - 1};
  const sees = (i) => rowOf(map, picture, i).some((x) => x && !Number.isNaN(x));
  const all = [...tokens.keys()].filter((i) => before[measure](i) && sees(i));
  return all.length > 6 ? `, over ${all.length} tokens` : [', over ', all.map((i, k) => [k ? ', ' : '', tokenAt(tokens, i)])];
}
// The wire between two heads that is thickest beside the others of its matrix, if heads talk. Logits and
// weights have scales of their own, so entries of two matrices are not held against each other.
function thickestWire(path) {
  let most = null;
  for (const tie of siteOf(baseRun(), path)?.ties ?? []) {
    const mix = mixOf(baseRun(), path, tie), all = mix?.sum.flat() ?? [];
    const typical = Math.sqrt(all.reduce((sum, x) => sum + x * x, 0) / all.length);
    const isSquare = mix?.sum.length === mix?.sum[0].length;
    const wires = (mix?.sum ?? []).flatMap((row, a) => row.map((value, b) => ({tie, mix, a, b, value, times: Math.abs(value) / typical})))
      .filter(({a, b}) => !isSquare || a !== b || all.length === 1);  // that a head speaks to itself is no news
    for (const wire of wires)
      if (!most || wire.times > most.times) most = {...wire, count: wires.length};
  }
  return most;
}
// In what part of cases the largest of so many normally distributed numbers is as far from 0, in units of their
// root mean square; and whether that is often, one of twenty or more.
const chanceOf = (times, count) => 1 - (1 - beyond(times)) ** count;
const isByChance = (times, count) => chanceOf(times, count) >= 0.05;
// The chance that a normally distributed number is farther from 0 than `x` deviations. Abramowitz and Stegun
// 1964, 7.1.26.
function beyond(x) {
  const t = 1 / (1 + 0.3275911 * x / Math.SQRT2), factors = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  return factors.reduce((sum, factor) => (sum + factor) * t, 0) * Math.exp(-x * x / 2);
}
function talkOf(path) {
  const most = thickestWire(path);
  if (!most) return null;
  const {tie, mix, a, b, value, times, count} = most, talk = [`The heads of ${siteLabel(path)} `, element('a', {href: '#talk'}, 'talk')];
  const wire = [`head ${a} of `, element('code', {}, tie.from), ` to head ${b} of `, element('code', {}, tie.to), `, ${number(value)} in `, mix.terms.map(termInWords)];
  return element('p', {class: 'headline talks'}, talk, isByChance(times, count)
    ? ['; no wire between two of them stands out. The one farthest above the others of its matrix, ', wire,
      `, is not unusual: the largest of ${counted(count, 'random number')} is as large in ${Math.round(100 * chanceOf(times, count))} % of cases.`]
    : [': most of all ', wire, `, ${number(times, 2)} times its typical entry (the root mean square).`]);
}
// "P_l", " plus what the query · (10) adds (R_Xl)"
function termInWords({mixer, name, place}, i) {
  if (!place) return [i ? ' plus ' : '', element('code', {}, mixer.name)];
  return [i ? ' plus ' : '', `what the ${place.isRow ? 'query' : 'key'} `, tokenAt(tokensOf(baseRun(), place.sequence), place.at), ' adds (', element('code', {}, mixer.name), ')'];
}
// What the query that shows it most looks at.
function example(finding, map) {
  const {site: path, picture} = finding, row = queryOf(finding, map);
  const s = siteOf(baseRun(), path), from = tokensOf(baseRun(), s.rows), to = tokensOf(baseRun(), s.columns);
  const [at, , weight] = strongestIn(map, picture, row);
  const follows = s.rows === s.columns && at > 0 && from[at - 1] === from[row] && at - 1 < row;
  const told = approximate(weight, map), where = [' in ', element('code', {}, map.name)];
  // Of two sequences it is said whose tokens they are.
  const whose = (sequence) => s.rows === s.columns ? '' : ` of the ${sequenceName(sequence)}`;
  return [weight < 0 ? ['Token ', tokenAt(from, row), whose(s.rows), ' weighs ', tokenAt(to, at), whose(s.columns), ` most, with a negative sign: ${told}`, where]
    : ['From ', tokenAt(from, row), whose(s.rows), ' it looks most at ', tokenAt(to, at), whose(s.columns), `, ${told}`, map.name === finding.tensor ? '' : where],
    follows ? [', which followed ', tokenAt(from, at - 1)] : '', weight > 0 ? besides(map, picture, row, at, to) : '', sumOfRow(map, picture, row), '.', opening(map, picture, from)];
}
// "After s (31) it raises the logit of h most, by 0.53, and of e, by 0.31. " A change that is hardly one is
// not told.
function raisedInWords({site: path, picture, ...finding}, map) {
  const {raised} = siteOf(baseRun(), path), s = siteOf(baseRun(), path), tokens = tokensOf(baseRun(), s.rows);
  if (!raised || raised.map !== map?.name || map.outer.length) return '';
  const row = map.rowTokens ? queryOf({site: path, picture, ...finding}, map) : -1, at = row >= 0 ? row : tokens.length - 1, [, n, k] = raised.shape;
  const first = (picture * n + at) * k, most = raised.logits.slice(first, first + k).map((by, i) => [raised.tokens[first + i], by]).filter(([, by]) => by >= 0.3);
  return most.length ? ['After ', tokenAt(tokens, at), ' it raises the logit of ', most.map(([token, by], i) =>
    [i ? ', and of ' : '', element('code', {}, visible(token)), i ? ', by ' : ' most, by ', by.toFixed(2)]), '. '] : '';
}
// A weight says little by itself where rows have other sums than 1.
function sumOfRow(map, picture, row) {
  const sum = rowOf(map, picture, row).reduce((total, x) => total + (x || 0), 0);
  return Math.abs(sum - 1) > 0.02 ? `; its row sums to ${number(sum, 3)}` : '';
}
// Queries of few tokens may be open where rows have other sums than 1: " On average · gives each token that it
// sees 0.49, i 0.24, any other token 0.0048." Not where such rows have hardly more in all, as an early token's,
// which sees few.
function opening(map, picture, tokens) {
  const sum = (row) => row.reduce((total, x) => total + x, 0);
  // A query that sees one token has no choice.
  const rows = [...Array(map.shape[1]).keys()].map((i) => [...rowOf(map, picture, i)].filter((x) => !Number.isNaN(x)))
    .map((row) => row.length > 1 ? row : []);
  if (rows.every((row) => !row.length || Math.abs(sum(row) - 1) < 0.02) || rows.flat().some((x) => x < 0)) return '';
  const meanOf = (isOne) => {
    const all = rows.filter((_, i) => isOne(tokens[i])).flat();
    return sum(all) / all.length;
  };
  const means = [...new Set(tokens.filter((_, i) => rows[i]?.length))].map((token) => [meanOf((x) => x === token), token]).sort(([a], [b]) => b - a);
  const restAfter = (count) => meanOf((x) => means.slice(count).some(([, token]) => token === x));
  let count = 1;
  while (count < 3 && means.length > count + 1 && means[count][0] > 4 * restAfter(count + 1)) ++count;
  const rest = restAfter(count), isOpen = (token) => means.slice(0, count).some(([, open]) => token === open);
  const inAll = (isOne) => {
    const some = rows.filter((row, i) => row.length && isOne(tokens[i]));
    return sum(some.map(sum)) / some.length;
  };
  if (!(means[0][0] > 2 * rest && inAll(isOpen) > 1.5 * inAll((token) => !isOpen(token)))) return '';
  return [' On average ', means.slice(0, count).map(([mean, token], i) =>
    [element('code', {}, visible(token)), i ? ' ' : ' gives each token that it sees ', `${number(mean, 2)}, `]), `any other token ${number(rest, 2)}.`];
}

// What else it looks at with a tenth of its weight or more.
function besides(map, picture, row, most, tokens) {
  const all = rowOf(map, picture, row), sum = all.reduce((total, x) => total + Math.abs(x || 0), 0);
  const others = [...all.keys()].filter((j) => j !== most && all[j] >= 0.1 * sum)
    .sort((a, b) => all[b] - all[a]).slice(0, 2);
  return others.map((j) => [', and at ', tokenAt(tokens, j), `, ${approximate(all[j], map)}`]);
}

function findingsSection(root) {
  const said = element('div', {class: 'said'}), talk = element('div', {class: 'said-of-talk'}), hint = element('p', {class: 'caption hint'}), list = element('div', {class: 'list'}), picture = element('div', {class: 'finding'});
  root.append(element('div', {class: 'beside'}, said, hint, picture, talk, list));
  let buttons = [];

  function build() {
    buttons = [];
    const found = headline();
    said.replaceChildren(sequencesTold(), found ? element('p', {class: 'headline'}, sentenceOf(found)) : '');
    talk.replaceChildren(...found ? [otherLoss(found), talkOf(found.heads[0].site) ?? ''] : []);
    const shown = listed();
    hint.textContent = shown.length ? `The strongest heads${twoRuns ? ` of ${runs[baseRun()].name}` : ''}, by measure, stand below: a click selects one and the token that shows it most.` : '';
    list.replaceChildren(element('table', {class: 'strongest-heads'}, element('tbody', {}, shown.map(({measure, meaning, unit, heads, shown, uniform}) =>
      element('tr', {}, element('th', {scope: 'row', title: meaning}, measure, ', of ', ofTensors(heads),
        element('small', {}, [inWords[measure], unit, shownIn(heads)].filter(Boolean).join(', ')),
        uniform > 0 && element('small', {}, `uniform ${number(uniform, 3)}`)),
        element('td', {}, element('div', {class: 'entries'}, shown.map((head) => entry(measure, head, uniform)))))))),
    element('p', {class: 'caption'}, 'Uniform is what attention to all tokens alike would have. A token that sees no other has no choice, and is not counted.'));
  }
  // The text; of two sequences which is which, and who reads or writes it.
  function sequencesTold() {
    const {sequences} = runs[baseRun()], most = 160;
    const whose = (i) => sequences.length < 2 ? ': ' : {encoder: ', read by the encoder: ',
      decoder: `, written by the decoder, whose cross attention looks at the ${sequenceName(0)}: `}[stackOf(i)] ?? ': ';
    return element('p', {class: 'sequences'}, sequences.map(({tokens}, i) => element('span', {}, element('b', {}, sequenceName(i)), whose(i),
      element('code', {}, tokens.slice(0, most).map(visible).join('') + (tokens.length > most ? '…' : '')))), judged());
  }
  // Whether the model's own answer is the task's.
  function judged() {
    const {sequences} = runs[baseRun()], {name} = sequences.at(-1), right = runs[baseRun()].right.filter((token) => token !== '\n');
    const answer = (table(baseRun(), 'predictions')?.rows ?? []).filter((row) => row[0] === name)
      .map((row) => row[3]).filter((token) => token !== '\n');
    if (!right.length || name !== 'own answer') return '';
    const word = (tokens) => element('code', {}, tokens.map(visible).join(''));
    return element('span', {class: 'judged'}, 'The model answers ', word(answer), answer.join('') === right.join('') ? ', which is right.'
      : [', which is wrong: the task’s answer is ', word(right), '.']);
  }
  // What uniform attention has is said once where all heads that are shown have the same.
  const listed = () => findings().map((found) => ({...found, shown: found.heads.filter((head) => standsOut(found.measure, head))}))
    .filter(({shown}) => shown.length).map((found) => {
      const uniforms = new Set(found.shown.map((head) => number(uniformOf(found.measure, head), 3)));
      return {...found, uniform: uniforms.size === 1 ? uniformOf(found.measure, found.shown[0]) : NaN};
    });
  // Head 0 of W is not head 0 of U; O has no picture, and the heads of U are its own.
  const ofTensors = (heads) => [...new Set(heads.map(({tensor}) => tensor))].map((name, i) => [i ? ' or ' : '', element('code', {}, name)]);
  function shownIn(heads) {
    const maps = [...new Set(heads.filter(({tensor, map}) => map && map !== tensor).map(({map}) => map))];
    return maps.length && `shown in ${maps.join(' or ')}`;
  }
  function entry(measure, finding, shared) {
    const {head} = placeOfFinding(finding), uniform = shared > 0 ? NaN : uniformOf(measure, finding), node = element('button', {class: 'entry-head', onclick: () => choose(finding)},
      `${siteLabel(finding.site)}, head ${head} `, element('b', {}, number(finding.value, 3)),
      uniform > 0 && ` (uniform ${number(uniform, 3)})`);
    buttons.push({node, finding, head});
    return node;
  }
  // As large as there is room for beside the list and on the first screen; of few tokens smaller.
  function update() {
    for (const {node, finding, head} of buttons)
      node.setAttribute('aria-pressed', finding.site === sitePath() && finding.map === state.map && head === state.head);
    const tokens = Math.max(...mapAt(sitePath())?.shape.slice(1) ?? [1]);
    const room = root.clientWidth - (innerWidth > 800 ? 860 : 80);
    picture.replaceChildren(largeMap(state.view, Math.min(560, 40 * tokens, Math.max(240, Math.min(room, innerHeight - 360)))));
  }
  return {build, update};
}
