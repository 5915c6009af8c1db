// Tensors in bfloat16: how they are rounded, what products of them are, and what memory they save.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "attention/attention.hpp"
#include "attention/catalog.hpp"
#include "core/check/gradcheck.hpp"
#include "core/threads.hpp"
#include "tests/error_of.hpp"
#include "tests/made_and_kept.hpp"

using namespace tete;

namespace {

constexpr EinsumOptions rounded_products{.products = Products::bf16};

Tensor noise(const Shape& shape, uint64_t key) {
  return random_normal(shape, Key(key), Dtype::f32);
}

// x in f64, rounded on the way.
Tensor coarse(const Tensor& x) { return cast(cast(x.rounded(), Dtype::f32), Dtype::f64).detach(); }

double apart(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.values(), y = b.values();
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  return most;
}

// Every other one of a longer last dimension.
Tensor with_gaps(const Tensor& x) {
  const int last = x.rank() - 1;
  return slice(place(x, last, 0, 2, 2 * x.size(last) + 1), last, 0, x.size(last), 2);
}

struct Product {
  const char* pattern;
  Shape a, b;
};
// All of them multiply matrices; of the last one a gradient does not.
const Product products[] = {
    {"n d, d f -> n f", {37, 29}, {29, 41}},
    {"n d, d f -> n f", {64, 64}, {64, 64}},
    {"n d, f d -> n f", {33, 17}, {19, 17}},
    {"d n, d f -> f n", {31, 53}, {31, 23}},
    {"b n h k, b m h k -> b h n m", {2, 13, 3, 16}, {2, 11, 3, 16}},
    {"b h n m, b m h k -> b n h k", {2, 3, 13, 11}, {2, 11, 3, 16}},
    {"b n d, d h k -> b n h k", {3, 7, 10}, {10, 2, 8}},
    {"b n h k, d h k -> b n d", {3, 7, 5, 6}, {9, 5, 6}},
    {"n d, d f -> n f", {3, 64}, {64, 200}},
};

}  // namespace

