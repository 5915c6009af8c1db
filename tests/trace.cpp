// Looking and changing: who looks changes no bit, who gives back what was given changes no bit, and
// who changes something gets what the text would give with that change.
#include "nn/trace.hpp"

#include "core/check/gradcheck.hpp"
#include "core/threads.hpp"
#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tests/named_model.hpp"
#include "tools/uses.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

struct Case {
  const char* name;
  Tensor X, M;  // no M: X
  Mask mask;
  Tiling tiling;
};

// None, causal and padding; self and cross; whole, and in blocks with and without an end left over.
std::vector<Case> cases(const Checked& program, Dtype dtype) {
  const Tensor X = noise({3, 11, 12}, 1, dtype), M = noise({3, 7, 12}, 2, dtype);
  const Tensor some = Tensor::of<int64_t>({3}, {11, 0, 3}),
               few = Tensor::of<int64_t>({3}, {7, 1, 0});
  std::vector<Case> all;
  for (const Tiling& tiling : {Tiling{.allowed = false}, Tiling{.queries = 4, .samples = 2}}) {
    all.push_back({"self", X, {}, {}, tiling});
    if (program.takes_mask && program.leak.empty())
      all.push_back({"self, causal", X, {}, {.causal = true}, tiling});
    if (program.takes_mask || program.takes_padding)
      all.push_back({"self, padding", X, {}, {.lengths = some}, tiling});
    if (program.self_only) continue;
    all.push_back({"cross", X, M, {}, tiling});
    if (program.takes_mask || program.takes_padding)
      all.push_back({"cross, padding", X, M, {.lengths = few}, tiling});
  }
  return all;
}

Tensor call(const Layer& layer, const Case& c, const Forward& forward) {
  return layer.attention(forward, "at", c.X, c.M ? c.M : c.X, c.mask);
}

AttentionSizes sizes_of(const std::string& name) {
  AttentionSizes sizes = sizes_for(name);
  const auto program = load_attention(name);
  for (const auto& [dim, size] : SizesByName{{"w", 3}, {"g", 1}})
    if (program->find_dimension(dim) >= 0) sizes.dims[dim] = size;
  if (name == "bigbird") sizes.dims["b"] = 2, sizes.dims["i"] = 12;
  return sizes;
}

// One element of one dimension becomes zero.
std::function<Tensor(const std::string&, const Tensor&)> without(int axis, Index element) {
  return [=](const std::string&, const Tensor& x) {
    const Tensor all = Tensor::ones({x.size(axis)}, x.dtype());
    const Tensor one = reshape(
        one_hot(Tensor::of<int64_t>({1}, {element}), x.size(axis), x.dtype()), {x.size(axis)});
    Shape wide(x.rank(), 1);
    wide[axis] = x.size(axis);
    return x * broadcast(reshape(all - one, wide), x.shape());
  };
}

// Two layers of a text.
NamedModel model_of(const std::string& text, Dtype dtype = Dtype::f32) {
  const auto program = filled(*find_text("language_model").program, {"Attention=mine"},
                              library_of({{"mine", "mine.tete", text}}));
  return {program, {{"v", 11}, {"max_n", 40}, {"d_X", 12}, {"l", 2}, {"f", 20}, {"h", 3}}, dtype};
}

const std::string& talking_heads() {
  static const std::string text = find_variant("talking_heads").program->source->text;
  return text;
}

std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), other);
}

constexpr Tiling in_blocks{.queries = 4, .samples = 1};

}  // namespace

