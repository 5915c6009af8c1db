#!/bin/bash
# tete inspect: small models are trained and looked into; the pages are opened in headless Chromium,
# where tests/inspect.js reads and works them and compares their numbers with the saved tensors.
# Without Chromium (Debian's package of that name) that part is left out, and it says so.
# tests/inspect.sh BUILD-FOLDER [SCREENSHOTS]
# In the folder SCREENSHOTS, if it is named, lies then what each page looks like on two screens, in
# light and dark. A model of tinyshakespeare is among them where there is that text (see tests/verdicts.sh).
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
driver=$PWD/tests/inspect.js attention=$PWD/tests/data/attention
shots=${2:+$(mkdir -p "$2" && realpath "$2")}
. tests/verdicts.sh
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
[ -n "$chromium" ] || echo 'There is no Chromium here: pages are written, but not opened.'

browser=(timeout 300 "$chromium" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "--user-data-dir=$work/profile")
# shoots PAGE: what it looks like, if anybody asked for that.
shoots() {
  local theme size name
  [ -n "$shots" ] || return 0
  for theme in light dark; do
    {
      sed '/^<\/body>$/,$d' "$1"
      echo "<script>set({dark: $([ $theme = dark ] && echo true || echo false)})</script></body></html>"
    } > shown.html
    for size in 1280,800 1920,1080; do
      name=$shots/${1%.html}-$theme-${size%,*}.png
      rm -f "$name"
      "${browser[@]}" --hide-scrollbars --virtual-time-budget=5000 "--window-size=$size" "--screenshot=$name" "file://$work/shown.html" > out 2> err < /dev/null
      [ -s "$name" ]
      verdict $? "$name is there"
    done
  done
}

# opens PAGE SECTIONS [TENSORS [PATH]]: the page in a browser, with the driver after its own scripts.
# Its sections are these, its numbers those of the tensors, whose names begin with the path. With
# brief=true nobody works it: of a large page each step takes a while.
opens() {
  local page=$1 sections=$2 tensors=${3:-} path=${4:-} lines=
  [ -n "$chromium" ] || return 0
  {
    sed '/^<\/body>$/,$d' "$page"
    echo "<script>globalThis.expected = '$sections'.split(' '), globalThis.brief = ${brief:-false};"
    [ -z "$tensors" ] || echo "globalThis.savedTensors = '$(base64 -w 0 "$tensors")', globalThis.savedAt = '$path';"
    echo '</script><script>'
    cat "$driver"
    echo '</script></body></html>'
  } > driven.html
  : > console
  "${browser[@]}" --window-size=1280,800 --enable-logging=stderr "file://$work/driven.html" > out 2> console &
  while ! grep -qE 'CONSOLE.*"[0-9]+ passed, [0-9]+ failed"' console && kill -0 $! 2> /dev/null; do sleep 0.2; done
  kill $! 2> /dev/null
  wait $! 2> /dev/null
  lines=$(sed -nE 's/.*CONSOLE[^"]*"(.*)", source: .*/\1/p' console)
  if ! grep -qE '^[0-9]+ passed, [0-9]+ failed$' <<< "$lines"; then
    tail -n 5 console > err
    verdict 1 "$page: the page did not come to the end of its test"
    return
  fi
  grep '^FAILED' <<< "$lines" | sed "s/^FAILED:/FAILED: $page:/"
  passed=$((passed + $(sed -nE 's/^([0-9]+) passed, .*/\1/p' <<< "$lines")))
  failed=$((failed + $(sed -nE 's/^[0-9]+ passed, ([0-9]+) failed$/\1/p' <<< "$lines")))
  check "$page: nothing else is on the console" eval '! grep -vE "^(FAILED: |[0-9]+ passed, )" <<< "$lines"'
  shoots "$page"
}