TEST_SUITE("rounded") {
  TEST_CASE("a tensor in bfloat16 lies as it does in f32, without gaps") {
    const Tensor x = noise({5, 6, 7}, 1);
    const Tensor turned = permute(x, {2, 0, 1});
    CHECK(turned.rounded().strides() == turned.strides());
    CHECK(turned.rounded().values() == permute(cast(x.rounded(), Dtype::f32), {2, 0, 1}).values());
    const Tensor spread = with_gaps(x);
    CHECK(spread.rounded().is_row_major());
    CHECK(spread.rounded().values() == x.rounded().values());
    const Tensor row = noise({5, 1, 7}, 2), repeated = broadcast(row, {5, 4, 7}).rounded();
    CHECK(repeated.strides()[1] == 0);
    CHECK(repeated.values() == broadcast(cast(row.rounded(), Dtype::f32), {5, 4, 7}).values());
    CHECK(noise({0, 3}, 1).rounded().size() == 0);
    CHECK(noise({}, 1).rounded().rank() == 0);
  }

  TEST_CASE("only f32 is rounded, and nothing but products takes it") {
    CHECK(error_of([] { cast(Tensor::ones({2}, Dtype::f64), Dtype::bf16); }) ==
          "only f32 is rounded to bf16, got f64[2]");
    const Tensor x = Tensor::ones({2, 3}).rounded();
    CHECK(error_of([&] { exp(x); }).find("expected real numbers, got bf16[2, 3]") !=
          std::string::npos);
    CHECK(error_of([&] { x + x; }).find("got bf16[2, 3]") != std::string::npos);
    CHECK(error_of([&] { x.variable(); }).find("got bf16[2, 3]") != std::string::npos);
    const Tensor made = (noise({2, 3}, 1).variable() * 2.0).rounded();
    CHECK(error_of([&] { grad(made, Tensors{made}); }) ==
          "grad: expected f32 or f64, got bf16[2, 3]; cast it to f32 first");
  }

  TEST_CASE("rounded numbers are moved as they are") {
    const Tensor x = noise({5, 7}, 20), r = x.rounded(),
                 index = Tensor::of<int64_t>({3}, {4, 0, 4});
    CHECK(gather("[t] d, i -> i d", r, index).values() ==
          gather("[t] d, i -> i d", cast(r, Dtype::f32), index).values());
    CHECK(reshape(permute(r, {1, 0}), {35}).values() ==
          reshape(permute(cast(r, Dtype::f32), {1, 0}), {35}).values());
  }

  TEST_CASE("what an operation made is rounded once while its graph lives, whoever asks") {
    const Tensor x = noise({64, 300}, 3).variable(), y = x * 2.0;
    std::vector<Tensor> all(8);
    {
      std::vector<std::jthread> threads;
      for (Tensor& one : all) threads.emplace_back([&] { one = y.rounded(); });
    }
    const Tensor kept = y.rounded();
    CHECK(y.rounded().storage().same(kept.storage()));
    for (const Tensor& one : all) CHECK(one.values() == kept.values());
    // A leaf may be written to between two graphs.
    CHECK_FALSE(x.rounded().storage().same(x.rounded().storage()));
  }

  TEST_CASE("a gradient that reaches rounded numbers goes on in full") {
    const Tensor x = noise({3, 5}, 4).variable(), c = noise({3, 5}, 5);
    const Tensor y = cast((x * 3.0).rounded(), Dtype::f32);
    CHECK(grad(sum(y * c), Tensors{x})[0].values() == (c * 3.0).values());
    CHECK(cast(x, Dtype::bf16).tracked());
  }

  TEST_CASE("products are those of rounded numbers, summed in f32, wherever these lie") {
    for (const Product& p : products)
      for (int how = 0; how < 4; ++how) {
        CAPTURE(std::string(p.pattern));
        CAPTURE(how);
        const Pattern pattern = Pattern::parse(p.pattern);
        const Tensor A = noise(p.a, 6), B = noise(p.b, 7);
        const Tensors operands{how & 1 ? with_gaps(A) : A, how & 2 ? with_gaps(B) : B};
        const Tensor y = einsum(pattern, operands, rounded_products);
        CHECK(y.dtype() == Dtype::f32);
        CHECK(apart(cast(y, Dtype::f64), einsum(pattern, {coarse(A), coarse(B)})) < 1e-5);
      }
  }

  TEST_CASE("so are their gradients, of the first and the second order") {
    for (const Product& p : products) {
      CAPTURE(std::string(p.pattern));
      const Pattern pattern = Pattern::parse(p.pattern);
      const Tensor A = noise(p.a, 8).variable(), B = noise(p.b, 9).variable();
      // An operand that an operation made is held in bfloat16, a leaf in f32.
      const Tensor made = A * 1.0, y = einsum(pattern, {made, B}, rounded_products);
      const Tensor g = noise(y.shape(), 10);
      const Tensors found = grad(y, Tensors{A, B}, {.cotangent = g});
      const Tensor a = coarse(A).variable(), b = coarse(B).variable();
      const Tensors expected =
          grad(einsum(pattern, {a, b}), Tensors{a, b}, {.cotangent = coarse(g)});
      for (size_t i = 0; i < 2; ++i) CHECK(apart(cast(found[i], Dtype::f64), expected[i]) < 1e-5);
      const auto again = [&](const Tensor& u, const Tensor& v, const EinsumOptions& options) {
        const Tensor z = square(einsum(pattern, {u * 1.0, v}, options));
        const Tensor first = grad(z, Tensors{u}, {.keep_graph = true})[0];
        return grad(sum(square(first)), Tensors{v})[0];
      };
      const Tensor rough = cast(again(A, B, rounded_products), Dtype::f64),
                   exact = again(cast(A.detach(), Dtype::f64).variable(),
                                 cast(B.detach(), Dtype::f64).variable(), {});
      CHECK(apart(rough, exact) < 0.03 * std::sqrt(sum(square(exact)).item()));
    }
  }

  TEST_CASE("operands that are rounded already are multiplied so, as in gradients") {
    const Tensor A = noise({37, 29}, 1), B = noise({29, 41}, 2), Y = Tensor::zeros({37, 41});
    const Labels a{0, 1}, b{1, 2}, y{0, 2};
    for (const Tensor& left : {A, A.rounded()})
      for (const Tensor& right : {B, B.rounded()})
        CHECK(cpu().contracts_bf16(left.view(), a, right.view(), b, Y.view(), y));
  }

  TEST_CASE("what multiplies no matrices is computed in full") {
    const char* const patterns[] = {"n d, d -> n", "n d, n d -> n d", "n d, n d ->", "n, d -> n d"};
    for (const char* each : patterns) {
      CAPTURE(std::string(each));
      const Pattern pattern = Pattern::parse(each);
      const auto shape = [&](int i) {
        Shape s;
        for (const Axis& axis : pattern.operand(i))
          s.push_back(pattern.name(axis.label) == "n" ? 33 : 37);
        return s;
      };
      const Tensors operands{noise(shape(0), 11), noise(shape(1), 12)};
      CHECK(einsum(pattern, operands, rounded_products).values() ==
            einsum(pattern, operands).values());
    }
    // Heads that are mixed.
    const Tensor L = noise({2, 4, 16, 160}, 13), P = noise({4, 4}, 14);
    const auto mix = Pattern::parse("b h n m, h g -> b g n m");
    CHECK(einsum(mix, {L, P}, rounded_products).values() == einsum(mix, {L, P}).values());
    for (const Index n : {0, 1})
      CHECK(einsum(Pattern::parse("n d, d f -> n f"), {noise({n, 3}, 1), noise({3, 2}, 2)},
                   rounded_products)
                .size() == n * 2);
  }

  TEST_CASE("an operand that only the product reads again takes half the memory") {
    const Tensor x = noise({256, 512}, 15).variable(), W = noise({512, 512}, 16).variable();
    const auto kept = [&](const EinsumOptions& options, const auto& operand) {
      return MadeAndKept([&] { return sum(einsum("n d, d f -> n f", options, operand(), W)); })
          .kept;
    };
    const double numbers = 256 * 512;
    const auto scaled = [&] { return x * 2.0; };
    CHECK(kept({}, scaled) == doctest::Approx(4 * numbers).epsilon(0.01));
    CHECK(kept(rounded_products, scaled) == doctest::Approx(2 * numbers).epsilon(0.01));
    // The gradient of exp reads its result: that stays, and nothing beside it.
    CHECK(kept(rounded_products, [&] { return exp(x); }) ==
          doctest::Approx(4 * numbers).epsilon(0.01));
    CHECK(kept(rounded_products, [&] { return x; }) == doctest::Approx(0).epsilon(1e-3 * numbers));
  }

  TEST_CASE("views of what stays are not held twice") {
    const Tensor x = noise({64, 64}, 21).variable(), c = noise({64, 64}, 22);
    const auto kept = [&](Products products, const std::function<Tensor()>& operand) {
      return MadeAndKept([&] {
               return sum(einsum("n d, d f -> n f", {.products = products}, operand(), x));
             })
          .kept;
    };
    const std::function<Tensor()> operands[] = {[&] {
                                                  return permute(x, {1, 0});
                                                },
                                                [&] {
                                                  return permute(softmax(x, 1), {1, 0});
                                                },
                                                [&] { return slice(x, 0, 0, 32); }};
    for (const auto& operand : operands)
      CHECK(kept(Products::bf16, operand) == kept(Products::full, operand));
    // A tensor that no gradient reads is not held at all.
    CHECK(MadeAndKept([&] {
            return sum(einsum("n d, d f -> n f", {.products = Products::bf16}, x * 2.0, c));
          }).kept <= 8);
  }

  TEST_CASE("no variant keeps more with rounded products") {
    for (const Variant& variant : variants())
      for (const bool tiled : {false, true}) {
        CAPTURE(variant.name);
        CAPTURE(tiled);
        ParamList list;
        const auto program = load_attention(variant.name);
        AttentionSizes sizes{.d_model = 32};
        if (program->find_dimension("h") >= 0) sizes.heads = 4;
        const Attention attention(Scope{list}, program, sizes);
        Tensors params;
        for (const Tensor& p : list.initial_values(Key(1))) params.push_back(p.variable());
        const Tensor X = noise({2, 64, 32}, 23).variable();
        const auto kept = [&](Products products) {
          const Forward forward{
              .params = params, .tiling = {.allowed = tiled}, .products = products};
          return MadeAndKept([&] { return attention(forward, "", X, X); }).kept;
        };
        CHECK(kept(Products::bf16) <= 1.02 * kept(Products::full));
      }
  }

  TEST_CASE("attention with rounded products: blocks, threads and kept blocks change no bit") {
    for (const char* name : {"multi_head", "talking_heads", "dynamic_projections"}) {
      CAPTURE(std::string(name));
      ParamList list;
      const Attention attention(Scope{list}, load_attention(name), {.d_model = 32, .heads = 4});
      Tensors params;
      for (const Tensor& p : list.initial_values(Key(1))) params.push_back(p.variable());
      const Tensor X = noise({2, 67, 32}, 17).variable();
      const auto outcome = [&](const Tiling& tiling, Products products, int used) {
        const int before = threads();
        set_threads(used);
        const Tensor Y =
            attention({.params = params, .tiling = tiling, .products = products}, "", X, X);
        Tensors asked = params;
        asked.push_back(X);
        Tensors all = grad(Y, asked, {.cotangent = noise(Y.shape(), 18)});
        all.push_back(Y);
        set_threads(before);
        return all;
      };
      const Tiling again{.queries = 16, .keep = Tiling::Keep::never()},
          kept{.queries = 16, .keep = Tiling::Keep::always()};
      const Tensors one = outcome(again, Products::bf16, 1),
                    three = outcome(again, Products::bf16, 3),
                    stays = outcome(kept, Products::bf16, 2),
                    whole = outcome({.allowed = false}, Products::bf16, 2),
                    full = outcome({.allowed = false}, Products::full, 2);
      double rounded = 0;
      for (size_t i = 0; i < one.size(); ++i) {
        CHECK(one[i].values() == three[i].values());
        CHECK(one[i].values() == stays[i].values());
        const double size = std::sqrt(mean(square(full[i])).item());
        CHECK(apart(one[i], whole[i]) < 0.1 * size);
        CHECK(apart(whole[i], full[i]) < 0.2 * size);
        rounded = std::max(rounded, apart(whole[i], full[i]));
      }
      CHECK(rounded > 0);
    }
  }
}

