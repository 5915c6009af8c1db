// findings.js: the heads that stand out, as a sentence and a list, with the picture of the chosen one.

// "layer 0" where every layer has one attention, else its path.
function siteLabel(path) {
  const sites = runs.flatMap((run) => run.frames[0]?.sites ?? []).filter((s, i, all) => all.findIndex((t) => t.path === s.path) === i);
  const alone = new Set(sites.map((s) => s.layer)).size === sites.length && new Set(sites.map((s) => s.stack)).size === 1;
  return alone ? `layer ${sites.find((s) => s.path === path).layer}` : path;
}
// A pattern that a head may follow; it is told before how widely and how far each looks.
const patterns = ['induction', 'duplicate token', 'previous token'];
const isPattern = ({measure}) => patterns.includes(measure);
function findings() {
  const all = frameOf(baseRun())?.findings ?? [];
  return [...all.filter(isPattern), ...all.filter((found) => !isPattern(found))];
}

// A finding's map, and where its picture stands among the map's.
function placeOfFinding({site: path, tensor, picture}) {
  const map = mapOf(baseRun(), path, tensor);
  const heads = map ? map.shape[0] / map.outer.reduce((n, [, size]) => n * size, 1) : Infinity;
  const chosen = {};
  let rest = Math.floor(picture / heads);
  for (const [name, size] of [...map?.outer ?? []].reverse()) {
    chosen[name] = rest % size;
    rest = Math.floor(rest / size);
  }
  return {map, head: picture % heads, slices: {...state.slices, ...chosen}};
}
function choose(finding) {
  const {map, head, slices} = placeOfFinding(finding), s = siteOf(baseRun(), finding.site);
  const token = map?.rowTokens && finding.row >= 0 ? {sequence: s.rows, at: finding.row}
    : state.token?.sequence === s.rows ? state.token : {sequence: s.rows, at: tokensOf(baseRun(), s.rows).length - 1};
  set({site: siteNames.indexOf(finding.site), map: map?.name ?? s.weights, slices, head, from: 'row'});
  set({token, pinned: token});
}

// Induction if a head follows it mostly, else the pattern that is followed most.
function headline() {
  const found = findings().filter(isPattern).sort((a, b) => b.heads[0].value - a.heads[0].value);
  const induction = found.find(({measure, heads}) => measure === 'induction' && heads[0].value >= 0.5);
  return induction ?? found[0] ?? findings()[0];
}

// "Layer 1, head 2 follows induction: mean weight 0.93 in W. From ‘b’ (7) it looks most at ‘c’ (3) …"
function sentenceOf(found) {
  const {measure, unit, heads: [first]} = found;
  const {map, head} = placeOfFinding(first), place = siteLabel(first.site), strong = first.value >= 0.5;
  const lead = !isPattern(found) ? `has most ${measure}: ${number(first.value)} ${unit}`
    : strong ? `follows the pattern “${measure}”: mean weight ${number(first.value)}`
    : `comes nearest to a pattern, “${measure}”, but weakly: mean weight ${number(first.value)}`;
  return [element('b', {}, `${place.replace(/^layer/, 'Layer')}, head ${head}`), ` ${lead} in `,
    element('code', {}, first.tensor), '. ', map?.rowTokens && map.columnTokens && first.row >= 0 ? example(first, map) : ''];
}
// What the query that shows it most looks at.
function example({site: path, row, picture}, map) {
  const s = siteOf(baseRun(), path), from = tokensOf(baseRun(), s.rows), to = tokensOf(baseRun(), s.columns);
  const [, rows, columns] = map.shape, weights = values(map).slice((picture * rows + row) * columns, (picture * rows + row + 1) * columns);
  const at = weights.reduce((best, x, i) => Math.abs(x) > Math.abs(weights[best] || 0) ? i : best, 0);
  const follows = s.rows === s.columns && at > 0 && from[at - 1] === from[row] && at - 1 < row;
  const token = (tokens, i) => [element('code', {}, visible(tokens[i])), ` (${i})`];
  return ['From ', token(from, row), ' it looks most at ', token(to, at), `, ${approximate(weights[at], map)}`,
    follows ? [', which followed ', token(from, at - 1)] : '', '.'];
}

function findingsSection(root) {
  const list = element('div'), picture = element('div', {class: 'finding'});
  root.append(element('div', {class: 'beside'}, list, picture));
  let buttons = [];

  function build() {
    buttons = [];
    const said = headline();
    list.replaceChildren(said ? element('p', {class: 'headline'}, sentenceOf(said)) : '',
      element('table', {class: 'strongest-heads'}, element('tbody', {}, findings().map(({measure, meaning, unit, heads}) =>
        element('tr', {}, element('th', {scope: 'row', title: meaning}, measure, unit && element('small', {}, ` ${unit}`)),
          element('td', {}, element('div', {class: 'entries'}, heads.map(entry))))))),
      element('p', {class: 'caption'}, twoRuns ? `Of ${runs[baseRun()].name}. ` : '',
        'The strongest heads by measure; a click selects layer, head and the token that shows it most.'));
  }
  function entry(finding) {
    const {head} = placeOfFinding(finding), node = element('button', {class: 'entry-head', onclick: () => choose(finding)},
      `${siteLabel(finding.site)}, head ${head} `, element('b', {}, number(finding.value, 3)));
    buttons.push({node, finding, head});
    return node;
  }
  function update() {
    for (const {node, finding, head} of buttons)
      node.setAttribute('aria-pressed', finding.site === sitePath() && head === state.head);
    picture.replaceChildren(largeMap(state.view, Math.min(300, root.clientWidth - 80)));
  }
  return {build, update};
}
