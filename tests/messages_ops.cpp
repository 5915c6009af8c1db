// Every operation of core/ops.hpp refuses operands that it does not take: the sentence is checked
// in full, where there is a pattern with the pattern, carets and operands. Patterns that cannot be
// read are in tests/pattern.cpp, those that einsum does not take in tests/einsum.cpp.
#include <functional>
#include <limits>
#include <span>

#include "core/check/gradcheck.hpp"
#include "core/derivatives.hpp"
#include "core/ops.hpp"
#include "core/threads.hpp"
#include "tests/error_of.hpp"

using namespace tete;

namespace {

struct Row {
  std::string sentence;
  std::function<void()> body;
};

void check_rows(std::span<const Row> rows) {
  for (const Row& row : rows) CHECK(error_of(row.body) == row.sentence);
}

Tensor f32(const Shape& shape) { return Tensor::zeros(shape); }
Tensor f64(const Shape& shape) { return Tensor::zeros(shape, Dtype::f64); }
Tensor i64(const Shape& shape) { return Tensor::zeros(shape, Dtype::i64); }
Tensor positions(std::initializer_list<int64_t> values) {
  return Tensor::of<int64_t>({static_cast<Index>(values.size())}, values);
}
Pattern parsed(std::string_view text) { return Pattern::parse(text); }

}  // namespace

