// draw.js: colours, heat maps, axes, and pictures that can be saved.

// ---- Colours ----

// Scales that lightness alone tells apart, so that colour-blind people and grey prints keep the order:
// for amounts, from the paper's colour to violet, and for signs, blue below zero and orange above.
// Between these colours, at equal distances, one goes in straight lines.
const scales = {
  light: {
    amount: ['#fdfcf9', '#f0e8f0', '#dcc9df', '#c3a3c9', '#a67cb1', '#875797', '#68387c', '#4a1f5d', '#2d0d3b'],
    sign: ['#0b3c6f', '#2f72ae', '#79add6', '#c3dcec', '#fdfcf9', '#f9d6b0', '#ec9c55', '#c0601b', '#7a3306'],
  },
  dark: {
    amount: ['#15181e', '#2a2033', '#46304f', '#664470', '#885d93', '#a97bb3', '#c79dcd', '#e1c3e4', '#f8ebf9'],
    sign: ['#b9e2ff', '#62b1ea', '#2f77b2', '#1f4468', '#15181e', '#5c3a1c', '#a8612a', '#e8964b', '#ffdcae'],
  },
};
// Neither the violet of amounts nor the blue and orange of signs. Each reads on its paper, and the
// paper on it.
const headColours = {
  light: ['#0a7d5e', '#b0406f', '#8a6a00', '#2b7a86', '#a8453a', '#4a7a1f', '#7a5c44', '#6b6f78'],
  dark: ['#3fc79b', '#ef8fb4', '#d9b13b', '#62c3d1', '#f0948a', '#9ccc5f', '#c9a98c', '#b5b9c2'],
};

function parse(colour) {
  const n = parseInt(colour.slice(1), 16);
  return [n >> 16, n >> 8 & 255, n & 255];
}
const palettes = {};
// 512 colours of a scale ('amount' or 'sign'), [red, green, blue] each.
function palette(scale) {
  const theme = state.dark ? 'dark' : 'light';
  const made = palettes[theme + scale];
  return made || (palettes[theme + scale] = Array.from({length: 512}, (_, i) => {
    const stops = scales[theme][scale], at = i / 511 * (stops.length - 1);
    const below = Math.min(Math.floor(at), stops.length - 2);
    const a = parse(stops[below]), b = parse(stops[below + 1]);
    return a.map((x, c) => Math.round(x + (at - below) * (b[c] - x)));
  }));
}
const paletteOf = (range) => palette(range.signed ? 'sign' : 'amount');
const colourOf = (value, range) => Number.isNaN(value) ? 'transparent'
  : `rgb(${paletteOf(range)[Math.round(place(value, range) * 511)].join()})`;
const headColour = (head) => {
  const colours = headColours[state.dark ? 'dark' : 'light'];
  return colours[head % colours.length];
};
// Black or white, whichever reads better on a colour: at least 4.5 times as light or dark, as WCAG counts.
function inkOn(colour) {
  const [r, g, b] = colour.match(/\d+/g).map((x) => x / 255).map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? '#000' : '#fff';
}

// ---- Heat maps ----

// One head of a map as an image, a pixel a cell. Larger ones than `most` are made smaller: of the
// cells that fall on a pixel the one farthest from zero is seen.
function heatImage(map, head, range, most = Infinity) {
  const [, rows, columns] = map.shape, all = values(map);
  const colours = Uint32Array.from(paletteOf(range), ([r, g, b]) => 255 << 24 | b << 16 | g << 8 | r);
  const shrink = Math.max(1, Math.ceil(Math.max(rows, columns) / most));
  const height = Math.ceil(rows / shrink), width = Math.ceil(columns / shrink);
  const canvas = element('canvas', {width, height});
  const context = canvas.getContext('2d'), image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const strongest = (y, x) => {
    let found = NaN;
    for (let i = y * shrink; i < Math.min(rows, (y + 1) * shrink); ++i)
      for (let j = x * shrink; j < Math.min(columns, (x + 1) * shrink); ++j) {
        const value = all[(head * rows + i) * columns + j];
        if (!Number.isNaN(value) && !(Math.abs(value) <= Math.abs(found))) found = value;
      }
    return found;
  };
  for (let y = 0; y < height; ++y)
    for (let x = 0; x < width; ++x) {
      const value = shrink === 1 ? all[(head * rows + y) * columns + x] : strongest(y, x);
      if (!Number.isNaN(value)) pixels[y * width + x] = colours[Math.round(place(value, range) * 511)];
    }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}
