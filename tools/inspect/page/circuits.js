// circuits.js: what a head does with tokens as such, each circuit as a map over tokens.

function circuitsSection(root) {
  const list = element('div', {class: 'entries'}), holder = element('div', {class: 'beside'}), why = element('p', {class: 'caption'});
  root.append(element('p', {class: 'caption'}, 'QK: the logit with which a query of the row’s token looks at a key of the column’s. '
    + 'OV: what the head adds to the logit of the column’s token where all its attention is on the row’s. '
    + 'Both are of the embedding alone, without positions and earlier layers.'), list, holder, why,
  element('div', {class: 'saving'}, csvButton('circuits', circuitsCsv)));
  let chosen = 0;
  const found = () => frameOf(baseRun()).circuits, headOf = (c) => `${siteLabel(c.path)}, head ${c.head}`;

  // Of one head all there are, side by side.
  function build() {
    const heads = [...new Set(found().map(headOf))];
    chosen = Math.min(chosen, Math.max(0, heads.length - 1));
    list.replaceChildren(...heads.map((name, i) => element('button', {'aria-pressed': i === chosen,
      onclick: () => { chosen = i; build(); }}, name)));
    const shown = found().filter((c) => headOf(c) === heads[chosen]), room = root.clientWidth;
    const side = Math.min(520, (room > 900 ? (room - 44) / 2 : room) - 90);
    holder.replaceChildren(...shown.map((circuit) => picture(circuit, side)));
    why.textContent = frameOf(baseRun()).withoutCircuit.join(' ');
  }
  function circuitsCsv() {
    const run = [runs[baseRun()].name, frameOf(baseRun()).step];
    return csvLines([['run', 'checkpoint', 'site', 'circuit', 'tensor', 'head', 'row', 'column', 'value'], ...found().flatMap((c) =>
      [...values(c.map)].map((x, i) => [...run, c.path, c.kind, c.tensor, c.head, c.tokens[Math.floor(i / c.tokens.length)],
        c.tokens[i % c.tokens.length], x]))]);
  }
  return {build};

  function picture({kind, path, tensor, head, tokens, map}, side) {
    const count = tokens.length, left = 62, top = tokens.every((token) => visible(token).length === 1) ? 26 : 58, cell = side / count, width = left + side + 10, height = top + side + 60;
    const range = rangeOf(map), box = {x: left, y: top, width: side, height: side}, every = Math.max(1, Math.ceil(11 / cell));
    const cross = element('g', {class: 'cross'}), name = `${kind} of ${headOf({path, head})}`;
    const told = element('div', {class: 'told read'}, `${name} (${tensor})`);
    function point(event) {
      const bounds = svg.getBoundingClientRect(), zoom = width / bounds.width;
      const column = Math.floor(((event.clientX - bounds.left) * zoom - left) / cell), row = Math.floor(((event.clientY - bounds.top) * zoom - top) / cell);
      if (row < 0 || column < 0 || row >= count || column >= count) return;
      cross.replaceChildren(element('rect', {class: 'frame', x: left, y: top + row * cell, width: side, height: cell}),
        element('rect', {class: 'frame', x: left + column * cell, y: top, width: cell, height: side}));
      told.textContent = `${name}: ${quoted(tokens[row])} → ${quoted(tokens[column])}: ${approximate(values(map)[row * count + column], map)}`;
    }
    const tick = (token, i, across) => i % every ? null : across && visible(token).length === 1
      ? element('text', {class: 'tick', 'text-anchor': 'middle', x: left + (i + 0.5) * cell, y: top - 6}, visible(token))
      : across ? element('text', {class: 'tick', transform: `translate(${left + (i + 0.5) * cell + 3.5} ${top - 5}) rotate(-90)`}, visible(token))
      : element('text', {class: 'tick', x: left - 5, y: top + (i + 0.5) * cell + 3.5, 'text-anchor': 'end'}, visible(token));
    const svg = element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', class: 'map', 'aria-label': name,
      onmousemove: point, onmouseleave: () => cross.replaceChildren()},
    element('rect', {...box, class: 'paper'}), heat(map, 0, range, box), element('rect', {...box, class: 'frame'}),
    tokens.map((token, i) => [tick(token, i, false), tick(token, i, true)]), cross, colourBar(range, left, top + side + 12, Math.min(side, 220)));
    return element('div', {}, told, figure(`circuit-${kind}-${path}-${tensor}-head-${head}`,
      `${name}: ${kind === 'QK' ? 'queries from top to bottom, keys from left to right' : 'what is looked at from top to bottom, what is raised from left to right'}`
      + `; ${colourWords(map)}.`, svg));
  }
}