TEST_SUITE("messages") {
  TEST_CASE("patterns and operands that do not go together are shown, with carets") {
    const Row rows[] = {
        {"add: 'd' is 3 in operand 1 but 4 in operand 2.\n"
         "    b d, d\n"
         "      ^  ^\n"
         "    operand 1: f32[2, 3]\n"
         "    operand 2: f32[4]",
         [] {
           add("b d, d", f32({2, 3}), f32({4}));
         }},
        {"mul: operand 2 has 1 name, but the tensor has 2 dimensions.\n"
         "    b d, d\n"
         "         ^\n"
         "    operand 1: f32[2, 3]\n"
         "    operand 2: f32[3, 3]",
         [] {
           mul("b d, d", f32({2, 3}), f32({3, 3}));
         }},
        {"add: 'd' must be in the result, too.\n"
         "    b d, d -> b\n"
         "      ^",
         [] {
           add("b d, d -> b", f32({2, 3}), f32({3}));
         }},
        {"add: [ ] mean nothing here.\n"
         "    b [d k], k\n"
         "       ^ ^",
         [] {
           add("b [d k], k", f32({2, 3, 4}), f32({4}));
         }},
        {"add: ( ) mean nothing here; merge or split with rearrange first.\n"
         "    (h d), d\n"
         "     ^ ^",
         [] { add("(h d), d", f32({6}), f32({3})); }},
        {"add: only einsum takes '...'.\n"
         "    ... d, d\n"
         "    ^^^",
         [] {
           add(parsed("... d, d"), f32({4, 4}), f32({4}));
         }},
        {"mul: only einsum takes a name twice in one operand.\n"
         "    dd k dd, dd\n"
         "    ^^   ^^",
         [] {
           mul(parsed("dd k dd, dd"), f32({4, 2, 4}), f32({4}));
         }},
        {"sum: expected a dimension in [ ], got none.\n"
         "    b n\n"
         "    ^^^",
         [] {
           sum("b n", f32({2, 3}));
         }},
        {"softmax: expected one dimension in [ ], got 2.\n"
         "    b [n m], n\n"
         "    ^^^^^^^",
         [] {
           softmax("b [n m], n", f32({2, 3, 4}), f32({3}));
         }},
        {"softmax: 'h' of the mask is not in the logits.\n"
         "    b [n], n h\n"
         "             ^",
         [] {
           softmax("b [n], n h", f32({2, 3}), f32({3, 4}));
         }},
        {"gather: expected one dimension in [ ], got 0.\n"
         "    v d, t -> t d\n"
         "    ^^^",
         [] {
           gather("v d, t -> t d", f32({2, 3}), positions({0}));
         }},
        {"scatter: expected one dimension in [ ], got 0.\n"
         "    t d, t -> d\n"
         "              ^",
         [] {
           scatter("t d, t -> d", f32({1, 3}), positions({0}), 2);
         }},
        {"gather: 'd' must stand on both sides, as every name outside [ ].\n"
         "    [v] d, t -> t\n"
         "        ^",
         [] {
           gather("[v] d, t -> t", f32({2, 3}), positions({0}));
         }},
        {"gather: 'v' must stand once only, in [ ].\n"
         "    [v] d, v -> v d\n"
         "     ^     ^    ^",
         [] {
           gather("[v] d, v -> v d", f32({2, 3}), positions({0, 1}));
         }},
        {"scatter: 'v' must stand once only, in [ ].\n"
         "    v d, t -> [v] d t\n"
         "    ^          ^",
         [] {
           scatter("v d, t -> [v] d t", f32({2, 3}), positions({0}), 4);
         }},
        {"rearrange: the operand has 2 dimensions, but the tensor has 3.\n"
         "    b (h d) -> b h d\n"
         "    ^^^^^^^\n"
         "    operand 1: f32[2, 3, 4]",
         [] {
           rearrange("b (h d) -> b h d", f32({2, 3, 4}));
         }},
        {"rearrange: 'd' must be in the result, too.\n"
         "    b d -> b\n"
         "      ^",
         [] {
           rearrange("b d -> b", f32({2, 3}));
         }},
        {"rearrange: [ ] mean nothing here.\n"
         "    b d -> b d [h]\n"
         "                ^",
         [] {
           rearrange("b d -> b d [h]", f32({2, 3}));
         }},
        {"rearrange: give the size of 'h' or 'd'.\n"
         "    b (h d) -> b h d\n"
         "       ^ ^",
         [] {
           rearrange("b (h d) -> b h d", f32({2, 6}));
         }},
        {"rearrange: a dimension of size 6 does not split into these: the sizes given multiply to "
         "4.\n"
         "    b (h d) -> b h d\n"
         "       ^ ^",
         [] {
           rearrange("b (h d) -> b h d", f32({2, 6}), {{"h", 4}});
         }},
        {"rearrange: a dimension of size 6 does not split into these: the sizes given multiply to "
         "more than 63 bits hold.\n"
         "    (h d k) -> h d k\n"
         "     ^ ^ ^",
         [] {
           rearrange("(h d k) -> h d k", f32({6}), {{"h", Index{1} << 40}, {"d", Index{1} << 40}});
         }},
        {"rearrange: 'g' is no name of it.\n"
         "    b (h d) -> b h d",
         [] {
           rearrange("b (h d) -> b h d", f32({2, 6}), {{"g", 4}});
         }},
        {"rearrange: the size of 'h' must be at least 0, got -2",
         [] {
           rearrange("b (h d) -> b h d", f32({2, 6}), {{"h", -2}});
         }},
        {"'a, b, c' has 3 operands, but 2 were given", [] { PatternOf<2>{parsed("a, b, c")}; }},
    };
    check_rows(rows);
  }

  TEST_CASE("operands without a pattern are told with both shapes and both numbers") {
    const Row rows[] = {
        {"add: expected two real tensors of one shape and type, got f32[2, 3] and f32[3]; a "
         "broadcast names its dimensions, as in add(\"b n d, d\", x, bias)",
         [] {
           f32({2, 3}) + f32({3});
         }},
        {"div: expected two real tensors of one shape and type, got f32[2] and f64[2]; a "
         "broadcast names its dimensions, as in add(\"b n d, d\", x, bias)",
         [] { f32({2}) / f64({2}); }},
        {"exp: expected real numbers, got i64[2]", [] { exp(i64({2})); }},
        {"sum: 2 is not a dimension of f32[2, 3]",
         [] {
           sum(f32({2, 3}), {2});
         }},
        {"max: dimension 1 is given twice",
         [] {
           max(f32({2, 3}), {1, 1});
         }},
        {"softmax: 2 is not a dimension of f32[2, 3]",
         [] {
           softmax(f32({2, 3}), 2);
         }},
        {"mixed_softmax: expected real numbers [..., heads, keys], got f32[3]",
         [] {
           mixed_softmax(f32({3}), f32({2, 2}));
         }},
        {"mixed_softmax: expected a matrix that mixes heads before, got none",
         [] {
           mixed_softmax(f32({2, 3}), Tensor());
         }},
        {"mixed_softmax: expected a matrix of f32 from 2 heads to others, got f32[3, 2]",
         [] {
           mixed_softmax(f32({2, 3}), f32({3, 2}));
         }},
        {"mixed_softmax: expected a matrix of f32 from 4 heads to others, got f64[4, 2]",
         [] {
           mixed_softmax(f32({2, 3}), f32({2, 4}), Tensor(), f64({4, 2}));
         }},
        {"attend: expected q[…, n, c], k[…, m, c] and v[…, m, e] of one real type, got "
         "f32[3, 2], f32[5, 3] and f32[5, 4]",
         [] {
           attend(f32({3, 2}), f32({5, 3}), f32({5, 4}));
         }},
        {"attend: expected q[…, n, c], k[…, m, c] and v[…, m, e] of one real type, got "
         "f32[3, 2], f32[5, 2] and f64[5, 4]",
         [] {
           attend(f32({3, 2}), f32({5, 2}), f64({5, 4}));
         }},
        {"attend: expected a bias[…, n, m] of 2 dimensions and of the type of q, f32[3, 2], got "
         "f32[5]",
         [] {
           attend(f32({3, 2}), f32({5, 2}), f32({5, 4}), {.bias = f32({5})});
         }},
        {"attend: expected a bias[…, 7] of 1 dimension and of the type of q, f32[3, 2], got "
         "f32[3, 5]",
         [] {
           attend(f32({3, 2}), f32({5, 2}), f32({5, 4}),
                  {.bias = f32({3, 5}), .bias_by_distance = true});
         }},
        {"attend: expected a bias[…, 7] of 1 dimension and of the type of q, f32[3, 2], got none",
         [] {
           attend(f32({3, 2}), f32({5, 2}), f32({5, 4}), {.bias_by_distance = true});
         }},
        {"attend: expected a mask[…, 7] by the distances of 3 rows, got f32[3, 5]",
         [] {
           attend(f32({3, 2}), f32({5, 2}), f32({5, 4}),
                  {.mask = f32({3, 5}), .mask_by_distance = true});
         }},
        {"softmax: expected real numbers, got i64[2, 3]",
         [] {
           softmax(i64({2, 3}), 1);
         }},
        {"layer_norm: expected x[…, d] and vectors [d] of its type, got f32[2, 3] and f32[2]",
         [] {
           layer_norm(f32({2, 3}), f32({2}), f32({3}));
         }},
        {"rms_norm: expected x[…, d] and vectors [d] of its type, got f32[2, 3] and f64[3]",
         [] {
           rms_norm(f32({2, 3}), f64({3}));
         }},
        {"permute: -1 is not a dimension of f32[2, 3]",
         [] {
           permute(f32({2, 3}), {-1, 0});
         }},
        {"permute: dimension 0 is given twice",
         [] {
           permute(f32({2, 3}), {0, 0});
         }},
        {"permute: expected an order of 2 dimensions, got 1",
         [] {
           permute(f32({2, 3}), {0});
         }},
        {"reshape: f32[2, 3] has 6 elements, but a tensor of shape [4] has 4",
         [] {
           reshape(f32({2, 3}), {4});
         }},
        {"broadcast: f32[2, 3] cannot be repeated to shape [4, 3]: only dimensions of size 1 can",
         [] {
           broadcast(f32({2, 3}), {4, 3});
         }},
        {"expand: f32[2, 3] with 1 new dimension does not fit into shape [4, 3, 3]",
         [] {
           expand(f32({2, 3}), {0}, {4, 3, 3});
         }},
        {"slice: 2 elements from 2 in steps of 1 are not all inside dimension 1 of f32[2, 3]",
         [] {
           slice(f32({2, 3}), 1, 2, 2);
         }},
        {"place: 3 elements from 2 in steps of 2 do not fit into a dimension of size 5",
         [] {
           place(f32({2, 3}), 1, 2, 2, 5);
         }},
        {"pad: expected sizes of at least 0, got -1 and 2",
         [] {
           pad(f32({2, 3}), 1, -1, 2);
         }},
        {"diagonal: expected dimensions of one size in rising order, got 0 and 1 of f32[2, 3]",
         [] {
           diagonal(f32({2, 3}), {0, 1});
         }},
        {"concat: expected at least one tensor", [] { concat({}, 0); }},
        {"concat: expected parts of one type and as many dimensions, got f32[2, 3] and f32[3]",
         [] {
           concat({f32({2, 3}), f32({3})}, 0);
         }},
        {"concat: dimension 1 is 3 in part 1 but 4 in part 2",
         [] {
           concat({f32({2, 3}), f32({2, 4})}, 0);
         }},
        {"windows: expected a width and a step of at least 1, got 0 and 1",
         [] {
           windows(f32({2, 3}), 1, 0);
         }},
        {"windows: 2 is not a dimension of f32[2, 3]",
         [] {
           windows(f32({2, 3}), 2, 1);
         }},
        {"overlap_add: 2 windows of 3 in steps of 2 do not fit into a dimension of size 4",
         [] {
           overlap_add(f32({2, 3}), 0, 2, 4);
         }},
        {"gather: position 5 (element 1 of the index) is outside a dimension of size 2",
         [] {
           gather("[v] d, t -> t d", f32({2, 3}), positions({0, 5}));
         }},
        {"gather: positions must be i64, got f32[2]",
         [] {
           gather("[v] d, t -> t d", f32({2, 3}), f32({2}));
         }},
        {"one_hot: position -1 (element 0 of the index) is outside a dimension of size 2",
         [] { one_hot(positions({-1}), 2, Dtype::f32); }},
        {"top_k: 2 is not a dimension of f32[2, 3]",
         [] {
           top_k(f32({2, 3}), 2, 1);
         }},
        {"top_k: expected a count from 0 to 3, the size of dimension 1 of f32[2, 3], got 4",
         [] {
           top_k(f32({2, 3}), 1, 4);
         }},
        {"cross_entropy: expected logits[t, v] and targets[t] (i64), got f32[2, 3] and i64[3]",
         [] {
           cross_entropy(f32({2, 3}), i64({3}));
         }},
        {"turn: expected a real tensor with pairs along dimension 1, and a cosine and a sine for "
         "each, got f32[2, 3] and f32[2]",
         [] {
           turn(f32({2, 3}), 1, f32({2}), f32({2}));
         }},
        {"turn: expected a real tensor with pairs along dimension 0, and a cosine and a sine for "
         "each, got f32[2, 3] and f32[2]",
         [] {
           turn(f32({2, 3}), 0, f32({3}), f32({2}));
         }},
        {"cross_entropy: target 3 (row 1) is outside the 3 classes of the logits",
         [] {
           cross_entropy(f32({2, 3}), positions({0, 3}));
         }},
        {"dropout: expected a rate in [0, 1), got 1", [] { dropout(f32({2}), 1, Key(1)); }},
        {"uniform_below: expected a bound of at least 1, got 0",
         [] { uniform_below(Key(1), 0, 0); }},
        {"contract: expected operands of one real type, got f64 and f32",
         [] { contract(f64({2}), {0}, f32({2}), {0}, {}); }},
    };
    check_rows(rows);
  }

  TEST_CASE("tensors and gradients") {
    const Row rows[] = {
        {"a tensor of shape [2, 2] has 4 elements, but 3 values were given",
         [] {
           Tensor::of<double>({2, 2}, {1, 2, 3});
         }},
        {"item: expected a tensor with one element, got f32[2]", [] { f32({2}).item(); }},
        {"a gradient needs real numbers, got i64[2]", [] { i64({2}).variable(); }},
        {"more than 16 dimensions in one tensor", [] { Shape(17, 1); }},
        {"expected real numbers (f32 or f64), got i64",
         [] { random_normal({2}, Key(1), Dtype::i64); }},
        {"grad: the value depends on no tracked tensor; make one with variable()",
         [] { grad(f32({}), {}); }},
        {"grad: the cotangent must have the value's shape [2], got [3]",
         [] {
           const Tensor x = f32({2}).variable();
           grad(exp(x), {{x}}, {.cotangent = f32({3})});
         }},
        {"check_gradient: the function returned no tensor, expected f64",
         [] { check_gradient([](const Tensors&) { return Tensor(); }, {f64({2})}); }},
        {"check_gradient: the function's result has shape [1] when an input moves a little, and "
         "[2] otherwise",
         [] {
           check_gradient(
               [](const Tensors& in) {
                 return in[0].values()[0] == 0 ? exp(in[0]) : slice(exp(in[0]), 0, 0, 1);
               },
               {f64({2})});
         }},
        {"check_gradient: the gradient of input 1 has shape [3], the input [2]",
         [] {
           const auto f = [](const Tensors& in) {
             return record("wrong", exp(in[0]), {in[0]},
                           [](const Backward&) -> Tensors { return {f64({3})}; });
           };
           check_gradient(f, {f64({2})});
         }},
        {"the number of threads must be at least 1, got 0", [] { set_threads(0); }},
    };
    check_rows(rows);
    CHECK(error_of(ErrorKind::resource, [] {
            f32({Index{1} << 40, Index{1} << 40});
          }) == "a tensor of shape [1099511627776, 1099511627776] has too many elements");
    CHECK(error_of(ErrorKind::resource, [] { f32({Index{1} << 55}); }) ==
          "there is no memory for 144115188075855872 more bytes");
  }
}