function heat(map, head, range, box, most) {
  const [, rows, columns] = map.shape;
  return [element('image', {...box, href: heatImage(map, head, range, most), class: 'heat', preserveAspectRatio: 'none'}),
    hasForcedRow(map) && element('rect', {class: 'forced', x: box.x, y: box.y, width: box.width / columns, height: box.height / rows})];
}

// What the colours of a map say.
function colourWords(map, view = state.view) {
  const {signed} = rangeOf(map), zero = state.dark ? 'black' : 'white';
  return (!signed ? `${state.dark ? 'brighter' : 'darker'} is more`
    : view === difference ? `orange is more, blue less, ${zero} is 0` : `orange adds, blue subtracts, ${zero} is 0`);
}

// The scale of a heat map: its colours evenly, with numbers where they lie, so that one sees how far a
// square root spreads what is small. A zero near an end stands above.
function colourBar(range, x, y, width) {
  const cells = 64, [first, last] = [place(range.low, range), place(range.high, range)], colours = paletteOf(range);
  const at = (tick) => (place(tick, range) - first) / (last - first || 1) * width;
  const parts = state.root ? [0.1, 0.25, 0.5] : [0.25, 0.5, 0.75], half = state.root ? 0.25 : 0.5, round = (x) => +x.toPrecision(2);
  const between = range.signed ? [0, round(half * range.low), round(half * range.high)]
    : parts.map((part) => round(range.low + part * (range.high - range.low)));
  const taken = [];
  // The ends first, then 0, then what there is room for.
  const ticks = [range.low, range.high, ...between].map((tick) => {
    const where = at(tick), room = 3.35 * short(tick).length + 2;
    const middle = where <= 0 ? room : where >= width ? width - room : where;
    const crowded = taken.some(([other, half]) => Math.abs(other - middle) < half + room);
    if (crowded && tick !== 0) return null;
    if (!crowded) taken.push([middle, room]);
    return [element('line', {x1: where, x2: where, y1: crowded ? -1 : 8, y2: crowded ? 0 : 10, class: 'axis'}),
      element('text', {x: where, y: crowded ? -2 : 20, class: 'small', 'data-place': place(tick, range),
        'text-anchor': where <= 0 ? 'start' : where >= width ? 'end' : 'middle'}, short(tick))];
  });
  return element('g', {class: 'bar', transform: `translate(${x} ${y})`},
    Array.from({length: cells}, (_, i) => element('rect', {x: i * width / cells, y: 0, width: width / cells + 0.5, height: 8,
      fill: `rgb(${colours[Math.round((first + (last - first) * (i + 0.5) / cells) * 511)].join()})`})),
    element('rect', {x: 0, y: 0, width, height: 8, class: 'frame'}), ticks,
    state.root && element('text', {x: 0, y: 36, class: 'small root'}, `√ scale: half the colour is ¼ of the ${range.signed || range.low === 0 ? 'value' : 'way'}`));
}

// A name of the text as mathematics prints it: P_l with the l below. The attributes are the text's.
function mathName(name, attributes) {
  return element('text', {class: 'name', ...attributes}, name.split(/(_\w)/).map((part) =>
    part[0] === '_' ? [element('tspan', {dy: 4, 'font-size': 12}, part[1]), element('tspan', {dy: -4}, '\u200b')] : part));
}

// ---- Axes ----

// Round numbers from low to high, about `count`.
function ticksOf(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count, ten = 10 ** Math.floor(Math.log10(rough));
  const step = ten * [1, 2, 5, 10].find((m) => m * ten >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) ticks.push(+(i * step).toPrecision(12));
  return ticks;
}