# narrow PAGE: nothing of it is wider than a telephone, whose first screen says what the colours are, what
# a click does, and which head is chosen. A window is never as narrow, a frame is.
narrow() {
  [ -n "$chromium" ] || return 0
  {
    sed '/^<\/body>$/,$d' "$1"
    cat << 'EOF'
<script>
  setTimeout(async () => {
    const one = (selector) => document.querySelector(selector);
    const seen = (node) => { const box = node?.getBoundingClientRect(); return box?.height > 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth; };
    const isInView = (chip) => { const all = chip.parentNode.getBoundingClientRect(), box = chip.getBoundingClientRect(); return seen(chip) && box.left >= all.left && box.right <= all.right; };
    const unseen = one('#findings') ? ['.finding .legend', '.finding .bar', '.hint'].filter((x) => !seen(one(x))) : [];
    for (const head of [state.head, (mapAt(sitePath())?.shape[0] ?? 1) - 1, 0]) {
      set({head});
      await new Promise((done) => setTimeout(done, 200));
      if (one('button.head') && !isInView(one('button.head.here'))) unseen.push('head ' + head);
    }
    console.log('width ' + document.documentElement.scrollWidth + ', not on the first screen: ' + (unseen.join(' ') || 'nothing'));
  }, 3000);
</script></body></html>
EOF
  } > inner.html
  echo '<iframe src=inner.html width=390 height=844></iframe>' > outer.html
  "${browser[@]}" --hide-scrollbars --virtual-time-budget=9000 --enable-logging=stderr --screenshot=narrow.png "file://$work/outer.html" > out 2> console < /dev/null
  grep -qE 'CONSOLE.*"width 390, not on the first screen: nothing"' console
  verdict $? "$1: it is as wide as a telephone, whose first screen has it all: $(grep -o 'width [0-9]*[^"]*' console)"
}

# ---- A language model on text that would like to be markup ----

