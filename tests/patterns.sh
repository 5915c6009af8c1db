#!/bin/bash
# A wrong pattern in C++ must not compile, and must show why. tests/patterns.sh BUILD-FOLDER
# A snippet is compiled with the compiler of that build.
cd "$(dirname "$0")/.." || exit 1
folder=${1:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=$(grep -oE '"command": "(ccache )?[^ ]+' "$folder/compile_commands.json" 2> /dev/null |
  head -n 1 | sed -E 's/.*"(ccache )?//')
compiler=${compiler:-c++}

passed=0 failed=0
compile() {
  printf '#include "core/ops.hpp"\nusing namespace tete;\nTensor f(const Tensor& X, const Tensor& P) {\n  %s\n}\n' \
    "$1" > "$work/snippet.cpp"
  LC_ALL=C "$compiler" -std=c++20 -I. -fsyntax-only "$work/snippet.cpp" 2> "$work/errors"
}
report() {
  if [ "$1" = 0 ]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAILED: $2"
    sed 's/^/    /' "$work/errors" | head -n 20
  fi
}
compiles() {
  compile "$1"
  report $? "should compile: $1"
}
# refused SENTENCE CODE: must not compile, and what the compiler says must show the sentence.
refused() {
  ! compile "$2" && grep -qF "$1" "$work/errors"
  report $? "should not compile, saying \"$1\": $2"
}

compiles 'return einsum("b n d_X, d_X d_k h -> b n d_k h", X, P);'
compiles 'return einsum("ij,jk->ik", X, P);'
compiles 'return softmax("b n [m] h", X);'
compiles 'return gather("[v] d, b n -> b n d", X, P);'
refused 'a name of the result is in no operand' \
  'return einsum("b n d_X, d_X d_k h -> b n d_kk h", X, P);'
refused 'a name of the result is in no operand' 'return einsum("ij,jk->iz", X, P);'
refused 'a name stands twice in the result' \
  'return einsum("b n d_X, d_X d_k h -> b n h h", X, P);'
refused "a name stands twice in one operand, or '...'" 'return softmax("b n [n] h", X);'
refused 'the pattern has another number of operands' \
  'return einsum("b n d, d k, k j -> b n j", X, P);'
refused 'the pattern has another number of operands' 'return einsum("b n d -> b d", X, P);'
refused 'the pattern has another number of operands' 'return softmax("b n [m], n m", X);'
refused 'the pattern has another number of operands' 'return add("b n d", X, P);'
refused "a '[' is not closed" 'return softmax("b n [m h", X);'
refused "a '(' is not closed" 'return rearrange("b n (h d -> b h n d", X, {{"h", 8}});'
refused "expected '->'" 'return einsum("ij,jk-ik", X, P);'
refused "expected '...'" 'return einsum("i.j,jk->ik", X, P);'
refused 'expected the end after the result' 'return einsum("ij,jk->ik,i", X, P);'
# Text that is not a literal has to go through Pattern::parse.
refused 'consta' 'std::string text = "ij,jk->ik"; return einsum(text.c_str(), X, P);'
compiles 'std::string text = "ij,jk->ik"; return einsum(Pattern::parse(text), Tensors{X, P});'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
