'use strict';
// dom.js: elements, words and numbers. Text enters the page as text nodes and attributes only.

const svgTags = new Set(['svg', 'g', 'rect', 'path', 'line', 'text', 'image', 'circle', 'title', 'tspan',
  'clipPath', 'polyline']);

// element('div', {class: 'x', onclick: f}, 'text', child, [children]): attributes, listeners, content.
function element(tag, attributes = {}, ...content) {
  const made = svgTags.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith('aria-')) made.setAttribute(name, String(value));
    else if (value === false) continue;
    else if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (name === 'style') setStyle(made, value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...content.flat(Infinity).filter((x) => x !== null && x !== undefined && x !== false));
  return made;
}

function setStyle(made, style) {
  for (const [name, value] of Object.entries(style))
    if (value !== null && value !== undefined) made.style.setProperty(name, value);
}

// A token's text as something to see: blanks have signs, what cannot be printed has its number, and
// a mark that would sit on its neighbour sits on a circle.
function visible(token) {
  if (token === '') return '∎';
  const signs = {' ': '·', '\n': '⏎', '\t': '⇥', '\r': '␍', '\u00a0': '⍽'};
  if (/^\p{M}/u.test(token)) token = '◌' + token;
  return token.replace(/[\p{C}\p{Z}]/gu, (c) => signs[c] ||
    (c === '\u200d' && token.length > 1 ? c
      : 'U+' + c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')));
}
const quoted = (token) => '‘' + visible(token) + '’';

// Four digits; a dash for what is not defined.
function number(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return '–';
  if (x === 0) return '0';
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return grouped(x);
  const size = Math.abs(x);
  const shown = size >= 1e5 || size < 1e-3 ? x.toExponential(digits - 1) : x.toPrecision(digits);
  return shown.replaceAll('-', '−').replace('e+', 'e');
}
const grouped = (x) => String(x).replace(/\B(?=(\d{3})+$)/g, ',').replace('-', '−');

// A power of ten as people write it: 1,000, 0.001.
const plain = (x) => x >= 1 ? grouped(Math.round(x)) : x.toFixed(Math.round(-Math.log10(x)));

// Three digits for a scale, without an exponent where people would not write one.
const short = (x) => x !== 0 && (Math.abs(x) < 1e-6 || Math.abs(x) >= 1e5) ? number(x, 3) : String(+x.toPrecision(3)).replace('-', '−');

// "1 head", "2 heads"
const counted = (count, noun) => grouped(count) + ' ' + noun + (count === 1 ? '' : 's');

// Calls f once for what happens within one frame of the screen.
function settled(f) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; f(); });
  };
}