// A box with axes. draw(x, y) is given the two scales and returns what stands in the box.
function plot({width, height, x, y, xLabel = '', yLabel = '', xTicks, yTicks, draw, label}) {
  const vertical = yTicks ?? ticksOf(...y, height / 40).map((t) => [t, number(t, 3)]);
  // As much room on the left as the longest number takes.
  const left = Math.max(48, 14 + 7 * Math.max(...vertical.map(([, text]) => String(text).length)));
  const horizontal = xTicks ?? ticksOf(...x, width / 90).map((t) => [t, number(t, 3)]);
  // The last number stands under the end of its axis.
  const right = Math.max(14, 4 * String(horizontal.at(-1)?.[1] ?? '').length), top = 22, bottom = 34;
  const toX = (v) => left + (v - x[0]) / (x[1] - x[0] || 1) * (width - left - right);
  const toY = (v) => height - bottom - (v - y[0]) / (y[1] - y[0] || 1) * (height - top - bottom);
  return element('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label},
    vertical.map(([v, text]) => [
      element('line', {class: 'rule', x1: left, x2: width - right, y1: toY(v), y2: toY(v)}),
      element('text', {class: 'small', x: left - 6, y: toY(v) + 4, 'text-anchor': 'end'}, text)]),
    horizontal.map(([v, text]) =>
      element('text', {class: 'small', x: toX(v), y: height - bottom + 14, 'text-anchor': 'middle'}, text)),
    element('line', {class: 'axis', x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}),
    xLabel && element('text', {class: 'small', x: width - right, y: height - 4, 'text-anchor': 'end'}, xLabel),
    yLabel && element('text', {class: 'small', x: 0, y: 11}, yLabel),
    draw(toX, toY));
}
const lineThrough = (points, attributes) => element('path', {fill: 'none', ...attributes,
  d: points.map(([x, y], i) => (i ? 'L' : 'M') + x.toFixed(1) + ' ' + y.toFixed(1)).join('')});

// ---- Saving ----

function download(name, blob) {
  const link = element('a', {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
const fileName = (...parts) => ['tete', ...parts].join('-').replace(/[^\p{L}\p{N}_.-]+/gu, '-');

// A picture that stands alone: the page's styles become attributes.
function standalone(svg) {
  const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll('*')];
  const kept = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'paint-order', 'opacity',
    'font-family', 'font-size', 'font-style', 'font-weight', 'text-anchor', 'image-rendering', 'visibility'];
  [copy, ...copy.querySelectorAll('*')].forEach((node, i) => {
    const style = getComputedStyle(from[i]);
    if (style.display === 'none') node.setAttribute('display', 'none');
    for (const name of kept) node.setAttribute(name, style.getPropertyValue(name));
    for (const name of ['class', 'style', 'tabindex']) node.removeAttribute(name);
  });
  const {width, height} = svg.viewBox.baseVal;
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  copy.setAttribute('width', width);
  copy.setAttribute('height', height);
  copy.prepend(element('rect', {width, height, fill: getComputedStyle(document.body).backgroundColor}));
  return new XMLSerializer().serializeToString(copy);
}
function saveSvg(name, svg) {
  download(name + '.svg', new Blob([standalone(svg)], {type: 'image/svg+xml'}));
}
// At twice the size, for paper and slides.
async function savePng(name, svg) {
  const {width, height} = svg.viewBox.baseVal, image = new Image();
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(standalone(svg));
  await image.decode();
  const canvas = element('canvas', {width: 2 * width, height: 2 * height});
  canvas.getContext('2d').drawImage(image, 0, 0, 2 * width, 2 * height);
  canvas.toBlob((blob) => download(name + '.png', blob));
}

// A picture with its caption and how to save it. `svg` may be replaced later: figure.show(svg), with
// another name to save it under: figure.show(svg, name).
function figure(name, caption, svg) {
  const holder = element('div', {class: 'holder'}, svg);
  const saving = (kind, save) => element('button', {class: 'save', title: `save as ${kind}`,
    'aria-label': `save ${name} as ${kind}`, onclick: () => save(fileName(made.dataset.name), holder.querySelector('svg'))}, kind);
  const made = element('figure', {}, holder, element('figcaption', {}, element('span', {}, caption),
    element('span', {class: 'saving'}, saving('SVG', saveSvg), saving('PNG', savePng))));
  // The caption is as wide as the picture, or a line of text.
  made.show = (next, as = name) => {
    made.dataset.name = as;
    holder.replaceChildren(next);
    made.lastChild.style.maxWidth = Math.max(340, Math.min(900, next.getAttribute('width'))) + 'px';
  };
  made.show(svg);
  return made;
}