TEST_SUITE("what a graph keeps") {
  TEST_CASE("what no gradient reads again is given back") {
    const Tensor x = noise({100, 100}, 1).variable(), c = noise({100, 100}, 2);
    const double one = 4e4;
    struct Case {
      const char* name;
      double tensors;
      std::function<Tensor()> call;
    };
    const Case cases[] = {
        {"sums", 0, [&] { return sum(x + c - x); }},
        {"a constant factor", 0, [&] { return sum((x + c) * 3.0); }},
        {"two factors", 2, [&] { return sum((x + c) * (x - c)); }},
        {"the result alone", 1, [&] { return sum(exp(x + c)); }},
        {"the input alone", 1, [&] { return sum(square(x + c)); }},
        {"views", 0,
         [&] {
           return sum(reshape(permute(x + c, {1, 0}), {10, 1000}));
         }},
        {"many parts", 0,
         [&] {
           Tensors parts;
           for (int i = 0; i < 40; ++i) parts.push_back(x * (i + 1.0));
           return sum(concat(parts, 0));
         }},
        {"softmax", 1, [&] { return sum(softmax(x + c, 1)); }},
        {"a product with a constant", 0, [&] { return sum(einsum("n d, d f -> n f", x + c, c)); }},
        {"a product", 1, [&] { return sum(einsum("n d, d f -> n f", x + c, x)); }},
    };
    for (const Case& each : cases) {
      CAPTURE(std::string(each.name));
      CHECK(MadeAndKept(each.call).kept / one == doctest::Approx(each.tensors).epsilon(0.01));
    }
  }

  TEST_CASE("a rule that reads more than it said is told so") {
    const Tensor x = noise({2, 3}, 24).variable();
    const Tensor y = record(
        "wrong", exp(x.detach()), {x * 1.0},
        [](const Backward& at) -> Tensors { return {at.g * at.y}; }, saves_nothing);
    CHECK(error_of([&] { grad(y, Tensors{x}); }) ==
          "a gradient rule reads f32[2, 3], whose numbers it did not ask record() to keep (Saved)");
  }

  TEST_CASE("an input without numbers still has its gradients, to the second order") {
    const Tensor x = random_normal({3, 5}, Key(3), Dtype::f64);
    CHECK(
        check_gradient([](const Tensors& in) { return softmax(in[0] * 2.0, 1); }, {x}, 2).passed());
    CHECK(check_gradient([](const Tensors& in) { return tanh(exp(in[0]) - in[0]); }, {x}, 2)
              .passed());
  }
}