for i in $(seq 40); do
  echo '"Tête" <b>à</b> & </script><!-- ]]> '\''😀🏳️‍🌈 שלום é\n` ${1} {{report}} '"$(printf '\u202e\u2028\t\u0301')"
done > odd.txt
odd=$(head -n 1 odd.txt | head -c 60)
tiny=(--heads 3 --d-model 24 --context 64 --batch 4 --steps 40 --eval-every 20 --eval-samples 8
  --save-every 20 --keep 3 --log-every 4 --seed 3)
everything='findings tokens maps talk heads ablation attribution histograms predictions lens text training'
check 'a language model' "$tete" train odd.txt --attention talking_heads --layers 2 "${tiny[@]}" --out odd
check 'a page' "$tete" inspect odd --text "$odd" --out odd.html --save odd.safetensors --tables tables
grep -q '^Written: odd.html (.* MB), odd.safetensors (.* MB), tables$' out
verdict $? 'it tells what it wrote'
opens odd.html "$everything mixing" odd.safetensors
narrow odd.html

# Every table's numbers are those that the page holds.
for table in heads mixing predictions lens values matrices histograms curves texts; do
  check "tables/$table.csv" eval "test \$(wc -l < tables/$table.csv) -gt 1 &&
    head -n 1 tables/$table.csv | grep -q '^\"run\",'"
done
check 'the entropy in the table is the one in the page' eval "
  value=\$(sed -n 2p tables/heads.csv | cut -d, -f6) && grep -qF -- \"0,\$value\" odd.html"

# Pictures are SVG, and nothing else is left in their folder. An own copy of the page drew them.
PATH=/nowhere "$tete" inspect odd --text '<' --pictures pictures > out 2> err
[ $? = 2 ] && grep -q -e '--pictures takes Chromium or Google Chrome' err && [ ! -e pictures ]
verdict $? 'without a browser there are no pictures, and a sentence says so'
# A browser that draws nothing, and one that draws what it is told if it is given the page.
mkdir idle drawing
printf '#!/bin/sh\nexit 1\n' > idle/chromium
cat > drawing/chromium << 'EOF'
#!/bin/sh
for last; do :; done
page=${last#file://} page=${page%#pictures}
grep -q writePictures "$page" &&
  printf '%s\n' '<html><script type="application/json">{"a":"<svg/>\n","1/b":"<svg/>\n"}</script></html>'
EOF
chmod +x idle/chromium drawing/chromium
PATH=$work/idle:$PATH refuses 4 'chromium drew no pictures' inspect odd --text '<' --pictures undrawn
check 'what a browser draws is written' eval "PATH='$work/drawing:$PATH' '$tete' inspect odd --text '<' --pictures drawn"
check 'and nothing else' eval "[ \"\$(cat drawn/a.svg drawn/1/b.svg)\" = '<svg/>
<svg/>' ] && [ \"\$(ls -A drawn)\" = '1
a.svg' ]"
if [ -n "$chromium" ]; then
  check 'pictures' "$tete" inspect odd --text "$odd" --pictures 'the pictures'
  grep -q '^Written: the pictures' out
  verdict $? 'they are told'
  check 'they are SVG' eval "[ -z \"\$(ls 'the pictures' | grep -v '\.svg\$')\" ]"
  for picture in 40-decoder-0-A-W-head-1 40-maps-U 40-{tokens,talk}-decoder-{0,1}-A 40-histogram-decoder-1-A-W \
    40-mixing 40-ablation 40-lens curves-loss; do
    check "$picture.svg" eval "head -c 5 'the pictures/$picture.svg' | grep -q '<svg ' && tail -n 1 'the pictures/$picture.svg' | grep -q '</svg>'"
  done
  check 'wires are drawn, and named' grep -q '<path.*paint-order="stroke[^>]*>P_l<' 'the pictures/40-talk-decoder-0-A.svg'
fi

check 'JSON' eval "'$tete' inspect odd --text '\"T' --json | grep -q '\"checkpoint\":40,\"heads\":\[{\"site\":\"decoder/0/A\",\"tensor\":\"W\",\"head\":0,'"
check 'one token' "$tete" inspect odd --text '<' --out one.html --save one.safetensors
opens one.html 'tokens maps talk mixing heads text training' one.safetensors
longest=$(LC_ALL=C.UTF-8; line=$(tr -d '\n' < odd.txt); echo "${line:0:64}")
check 'as many tokens as fit' "$tete" inspect odd --text "$longest" --out longest.html --save longest.safetensors
check 'they are 64' eval "'$tete' inspect odd --text \"\$longest\" --json | grep -q '\"position\":63,'"
opens longest.html "$everything mixing" longest.safetensors
check 'every checkpoint' "$tete" inspect odd --text "$odd" --all-steps --out steps.html
opens steps.html "$everything mixing"

# ---- What is saved of a layer is what `tete run` makes of its inputs, to the bit ----

# runs_again RUN TEXT LAYER MASK VARIANT…: from its inputs and parameters tete run computes the same
# file; what it computed is not read.
runs_again() {
  local run=$1 text=$2 layer=$3 mask=$4
  shift 4
  check "$run: $layer is saved" "$tete" inspect "$run" --text "$text" --no-ablation --layer "$layer" --save layer.safetensors
  check "$run: tete run $* computes $layer" "$tete" run "$@" --tensors layer.safetensors --mask "$mask" --out again.safetensors
  grep -qE '^Not read, as the text computes them: .*\bW\b.*\bY\.$' out
  verdict $? "it computes them from inputs and parameters"
  check "$run: the same bits" cmp layer.safetensors again.safetensors
  check "$run: they agree with tete check" "$tete" check "$@" --against layer.safetensors --mask "$mask"
}
runs_again odd "$odd" decoder/0/A causal talking_heads
runs_again odd "$odd" decoder/1/A causal talking_heads
opens odd.html "$everything mixing" again.safetensors decoder/1/A/
check 'rotary positions' "$tete" train odd.txt --attention multi_head --with rotary --positions none --layers 1 "${tiny[@]}" --out rotary
runs_again rotary "$odd" decoder/0/A causal multi_head --with rotary
refuses 2 'no --save' inspect odd --text '<' --layer decoder/0/A
refuses 2 "did you mean 'decoder/1/A'" inspect odd --text '<' --layer decoder/1/B --save x.safetensors
refuses 2 'neither --beside nor --all-steps' inspect odd --text '<' --layer decoder/0/A --save x.safetensors --all-steps
refuses 2 'takes no --paths' inspect odd --text '<' --layer decoder/0/A --save x.safetensors --paths '**'

# ---- Without a head, with another text's values, with a vector more ----

printf '"\n"T\n"Tê\n' > few.txt
check 'heads, one by one' "$tete" inspect odd --text "$odd" --ablate 'decoder/*/A/O' --tables ablated --no-ablation \
  --circuits 'decoder/*/A' --out ablated.html --save ablated.safetensors
grep -qE '^  ablate +decoder/1/A/O +2 +all +' out
verdict $? 'a line for each'
check 'in CSV, too' grep -q '^"odd",40,"ablate","decoder/0/A/O",1,"all",' ablated/changes.csv
opens ablated.html 'changes attribution circuits' ablated.safetensors
narrow ablated.html
check 'by position, of several texts' "$tete" inspect odd --texts few.txt --ablate 'decoder/0/A/O[1]' --each-position --token T --out few.html
grep -qE '^Unchanged \(3 texts\): loss .* ± ' out
verdict $? 'with deviations'
opens few.html 'changes attribution'
check 'another text, another run' "$tete" inspect odd --text '"Têt' --patch 'decoder/*/Y' --text-from '</sc' --from odd/best \
  --each-position --out patched.html
opens patched.html 'changes attribution'
check 'circuits' "$tete" inspect odd --text '"Têt' --circuits 'decoder/*/A[1]' --tables circuits
grep -qE '^  OV +decoder/1/A/O +head 1 +[0-9]+ of [0-9]+' out
verdict $? 'in a line for each'
check 'in CSV, too' grep -q '^"odd",40,"decoder/0/A","QK","L",1,"b","<",' circuits/circuits.csv
refuses 2 'has 3 heads, so the last is 2' inspect odd --text '<' --circuits 'decoder/0/A[3]'
refuses 2 'did you mean' inspect odd --text '<' --ablate 'decoder/0/A/o'
refuses 2 'has h_v=3, so the last is 2' inspect odd --text '<' --ablate 'decoder/0/A/O[3]'
refuses 2 'expected PATH=FILE' inspect odd --text '<' --steer decoder/0/Y
refuses 2 'expected a whole number' inspect odd --text '<' --ablate decoder/0/A/O --position x

# ---- Two runs, bytes, other texts ----

check 'another variant' "$tete" train odd.txt --attention multi_head --tokenizer char --layers 2 "${tiny[@]}" --out plain
check 'side by side' "$tete" inspect odd --beside plain --text "$odd" --out both.html --tables pair
opens both.html "$everything mixing"
check 'of both, the second less the first as tables' grep -q '^"plain − odd",40,"decoder/1/A","W",2,' pair/heads.csv
runs_again plain "$odd" decoder/1/A causal multi_head
if [ -n "$chromium" ]; then
  check 'pictures of both' "$tete" inspect odd --beside plain --text "$odd" --pictures pair
  for picture in 1/40-talk-decoder-0-A 2/40-talk-decoder-0-A difference/40-decoder-1-A-W-head-0 difference/40-ablation; do
    check "of both, $picture.svg" test -s "pair/$picture.svg"
  done
fi
check 'bytes' "$tete" train odd.txt --attention dense_synthesizer --tokenizer byte --layers 1 "${tiny[@]}" --out bytes
check 'a page of bytes' "$tete" inspect bytes --text "$odd" --out bytes.html --save bytes.safetensors
opens bytes.html "$everything" bytes.safetensors

# ---- An encoder and a decoder ----

check 'an encoder and a decoder' "$tete" train --task reverse --context 6 --attention multi_head --attention-cross talking_heads \
  --layers 1 --heads 2 --d-model 16 --batch 8 --steps 20 --eval-samples 8 --out reverse
check 'their page' "$tete" inspect reverse --text abc --out reverse.html --save reverse.safetensors
opens reverse.html "$everything mixing" reverse.safetensors
runs_again reverse abc encoder/0/A none multi_head
runs_again reverse abc decoder/0/D none talking_heads

# ---- Texts of other kinds: two softmaxes, none, sparse, two axes of heads, matrices that queries make ----

while read -r attend shown more; do
  text=$(basename "$attend" .tete)
  check "$text" "$tete" train --task induction --attention "$attend" --layers 2 --heads 4 --d-model 16 --batch 8 --steps 20 --eval-samples 8 --out "$text"
  check "$text: a page" "$tete" inspect "$text" --text qgxbqgx --out "$text.html" --save "$text.safetensors"
  check "$text: it opens with $shown" grep -q "\"weights\":\"$shown\"" "$text.html"
  opens "$text.html" "$everything${more:+ $more}" "$text.safetensors"
  narrow "$text.html"
done << END
$attention/differential.tete W
$attention/two_axes.tete A
$attention/gated.tete W
$attention/sigmoid.tete S
$attention/retention.tete W
$attention/sparsemax.tete W
multi_query W
dynamic_projections W mixing
$attention/gates.tete W mixing
END
check 'a gate between heads and their mixture' grep -qF 'U is G\u00b7T + (1 \u2212 G)\u00b7W.' gates.html
check 'a model that is a text' "$tete" train odd.txt --model gpt2 --layers 2 "${tiny[@]}" --out gpt2
check 'its page' "$tete" inspect gpt2 --text "$odd" --out gpt2.html --save gpt2.safetensors
opens gpt2.html "$everything" gpt2.safetensors
narrow gpt2.html
check 'weights without a softmax between two sequences' "$tete" train --task reverse --context 6 --attention multi_head \
  --attention-cross "$attention/sigmoid.tete" --layers 1 --heads 2 --d-model 16 --batch 8 --steps 20 --eval-samples 8 --out crossing
check 'their page' "$tete" inspect crossing --text abc --out crossing.html --save crossing.safetensors
opens crossing.html "$everything" crossing.safetensors
narrow crossing.html
check '32 heads' "$tete" train --task induction --attention talking_heads --layers 1 --heads 32 --d-model 32 --batch 4 --steps 4 --eval-samples 8 --out many
check 'their page' "$tete" inspect many --text qgxbqgx --no-ablation --out many.html --save many.safetensors
opens many.html 'findings tokens maps talk mixing heads' many.safetensors
narrow many.html

# ---- The other tasks ----

while read -r task prompt; do
  check "$task" "$tete" train --task "$task" --layers 2 --heads 2 --d-model 16 --batch 8 --steps 20 --eval-samples 8 --out "$task"
  check "$task: a page" "$tete" inspect "$task" --text "$prompt" --out "$task.html" --save "$task.safetensors"
  opens "$task.html" "$everything" "$task.safetensors"
done <<< 'copy abcde>abc
sort dcba>ab
addition 12+7=1
induction qgxbqgx
brackets ([<>])'
check 'a prompt alone has no loss' "$tete" inspect copy --text abc --out prompt.html
grep -q 'no loss, as this text has no answer' out
verdict $? 'and it says so'
opens prompt.html 'findings tokens maps talk heads predictions lens text training'

# ---- A book, and a large page ----

if [ -f "$book" ]; then
  check 'tinyshakespeare' "$tete" train "$book" --steps 60 --eval-samples 8 --out book
  check 'its page' "$tete" inspect book --text 'But soft, what light through yonder window breaks' --out book.html --save book.safetensors
  opens book.html "$everything mixing" book.safetensors
else
  echo 'There is no tinyshakespeare (TINYSHAKESPEARE=FILE names it): its page is left out.'
fi
long=$(head -c 128 "$driver" | tr '\n' ' ')
check '6 layers of 8 heads' "$tete" train "$driver" --layers 6 --heads 8 --d-model 64 --context 128 --batch 2 --steps 2 --eval-samples 2 --out large
check 'their page' "$tete" inspect large --text "$long" --no-ablation --out large.html
check 'it has less than 5 MB' test "$(stat -c %s large.html)" -lt 5000000
brief=true opens large.html 'findings tokens maps talk mixing heads histograms predictions lens text training'

# ---- What cannot be looked into ----

refuses 2 'CHECKPOINT is required' inspect
refuses 2 '--text or --texts is required' inspect odd
refuses 2 'nowhere' inspect nowhere --text a
refuses 2 "--text: expected a value, got ''" inspect odd --text ''
refuses 2 "'Ω'|vocabulary" inspect odd --text Ω
refuses 2 '64' inspect odd --text "$longest$longest"
refuses 2 'decoder/0/A/W' inspect odd --text '<' --paths 'decoder/0/A/WW' --save x.safetensors
refuses 4 'nowhere' inspect odd --text '<' --out nowhere/a.html

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
