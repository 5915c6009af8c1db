// pictures.js: every picture of the report at once. At #pictures the page draws them and leaves them
// in its text by their names, where `tete inspect --pictures` finds them.

function writePictures() {
  const files = {}, aside = element('div');
  document.body.append(aside);
  state.dark = false;
  document.documentElement.dataset.theme = 'light';
  const take = (prefix, name, svg) => {
    files[prefix + name.replace(/[^\p{L}\p{N}_.-]+/gu, '-')] = standalone(svg) + '\n';
  };
  const draw = (prefix, id, ...steps) => {
    const found = shown.find(({section}) => section.id === id);
    if (!found) return;
    for (const step of ['build', ...steps]) found.drawn[step]?.();
    for (const made of found.body.querySelectorAll('figure')) take(prefix, made.dataset.name, made.querySelector('svg'));
  };
  const frame = (prefix) => {
    const both = state.view === difference;
    const mixes = (run) => siteNames.some((path) => siteOf(run, path)?.mixing.length);
    if (both ? mixes(0) && mixes(1) : mixes(state.view)) draw(prefix, 'mixing');
    for (const id of both ? ['ablation', 'changes', 'attribution', 'histograms'] : ['ablation', 'changes', 'attribution', 'circuits', 'histograms', 'lens']) draw(prefix, id);
    for (state.site = 0; state.site < siteNames.length; ++state.site) {
      state.token = lastToken();
      if (mapAt(sitePath())) draw(prefix, 'tokens', 'update');
      if (site().maps.some((m) => mapAt(sitePath(), m.name))) draw(prefix, 'talk', 'update');
    }
    state.site = 0;
    const chosen = state.map;
    for (state.map of mapNames().filter((name) => siteNames.some((path) => mapAt(path, name)))) {
      draw(prefix, 'maps');
      for (state.site = 0; state.site < siteNames.length; ++state.site)
        for (state.head = 0; state.head < (mapAt(sitePath())?.shape[0] ?? 0); ++state.head) {
          aside.replaceChildren(largeMap(state.view, 460));
          take(prefix, `${sitePath()}-${state.map}-head-${state.head}`, aside.querySelector('svg'));
        }
      state.site = state.head = 0;
    }
    state.map = chosen;
  };
  const newest = runs[0].frames.length - 1;
  for (state.view of twoRuns ? [0, 1, difference] : [0])
    for (state.frame = state.view === difference ? newest : 0; state.frame <= newest; ++state.frame)
      frame((twoRuns ? ['1/', '2/', 'difference/'][state.view] : '') + frameOf(Math.min(state.view, 1)).step + '-');
  state.frame = newest;
  draw('', 'training');
  document.body.replaceChildren(element('script', {type: 'application/json'}, JSON.stringify(files).replaceAll('<', '\\u003c')));
}
