// training.js: the variant's text, the curves of a run and what it wrote on the way.

// ---- The text, each line with its costs and its values ----

function textSection(root) {
  const program = element('div', {class: 'program'}), found = element('div', {class: 'found'});
  root.append(element('div', {class: 'beside'}, program, found));
  let chosen = null;

  function build() {
    const text = runs[baseRun()].texts[site().text];
    chosen = null;
    if (!text) return program.replaceChildren();
    program.replaceChildren(element('h3', {}, text.name), element('div', {class: 'scroll'}, element('table', {class: 'code'},
      element('tbody', {}, text.lines.map(lineOf)))), element('div', {class: 'saving'}, csvButton('text', () => csvOfText(text))));
    values(null);
  }
  function lineOf(line) {
    const row = element('tr', {class: line.values.length ? 'pick' : null, tabindex: line.values.length ? 0 : null,
      onclick: () => choose(line, row), onkeydown: (e) => { if (e.key === 'Enter') choose(line, row); }},
      element('td', {class: line.code ? null : 'comment'}, element('code', {}, line.code || (line.comment ? '# ' + line.comment : '\u00a0'))),
      element('td', {class: 'formula'}, line.formula && element('code', {}, line.formula)),
      element('td', {class: 'number'}, line.formula ? grouped(line.number) : ''),
      element('td', {class: 'comment'}, line.code ? line.comment : ''));
    return row;
  }
  function csvOfText(text) {
    return csvLines([['run', 'text', 'line', 'code', 'formula', 'number'], ...text.lines.map((line, i) =>
      [runs[baseRun()].name, text.name, i + 1, line.code, line.formula, line.number])]);
  }
  function choose(line, row) {
    if (!line.values.length) return;
    chosen?.classList.remove('here');
    (chosen = row).classList.add('here');
    const map = line.values.find((name) => mapNames().includes(name));
    if (map) set({map});
    values(line);
  }
  // The values of the chosen layer that the line defines; without one, all of them.
  function values(line) {
    const rows = rowsInView('values').rows.filter((row) => row[0] === sitePath()
      && (!line || line.values.includes(row[1])));
    found.replaceChildren(element('h3', {}, siteLabel(sitePath()), ' ', element('code', {}, sitePath())), element('div', {class: 'scroll'}, element('table', {},
      element('thead', {}, element('tr', {}, ['', 'shape', 'mean', 'deviation', 'smallest', 'largest'].map((x, i) => element('th', {scope: 'col', class: i > 1 ? 'number' : null}, x)))),
      element('tbody', {}, rows.map((row) => element('tr', {title: row[2]}, element('th', {scope: 'row'}, element('code', {}, row[1])),
        element('td', {}, element('code', {}, row[3])), row.slice(4).map((x) => element('td', {class: 'number'}, number(x)))))))),
      element('div', {class: 'saving'}, csvButton('values')));
  }
  return {build};
}

// ---- Curves ----

function curvesSection(root) {
  const figures = element('div', {class: 'row'}), samples = element('div', {class: 'samples'});
  root.append(figures, samples);

  function build() {
    const groups = [...new Set(runs.flatMap((run) => run.curves.map((c) => c.group)))];
    const width = Math.max(320, Math.min(620, Math.floor((root.clientWidth - 20) / Math.min(2, groups.length || 1)) - 16));
    figures.replaceChildren(...groups.map((group) => one(group, width)));
    samples.replaceChildren(...runs.flatMap((run) => run.samples.map((s) => element('div', {class: 'sample'},
      element('small', {}, twoRuns ? `${run.name}, step ${grouped(s.step)}` : `step ${grouped(s.step)}`),
      element('pre', {dir: 'auto'}, element('b', {}, s.prompt), s.text)))));
  }

  function one(group, width) {
    const curves = runs.flatMap((run, r) => run.curves.filter((c) => c.group === group)
      .map((c) => ({...c, run: r, points: c.steps.map((x, i) => [x, c.values[i]]).filter((p) => p[1] !== null)})));
    const xs = curves.flatMap((c) => c.steps), ys = curves.flatMap((c) => c.points.map((p) => p[1]));
    const least = ys.reduce((a, b) => Math.min(a, b), Infinity), most = ys.reduce((a, b) => Math.max(a, b), -Infinity);
    // Numbers that span decades are drawn by decades.
    const log = least > 0 && most / least > 100, on = (v) => log ? Math.log10(v) : v;
    const y = log ? [Math.floor(on(least)), Math.ceil(on(most))] : [Math.min(0, least), most > least ? most : least + 1];
    const frames = runs[0].frames.length ? frameOf(baseRun()).step : null;
    const svg = plot({width, height: 240, x: [Math.min(...xs), Math.max(...xs)], y, xLabel: 'step', yLabel: curves[0].unit || group,
      label: `${group} by step`, yTicks: log ? Array.from({length: y[1] - y[0] + 1}, (_, i) => [y[0] + i, plain(10 ** (y[0] + i))]) : undefined,
      draw: (toX, toY) => [
        frames !== null && element('line', {class: 'now', x1: toX(frames), x2: toX(frames), y1: toY(y[0]), y2: toY(y[1])}),
        curves.map((c, i) => lineThrough(c.points.map(([a, b]) => [toX(a), toY(on(b))]), {stroke: headColour(i), 'stroke-width': 1.6}))]});
    const name = (c) => twoRuns ? `${runs[c.run].name}: ${c.name}` : c.name;
    const end = 240 + 18 * curves.length;
    svg.append(...curves.map((c, i) => element('g', {transform: `translate(48 ${250 + 18 * i})`},
      element('rect', {x: 0, y: -6, width: 14, height: 3, fill: headColour(i)}),
      element('text', {x: 20, y: 0}, `${name(c)} ${number(c.points.at(-1)?.[1])}`))));
    svg.setAttribute('viewBox', `0 0 ${width} ${end}`);
    svg.setAttribute('height', end);
    return element('div', {style: {width: `${width}px`}}, figure(`curves-${group}`, group, svg));
  }
  return {build};
}
