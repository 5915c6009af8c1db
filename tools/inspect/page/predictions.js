// predictions.js: what the model expects after each token, at its end and on the way there.

function predictionsSection(root) {
  const strip = element('div', {class: 'strip'}), best = element('div', {class: 'best'});
  const all = folded('predictions');
  root.append(element('div', {class: 'beside'}, element('div', {}, strip,
    element('p', {class: 'caption'}, 'The stronger a token’s colour, the more the model expected it: its probability in the softmax of ',
      element('code', {}, frameOf(0)?.logits.join(', ')), '. A dashed one was not asked for. Point at one to see what it expects next.')), best), all.node);
  let spans = [];
  const rows = () => table(baseRun(), 'predictions')?.rows ?? [];
  const isHere = (row) => state.token && runs[baseRun()].sequences[state.token.sequence]?.name === row[0]
    && state.token.at === row[1];

  function build() {
    const range = {low: 0, high: 1, signed: false};
    let expected = null;
    spans = rows().map((row, i) => {
      const first = i === 0 || rows()[i - 1][0] !== row[0], chance = first ? null : expected;
      expected = row[4];
      const fill = chance === null ? null : linear(() => colourOf(chance * 0.8, range));
      const here = {sequence: runs[baseRun()].sequences.findIndex((s) => s.name === row[0]), at: row[1]};
      const node = element('span', {class: chance === null ? 'token unasked' : 'token', style: fill ? {background: fill, color: inkOn(fill)} : {},
        title: first ? 'nothing came before it' : chance === null ? 'it was not asked for' : `expected with probability ${number(chance)}`,
        onmouseenter: () => set({token: here}), onclick: () => set({token: here, pinned: here})}, visible(row[2]));
      return {node, row};
    });
    strip.replaceChildren(...spans.flatMap(({node, row}, i) =>
      row[2] === '\n' && spans[i + 1]?.row[2] !== '\n' ? [node, element('br')] : [node]));
    all.update();
  }

  function update() {
    for (const {node, row} of spans) node.classList.toggle('here', !!isHere(row));
    const row = rows().find(isHere) ?? rows().at(-1);
    if (!row) return best.replaceChildren();
    const likeliest = [];
    for (let i = 5; i + 1 < row.length; i += 2) likeliest.push([row[i], row[i + 1]]);
    best.replaceChildren(element('h3', {}, 'after ', element('code', {}, visible(row[2])), ` (${row[1]})`),
      element('div', {class: 'bars'}, likeliest.map(([token, chance]) => [
        element('code', {class: token === row[3] && row[4] !== null ? 'right' : null}, visible(token)),
        element('span', {class: 'track'}, element('span', {class: 'fill', style: {width: 100 * chance + '%'}})),
        element('span', {class: 'number'}, number(chance))])),
      element('p', {class: 'caption'}, row[4] === null ? 'What does follow is not known, or not asked for.'
        : [element('code', {}, visible(row[3])), ` does follow: ${number(row[4])}`]));
  }
  return {build, update};
}

// A point on the way, and what is added there; what goes into the first layer is of no layer.
function pointInWords(path) {
  const word = slotWords[frameOf(baseRun()).points[path]];
  return !path.includes('/') ? `${path}, embedding` : partLabel(path) + (word ? `, after ${word}` : '');
}
// The likeliest next token after each layer: a row a point on the way, the last at the top.
function lensSection(root) {
  const made = figure('lens', 'The likeliest next token if the residual stream ended at the tensor on the left; the stronger its colour, '
    + 'the more probable. Underlined: the token that does follow.', element('svg'));
  const all = folded('lens');
  root.append(element('div', {class: 'scroll'}, made), all.node);

  function build() {
    const data = table(baseRun(), 'lens')?.rows ?? [], range = {low: 0, high: 1, signed: false};
    const names = [...new Set(data.map((row) => row[0]))];
    let top = 0;
    let width = 320;
    const w = 30, h = 26, left = Math.max(150, 14 + 7.4 * Math.max(...data.map((row) => pointInWords(row[1]).length))), room = Math.max(1, Math.floor((root.clientWidth - left) / w));
    const parts = names.flatMap((name) => {
      const rows = data.filter((row) => row[0] === name), points = [...new Set(rows.map((row) => row[1]))].reverse();
      const count = Math.max(...rows.map((row) => row[2])) + 1;
      const following = new Map(rows.map((row) => [row[2], row[3]]));
      // As many tokens on a line as there is room for.
      return Array.from({length: Math.ceil(count / room)}, (_, line) => {
        const shown = rows.filter((row) => Math.floor(row[2] / room) === line), x = (row) => left + row[2] % room * w;
        const y = (point) => top + 8 + points.indexOf(point) * h;
        width = Math.max(width, left + Math.min(count, room) * w);
        const drawn = [points.map((point) => element('text', {class: 'label', x: 0, y: y(point) + 17}, pointInWords(point), element('title', {}, point))),
          shown.map((row) => lensCell(row, x(row), y(row[1]), w, h, row[4] === following.get(row[2] + 1), range)),
          shown.filter((row) => row[1] === points[0]).map((row) => element('text', {class: 'token', 'text-anchor': 'middle',
            x: x(row) + w / 2, y: top + 8 + points.length * h + 18}, visible(row[3])))];
        top += 8 + points.length * h + 34;
        return drawn;
      });
    });
    made.show(linear(() => element('svg', {viewBox: `0 0 ${width} ${top}`, width, height: top, class: 'lens', role: 'img',
      'aria-label': 'the likeliest next token by layer'}, parts)));
    all.update();
  }
  function lensCell([sequence, point, at, token, likeliest, chance, next], x, y, w, h, right, range) {
    const fill = linear(() => colourOf(chance * 0.85, range));
    const here = {sequence: runs[baseRun()].sequences.findIndex((s) => s.name === sequence), at};
    return element('g', {onclick: () => set({token: here, pinned: here})},
      element('rect', {x: x + 0.5, y: y + 0.5, width: w - 1, height: h - 1, rx: 2, fill}),
      element('text', {class: 'token', 'text-anchor': 'middle', x: x + w / 2, y: y + 17, style: {fill: inkOn(fill)}},
        visible(likeliest)),
      right && element('line', {x1: x + 5, x2: x + w - 5, y1: y + h - 4, y2: y + h - 4, stroke: inkOn(fill), 'stroke-width': 1.5}),
      element('title', {}, `${partLabel(point)}, after ${at} ${quoted(token)}: ${quoted(likeliest)} ${number(chance)}`
        + (next === null ? '' : `; what follows ${number(next)}`)));
  }
  return {build};
}