TEST_SUITE("trace") {
  TEST_CASE(
      "every variant: looking at everything changes no bit, nor does giving everything back") {
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      Layer layer(variant.name, sizes_of(variant.name), Dtype::f32);
      for (const Case& c : cases(*layer.program, Dtype::f32)) {
        CAPTURE(std::string(c.name));
        CAPTURE(c.tiling.allowed);
        const Forward plain{.params = layer.values, .tiling = c.tiling};
        const Tensor Y = call(layer, c, plain);
        Tensor again;
        const auto run = [&](const Forward& forward) { again = call(layer, c, forward); };
        const auto seen = trace(plain, {"**"}, run);
        CHECK(same_bits(Y, again));
        CHECK(same_bits(seen.at("at/" + layer.program->values.back().name), Y));
        // Values that were seen are put back, each and all at once; so are copies that lie
        // elsewhere.
        std::vector<Hook> all;
        for (const auto& named : seen) {
          const Tensor x = named.second;
          all.push_back({named.first, [x](const std::string&, const Tensor&) { return x; }});
          run_with_hooks(plain, {all.back()}, run);
          CAPTURE(named.first);
          CHECK(same_bits(Y, again));
        }
        run_with_hooks(plain, all, run);
        CHECK(same_bits(Y, again));
        run_with_hooks(plain, {{"**", [](const std::string&, const Tensor& x) { return x; }}}, run);
        CHECK(same_bits(Y, again));
      }
    }
  }

  TEST_CASE("without a head by a hook is without it in the text: the same loss, to the bit") {
    const NamedModel model = model_of(talking_heads());
    const NamedModel cut =
        model_of(with(talking_heads(), "O[n, d_v, h_v] = einsum(U[n, m, h_v], V[m, d_v, h_v])",
                      "O[n, d_v, h_v] = einsum(U[n, m, h_v], V[m, d_v, h_v]) * (index(h_v) != 1)"));
    const Tensors& values = model.values;
    const Tensor x = tokens(2, 40), y = tokens(2, 40, 2);
    for (const Tiling& tiling : {Tiling{.allowed = false}, Tiling{}, in_blocks}) {
      const Forward forward{.params = values, .tiling = tiling};
      Tensor loss;
      run_with_hooks(forward, {{"decoder/*/A/O", without(3, 1)}},
                     [&](const Forward& f) { loss = model.model.loss(f, {.X = x}, y).sum; });
      CHECK(same_bits(loss, cut.model.loss(forward, {.X = x}, y).sum));
      CHECK(!same_bits(loss, model.model.loss(forward, {.X = x}, y).sum));
    }
  }

  TEST_CASE("a layer whose activations are another run's gives that run's output") {
    const NamedModel named = model_of(talking_heads());
    const Model& model = named.model;
    const Tensors& values = named.values;
    const Tensor here = tokens(2, 40), there = tokens(2, 40, 2);
    for (const Tiling& tiling : {Tiling{.allowed = false}, Tiling{}, in_blocks}) {
      const Forward forward{.params = values, .tiling = tiling};
      Tensor logits;
      const auto run = [&](const Tensor& x) {
        return [&, x](const Forward& f) { logits = model.logits(f, {.X = x}); };
      };
      const auto other = trace(forward, {"decoder/1/**"}, run(there));
      const Tensor expected = logits;
      CHECK(other.contains("decoder/1/A/W"));
      CHECK(other.contains("decoder/1/F.H"));
      std::vector<Hook> patches;
      for (const auto& named : other) {
        const Tensor value = named.second;
        patches.push_back(
            {named.first, [value](const std::string&, const Tensor&) { return value; }});
      }
      run_with_hooks(forward, patches, run(here));
      CHECK(same_bits(logits, expected));
      CHECK(!same_bits(model.logits(forward, {.X = here}), expected));
    }
  }

  TEST_CASE("a changed value is what a text with that change gives, its gradients too") {
    struct Change {
      const char *name, *part, *other;
    };
    for (const Change& change :
         {Change{"Q", "Q[n, d_k, h_k] = einsum(X[n, d_X], P_q[d_X, d_k, h_k])",
                 "Q[n, d_k, h_k] = 0.5 * einsum(X[n, d_X], P_q[d_X, d_k, h_k])"},
          Change{"J", "J[n, m, h_k]   = einsum(Q[n, d_k, h_k], K[m, d_k, h_k])",
                 "J[n, m, h_k]   = 0.5 * einsum(Q[n, d_k, h_k], K[m, d_k, h_k])"},
          Change{"W", "W[n, m, h]     = softmax(L[n, m, h], reduced_dim=m)",
                 "W[n, m, h]     = 0.5 * softmax(L[n, m, h], reduced_dim=m)"},
          Change{"O", "O[n, d_v, h_v] = einsum(U[n, m, h_v], V[m, d_v, h_v])",
                 "O[n, d_v, h_v] = 0.5 * einsum(U[n, m, h_v], V[m, d_v, h_v])"}}) {
      CAPTURE(std::string(change.name));
      const AttentionSizes sizes{.d_model = 12, .heads = 3};
      ParamList list;
      const auto text = [&](const std::string& of) { return load_attention(Program::parse(of)); };
      const Attention plain({list, ""}, text(talking_heads()), sizes);
      ParamList again;
      const Attention changed({again, ""}, text(with(talking_heads(), change.part, change.other)),
                              sizes);
      Tensors xs;
      for (const ParamSpec& spec : list.specs())
        xs.push_back(noise(spec.shape, 100 + xs.size()).variable());
      const Tensors params = xs;
      const Tensor X = noise({2, 11, 12}, 1).variable(), M = noise({2, 7, 12}, 2).variable();
      xs.push_back(X), xs.push_back(M);
      for (const Tiling& tiling : {Tiling{.allowed = false}, in_blocks}) {
        for (const bool causal : {false, true}) {
          const Mask mask{.causal = causal};
          const Forward forward{.params = params, .tiling = tiling};
          const Tensor Y = changed(forward, "", X, M, mask);
          Tensor Z;
          run_with_hooks(
              forward, {{change.name, [](const std::string&, const Tensor& x) { return x * 0.5; }}},
              [&](const Forward& f) { Z = plain(f, "", X, M, mask); });
          CHECK(difference(Y, Z) < 1e-12);
          const Tensors a = grad(sum(square(Y)), xs), b = grad(sum(square(Z)), xs);
          for (size_t i = 0; i < xs.size(); ++i) CHECK(difference(a[i], b[i]) < 1e-9);
        }
      }
    }
  }

  TEST_CASE("the gradient of what a hook was given, and of what it gives, can be asked for") {
    Layer layer("talking_heads", sizes_for("talking_heads"));
    const Tensor X = noise({2, 11, 12}, 1).variable();
    for (const char* name : {"V", "L", "W", "U", "O"}) {
      CAPTURE(name);
      Tensor gradients[2][2];
      for (const int k : {0, 1}) {
        const Forward forward{.params = layer.values,
                              .tiling = k == 0 ? Tiling{.allowed = false} : in_blocks};
        Tensor given, made, Y;
        const Hook hook{name, [&](const std::string&, const Tensor& x) {
                          given = x;
                          return made = x * 1.0;
                        }};
        run_with_hooks(forward, {hook}, [&](const Forward& f) {
          Y = layer.attention(f, "", X, X, {.causal = true});
        });
        const Tensors found = grad(sum(square(Y)), Tensors{given, made});
        CHECK(same_bits(found[0], found[1]));
        gradients[k][0] = found[0];
        gradients[k][1] = grad(sum(square(Y)), Tensors{X})[0];
      }
      CHECK(difference(gradients[0][0], gradients[1][0]) < 1e-10);
      CHECK(difference(gradients[0][1], gradients[1][1]) < 1e-10);
    }
  }

  TEST_CASE("what a hook lets a query see counts, though a causal mask hides it from the block") {
    Layer layer("multi_head", sizes_for("multi_head"));
    const Tensor X = noise({1, 11, 12}, 1);
    Tensor Y[2];
    for (const int k : {0, 1})
      run_with_hooks(
          {.params = layer.values, .tiling = k == 0 ? Tiling{.allowed = false} : in_blocks},
          {{"W", [](const std::string&,
                    const Tensor& W) { return Tensor::full(W.shape(), 0.25, W.dtype()); }}},
          [&](const Forward& f) { Y[k] = layer.attention(f, "", X, X, {.causal = true}); });
    CHECK(difference(Y[0], Y[1]) < 1e-12);
  }

  TEST_CASE("of a tiled call only what is asked for is written out") {
    Layer layer("talking_heads", {.d_model = 12, .heads = 3, .dims = {{"h_k", 3}, {"h_v", 3}}},
                Dtype::f32);
    const Tensor X = noise({1, 512, 12}, 1, Dtype::f32);
    const Forward forward{.params = layer.values, .tiling = {.queries = 16}};
    const auto peak = [&](const std::vector<std::string>& patterns) {
      reset_peak_memory();
      const size_t start = memory_use().live;
      const auto seen = trace(forward, patterns, [&](const Forward& f) {
        layer.attention(f, "", X, X, {.causal = true});
      });
      return static_cast<double>(memory_use().peak - start);
    };
    const double wide = 512.0 * 512 * 3 * 4;  // bytes of one of J, L, W, U
    const int before = threads();
    set_threads(1);  // how many blocks are there at once would be chance
    const double nothing = peak({}), Q = peak({"Q"}), W = peak({"W"});
    CHECK(nothing < wide);
    CHECK(Q < nothing + 0.1 * wide);
    CHECK(W > wide);
    CHECK(peak({"*"}) > W + 2.5 * wide);
    set_threads(before);
  }

  TEST_CASE("a block offers each of its values, to be replaced as well") {
    const NamedModel named = model_of(talking_heads(), Dtype::f64);
    const Model& model = named.model;
    const Tensors& values = named.values;
    const Tensor x = tokens(2, 5), Y = model.logits({values}, {.X = x});
    Tensor logits;
    const auto run = [&](const Forward& f) { logits = model.logits(f, {.X = x}); };
    const auto seen = trace({values}, {"**"}, run);
    CHECK(same_bits(logits, Y));
    for (const char* name :
         {"T", "A.Y", "N.Y", "Y.Y", "decoder/0/N.Y", "decoder/0/A/W", "decoder/0/A", "decoder/0/B",
          "decoder/0/C.Y", "decoder/0/F.U", "decoder/0/F.H", "decoder/0/Y"}) {
      CAPTURE(name);
      CHECK(seen.contains(name));
    }
    for (const auto& named : seen) {
      CAPTURE(named.first);
      const Tensor value = named.second;
      const auto back = [value](const std::string&, const Tensor&) { return value; };
      run_with_hooks({values}, {{named.first, back}}, run);
      CHECK(same_bits(logits, Y));
      const auto other = [](const std::string&, const Tensor& v) { return v * 1.5 + 0.25; };
      run_with_hooks({values}, {{named.first, other}}, run);
      CHECK(!same_bits(logits, Y));
    }
  }

  TEST_CASE("while decoding, hooks are given the new positions") {
    const NamedModel named = model_of(talking_heads(), Dtype::f64);
    const Model& model = named.model;
    const Tensors& values = named.values;
    const Tensor x = tokens(2, 6);
    const std::vector<Hook> hooks{{"decoder/*/A/U", without(3, 1)}, {"**/V", without(3, 0)}};
    Tensor whole;
    run_with_hooks({values}, hooks, [&](const Forward& f) { whole = model.logits(f, {.X = x}); });
    Decoding past;
    for (Index n = 0; n < 6; ++n) {
      Tensor next;
      const auto seen = trace(
          {values}, {"decoder/1/A/W"},
          [&](const Forward& f) { next = model.next_logits(f, {.X = slice(x, 1, n, 1)}, past); },
          hooks);
      CHECK(difference(next, reshape(slice(whole, 1, n, 1), {2, 11})) < 1e-12);
      CHECK(seen.at("decoder/1/A/W").shape() == Shape{2, 1, n + 1, 3});
    }
  }

  TEST_CASE("while decoding, what one pass would skip is shown, and no bit changes") {
    const std::string text = find_variant("multi_head").program->source->text;
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const NamedModel named = model_of(text, dtype);
      const Tensors& values = named.values;
      const Tensor x = tokens(2, 40), prompt = slice(x, 1, 0, 23), rest = slice(x, 1, 23, 17);
      Decoding past, other;
      for (const bool first : {true, false}) {
        const Tensor& part = first ? prompt : rest;
        Tensor looked_at;
        const auto seen = trace({values}, {"decoder/1/A/W"}, [&](const Forward& f) {
          looked_at = named.model.next_logits(f, {.X = part}, past);
        });
        REQUIRE(seen.contains("decoder/1/A/W"));
        const Index n = part.size(1), m = first ? n : 40;
        CHECK(element_count(seen.at("decoder/1/A/W").shape()) == 2 * n * m * 3);
        CHECK(same_bits(looked_at, named.model.next_logits({values}, {.X = part}, other)));
      }
    }
  }

  TEST_CASE("a parameter has a path, too: another one by a hook is another one in the list") {
    const NamedModel named = model_of(talking_heads());
    const Model& model = named.model;
    const Tensors& values = named.values;
    const Tensor x = tokens(2, 9);
    for (const char* name : {"P_l", "P_q", "P_v", "P_o"})
      for (const Tiling& tiling : {Tiling{.allowed = false}, Tiling{}, in_blocks}) {
        CAPTURE(std::string(name));
        const std::string path = std::string("decoder/1/A/") + name;
        const auto at = static_cast<size_t>(model.params().find(path));
        const auto run = [&](const Tensors& params, const std::vector<Hook>& hooks) {
          Tensor logits;
          run_with_hooks({.params = params, .tiling = tiling}, hooks,
                         [&](const Forward& f) { logits = model.logits(f, {.X = x}); });
          return logits;
        };
        Tensors other = values;
        other[at] = values[at] * -2.0;
        const auto turn = [](const std::string&, const Tensor& P) { return P * -2.0; };
        CHECK(same_bits(run(values, {{path, turn}}), run(other, {})));
        CHECK(!same_bits(run(values, {}), run(other, {})));
        const auto seen = trace({.params = values, .tiling = tiling}, {"**/A/P_*"},
                                [&](const Forward& f) { model.logits(f, {.X = x}); });
        CHECK(same_bits(seen.at(path), values[at]));
        CHECK(seen.size() == 2 * 6);
      }
  }

  TEST_CASE("* stands for letters of one part, ** for parts") {
    struct Row {
      const char *pattern, *path;
      bool fits;
    };
    for (const Row& row : {Row{"decoder/*/self/W", "decoder/3/self/W", true},
                           {"decoder/*/W", "decoder/3/self/W", false},
                           {"decoder/**/W", "decoder/3/self/W", true},
                           {"decoder/**/3/W", "decoder/3/W", true},
                           {"**/W", "W", true},
                           {"**", "decoder/3/self/W", true},
                           {"*", "W", true},
                           {"*", "a/W", false},
                           {"**/self/*", "decoder/0/self/Y.L", true},
                           {"**W", "decoder/0/self/W", true},
                           {"x/**", "x/a", true},
                           {"x/**", "xy/a", false},
                           {"", "", true},
                           {"*a*b*", "xaxbx", true},
                           {"*a*b*", "xbxax", false},
                           {"blocks.*.attn.hook_pattern", "blocks.0.attn.hook_pattern", true},
                           {"blocks.*.hook_pattern", "blocks.0.attn.hook_pattern", false},
                           {"**.hook_pattern", "blocks.0.attn.hook_pattern", true}}) {
      CAPTURE(std::string(row.pattern));
      CAPTURE(std::string(row.path));
      CHECK(fits(row.pattern, row.path) == row.fits);
    }
  }

  TEST_CASE("what is nowhere, and what does not fit, is told in a sentence") {
    const NamedModel named = model_of(talking_heads());
    const Model& model = named.model;
    const Tensors& values = named.values;
    const Tensor x = tokens(1, 3);
    const auto run = [&](const Forward& f) { model.logits(f, {.X = x}); };
    CHECK(error_of([&] { trace({values}, {"decoder/0/A/w"}, run); }) ==
          "nothing in this model is at 'decoder/0/A/w'; did you mean 'decoder/0/A/W'?");
    CHECK(error_of([&] {
            trace({values}, {"T", "decoder/*/Aa/W"}, run);
          }) == "nothing in this model is at 'decoder/*/Aa/W'; did you mean 'decoder/0/A/W'?");
    CHECK(error_of([&] { trace({values}, {"zzzzzzzzzzzzzzzz/*"}, run); }) ==
          "nothing in this model is at 'zzzzzzzzzzzzzzzz/*'; there are A, A.P, A.X, A.Y, B, "
          "D, E, N, N.X, N.Y, N.beta, N.gamma, T, Y, Y.E, Y.S, Y.X, Y.Y, decoder");
    CHECK(error_of([&] { trace({values}, {"decoder/0/zzzzzzzzzzzzzzzz/*"}, run); }) ==
          "nothing in this model is at 'decoder/0/zzzzzzzzzzzzzzzz/*'; under 'decoder/0/' "
          "there are A, B, C, C.X, C.Y, C.beta, C.gamma, F, F.D, F.H, F.H.X, F.H.Y, F.P_1, F.P_2, "
          "F.U, F.X, F.Y, N, N.X, N.Y, N.beta, N.gamma, Y");
    const auto hook = [&](const std::string& path, const Tensor& made) {
      return error_of([&] {
        run_with_hooks({values}, {{path, [&](const std::string&, const Tensor&) { return made; }}},
                       run);
      });
    };
    CHECK(hook("decoder/0/A/W", {}) == "the hook at 'decoder/0/A/W' returned no tensor");
    CHECK(hook("decoder/0/A/W", Tensor::ones({3})) ==
          "the hook at 'decoder/0/A/W' returned f32[3], expected f32[1, 3, 3, 3]");
    CHECK(hook("decoder/0/A/W", Tensor::ones({1, 3, 3, 3}, Dtype::f64)) ==
          "the hook at 'decoder/0/A/W' returned f64[1, 3, 3, 3], expected f32[1, 3, 3, 3]");
    CHECK(hook("decoder/0/A/Z", Tensor::ones({3})) ==
          "nothing in this model is at 'decoder/0/A/Z'; did you mean 'decoder/0/A/J'?");
  }
}
