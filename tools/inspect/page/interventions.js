// interventions.js: what the loss and a token say when values are changed, and where its logit comes
// from.

// "‘b’ after 6 ‘x’", or of several texts each one's own.
function askedText({token, position, texts}) {
  if (texts > 1) return 'the token that is asked for';
  const sequence = runs[baseRun()].sequences.length - 1, before = tokensOf(baseRun(), sequence)[position];
  return [element('code', {}, visible(token)), ` after ${position} `, element('code', {}, visible(before ?? ''))];
}
const withDeviation = ([mean, deviation]) => number(mean) + (deviation === null ? '' : ` ± ${number(deviation)}`);

// ---- Changes of values ----

function changesSection(root) {
  const measures = ['Δ loss', 'Δ probability'];
  const said = element('p', {class: 'caption'}), figures = element('div', {class: 'stack'}), all = folded('changes');
  const choice = element('div', {class: 'choice', role: 'group', 'aria-label': 'measure'}, measures.map((name, i) =>
    element('button', {onclick: () => { chosen = i; build(); }}, name)));
  let chosen = 0;
  root.append(said, choice, figures, all.node);

  function build() {
    const data = rowsInView('changes'), asked = frameOf(baseRun()).changes;
    [...choice.children].forEach((button, i) => button.setAttribute('aria-pressed', i === chosen));
    said.replaceChildren(...[asked.texts > 1 ? `Of ${asked.texts} texts. ` : '', 'Unchanged, the loss is ', withDeviation(asked.loss),
      ' nats a token, and the probability of ', askedText(asked), ' is ', withDeviation(asked.probability), '.',
      asked.source[0] === null ? '' : ` In the run that patches are taken from it is ${withDeviation(asked.source)}.`].flat());
    const column = data.columns.findIndex((c) => c.name === measures[chosen]);
    const kinds = [...new Set(data.rows.map((row) => row[0]))];
    figures.replaceChildren(...kinds.flatMap((kind) => {
      const rows = data.rows.filter((row) => row[0] === kind);
      return [rows.filter((row) => row[3] === 'all'), rows.filter((row) => row[3] !== 'all')]
        .filter((part) => part.length).map((part) => picture(kind, part, column));
    }));
    all.update();
  }

  // Heads from left to right, or where positions are changed one by one these.
  function picture(kind, rows, column) {
    const places = rows[0][3] !== 'all';
    const name = (row) => row[1] + (places && row[2] !== 'all' ? `, head ${row[2]}` : '');
    const names = [...new Set(rows.map(name))], key = (row) => places ? row[3] : row[2];
    const numbers = rows.map(key).filter((x) => x !== 'all');
    const columns = [...numbers.length ? Array(Math.max(...numbers) + 1).keys() : []];
    if (!places && rows.some((row) => row[2] === 'all')) columns.push('all');
    const heads = headNames(columns.length), tokens = places ? tokensOfRows(rows) : [];
    const heading = columns.map((c) => c === 'all' ? 'all of it' : !places ? heads[c] : tokens[c] === undefined ? `${c}` : visible(tokens[c]));
    const what = {ablate: 'set to zero', patch: 'with the other run’s values'}[kind] ?? `with ${kind.replace('steer ', '')} added`;
    const svg = cellGrid(root, `${measures[chosen]}, ${what}`, names, heading, (i, j) => {
      const row = rows.find((r) => name(r) === names[i] && key(r) === columns[j]);
      return row && {value: row[column], title: `${names[i]}${places ? `, position ${columns[j]}` : row[2] === 'all' ? '' : `, head ${row[2]}`}`,
        pick: pickOf(row)};
    });
    return figure(`changes-${kind}${places ? '-positions' : ''}`, `${measures[chosen]}${chosen ? '' : ' (nats a token)'} ${what}${places ? ', position by position' : heads.length > 1 ? ', head by head' : ''}: `
      + 'orange is more than without the change, blue less.', svg);
  }
  // Of one text the tokens at the positions.
  function tokensOfRows(rows) {
    const {texts, sequences} = frameOf(baseRun()).changes, of = table(baseRun(), 'changes').rows;
    const at = of.findIndex((row) => row.slice(0, 4).join() === rows[0].slice(0, 4).join());
    return texts > 1 || at < 0 || sequences[at] < 0 ? [] : tokensOf(baseRun(), sequences[at]);
  }
  function pickOf([, tensor, head]) {
    const at = siteNames.findIndex((path) => tensor.startsWith(path + '/'));
    return at < 0 || head === 'all' ? null : () => set({site: at, head});
  }
  return {build};
}

// ---- Where a logit comes from ----

// "layer 0: F, feed-forward": a letter of the text, and the slot that it fills.
const slotWords = {Attention: 'attention', Cross: 'cross-attention', FeedForward: 'feed-forward'};
function partInWords(path) {
  const word = slotWords[frameOf(baseRun()).attribution.slots[path]];
  return partLabel(path) + (word ? `, ${word}` : '');
}

function attributionSection(root) {
  const said = element('p', {class: 'caption'}), all = folded('attribution');
  const made = figure('attribution', 'Orange raises the logit, blue lowers it.', element('svg'));
  root.append(said, made, all.node);

  function build() {
    const asked = frameOf(baseRun()).attribution, {rows, columns} = rowsInView('attribution');
    said.replaceChildren(...['The logit of ', askedText(asked), ` is ${withDeviation(asked.logit)}`,
      ': the sum of what each head, each feed-forward layer, the embedding and the biases at the end add to it, with the last norm’s divisor as it is.'].flat());
    const parts = [...new Set(rows.map((row) => row[0]))], heads = Math.max(0, ...rows.map((row) => row[1] === '' ? 0 : row[1] + 1));
    const adds = columns.findIndex((c) => c.name === 'adds');
    const named = (part) => part.includes('/') ? partInWords(part) : part === 'bias' ? 'biases at the end' : `${part}, embedding`;
    made.show(cellGrid(root, 'what each part adds to the logit', parts.map(named), [...headNames(heads), 'of no head'], (i, j) => {
      const row = rows.find((r) => r[0] === parts[i] && r[1] === (j < heads ? j : '')), at = siteNames.indexOf(parts[i]);
      return row && {value: row[adds], title: partLabel(parts[i]) + (j < heads ? `, head ${j}` : ''),
        pick: at >= 0 && j < heads ? () => set({site: at, head: j}) : null};
    }));
    all.update();
  }
  return {build};
}
