// Planted mistakes are found where they are, and explained or not, but never wrongly; what is right
// agrees in the precision that it was computed in.
#include "tests/planted.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

std::string told(const AgainstReport& report) {
  std::string all;
  for (const TensorReport& t : report.tensors)
    if (t.verdict != TensorReport::Verdict::agrees)
      all += text(t.name, t.cause.empty() ? " differs " : " follows from " + t.cause + " ",
                  t.difference, " of ", t.tolerance, " at ", t.entry, " ", t.guess.sentence,
                  t.shape, "\n");
  return all;
}

}  // namespace

TEST_CASE("planted mistakes: the place, and an explanation that is right or none") {
  int planted = 0, found = 0, placed = 0, right = 0, wrong = 0, silent = 0;
  for (const Planted& p : mistakes()) {
    const SizesByName sizes = sizes_of(p);
    CAPTURE(p.place);
    CAPTURE(p.from);
    const auto ours = program_of(p, false), theirs = program_of(p, true);
    const Index n = sizes.at("n"), m = sizes.at("m");
    const TensorsByName arguments = arguments_of(ours, sizes);
    TensorsByName changed = arguments;
    if (p.arguments) p.arguments(changed);
    const Mask mask = mask_named(p.mask, n, m);
    const char* their_mask = p.their_mask ? p.their_mask : p.mask;
    TensorsByName all =
        computed(theirs, changed,
                 {.sizes = known(*theirs, sizes), .mask = mask_named(their_mask, n, m)}, p.edit);
    std::erase_if(all, [&](const auto& named) {
      return !p.only.empty() && std::count(p.only.begin(), p.only.end(), named.first) == 0;
    });
    for (const auto& [name, x] : arguments) all[name] = x;
    const AgainstReport report =
        check_against(ours, all, {.sizes = known(*ours, sizes), .mask = mask});
    ++planted;
    const std::string what =
        text(p.variant, p.with.empty() ? "" : " with " + p.with[0], ": ", p.from, " -> ", p.to, " ",
             their_mask, ", expected ", p.place, " ", p.guess);
    CAPTURE(what);
    INFO(told(report));
    CHECK(!report.agrees());
    if (report.agrees()) continue;
    const TensorReport& first = report.tensors[report.first];
    const std::string& guess = first.guess.sentence;
    ++found, placed += first.name == p.place;
    const bool is_right = p.guess[0] ? guess.find(p.guess) != std::string::npos : guess.empty();
    guess.empty() ? ++silent : is_right ? ++right : ++wrong;
    CHECK(first.name == p.place);
    CHECK(is_right);
    // A factor behind the softmax is none of √d_k.
    if (first.name == "Y" && guess.starts_with("it is"))
      CHECK(guess.find("√") == std::string::npos);
    const auto differ = std::count_if(
        report.tensors.begin(), report.tensors.end(),
        [](const TensorReport& t) { return t.verdict == TensorReport::Verdict::differs; });
    // Two statements that are wrong and not explained are told one by one.
    const bool twice = guess.empty() && (!p.with.empty() || p.from == std::string("h=(g s)"));
    CHECK(differ <= (twice ? 2 : 1));
  }
  MESSAGE(planted, " planted, ", found, " found, ", placed, " at the right place; ", right,
          " guesses right, ", wrong, " wrong, ", silent, " none");
}

TEST_CASE("what every variant computes agrees with it, in each precision") {
  int files = 0;
  for (const Variant& variant : variants())
    for (const char* mask : {"none", "causal"})
      for (const int bits : {24, 11, 8}) {
        const Planted p{variant.name.c_str(), {}, "", "", "", ""};
        SizesByName sizes = sizes_of(p);
        for (const char* room : {"max_n", "max_m"}) sizes[room] = 8;
        const auto program = program_of(p, false);
        CAPTURE(variant.name);
        const std::string mask_name = mask;
        CAPTURE(mask_name);
        CAPTURE(bits);
        const AgainstOptions options{.sizes = known(*program, sizes),
                                     .mask = mask_named(mask, 5, 5)};
        try {
          const TensorsByName all =
              computed(program, arguments_of(program, sizes),
                       {.sizes = options.sizes, .mask = options.mask}, nullptr, bits);
          const AgainstReport report = check_against(program, all, options);
          INFO(told(report));
          CHECK(report.agrees());
          ++files;
        } catch (const Error& error) {
          const std::string sentence = error.what();
          INFO(sentence);
          CHECK(std::string(mask) == "causal");  // not every variant is causal
        }
      }
  MESSAGE(files, " right files");
  CHECK(files > 200);
}

// Statement by statement: products of operands that are rounded to so many bits first, summed in
// f64 and kept as f32.
static TensorsByName multiplied_in(const std::shared_ptr<const Checked>& program,
                                   const TensorsByName& arguments, int bits) {
  TensorsByName all = arguments;
  for (int i = 0; i < static_cast<int>(program->values.size()); ++i) {
    if (program->is_argument(i)) continue;
    TensorsByName operands = arguments;
    const bool multiplies = calls(program->values[i].right, "einsum");
    if (multiplies)
      for (auto& [name, x] : operands) x = rounded(x, bits);
    Evaluation run(program, operands, {});
    for (int k = 0; k < i; ++k)
      if (!program->is_argument(k))
        run.set(k, rounded(all.at(program->name_of(k)), multiplies ? bits : 24));
    all[program->name_of(i)] = run.value(i);
  }
  return all;
}

TEST_CASE("the precision of a file is what all of it shows, never what one tensor needs") {
  const Planted p{"multi_head_scaled", {}, "", "", "", ""};
  const auto program = program_of(p, false);
  const SizesByName sizes = sizes_of(p);
  const TensorsByName arguments = arguments_of(program, sizes);
  const TensorsByName exact = computed(program, arguments, {.sizes = known(*program, sizes)});
  const auto off = [&](const char* name) {
    TensorsByName all = exact;
    all[name] = all[name] * 1.001;
    return all;
  };
  SUBCASE("a thousandth is a mistake, whichever tensor it is of") {
    for (const char* name : {"Q", "K", "L", "W", "Y"}) {
      CAPTURE(name);
      const AgainstReport report = check_against(program, off(name));
      REQUIRE(!report.agrees());
      const TensorReport& first = report.tensors[report.first];
      CHECK(first.name == name);
      CHECK(first.guess.sentence == "it is the text's times 1.001");
    }
  }
  SUBCASE("also if another tensor is in half precision") {
    TensorsByName all = off("Q");
    all["V"] = rounded(all["V"], 8);
    const AgainstReport report = check_against(program, all);
    REQUIRE(!report.agrees());
    CHECK(report.tensors[report.first].name == "Q");
    for (const TensorReport& t : report.tensors)
      CHECK((t.name == "V" || t.name == "O" || t.tolerance < 1e-3));
  }
  SUBCASE("products in TF32 or half precision, all of them, are rounding") {
    for (const auto& [bits, name] : {std::pair{11, "TF32"}, {8, "bfloat16"}}) {
      const AgainstReport report = check_against(program, multiplied_in(program, arguments, bits));
      INFO(told(report));
      CHECK(report.agrees());
      CHECK(std::string(report.precision).find(name) != std::string::npos);
    }
  }
}

TEST_CASE("products in half precision excuse products alone") {
  const Planted p{"multi_head_scaled", {}, "", "", "", ""};
  const auto program = program_of(p, false);
  TensorsByName arguments = arguments_of(program, sizes_of(p));
  SUBCASE("what multiplies nothing is right to float32") {
    TensorsByName all = multiplied_in(program, arguments, 8);
    all["W"] = all["W"] * 1.1;
    const AgainstReport report = check_against(program, all);
    REQUIRE(!report.agrees());
    CHECK(report.tensors[report.first].name == "W");
  }
  SUBCASE("a factor is no rounding") {
    TensorsByName all = arguments;
    const TensorsByName exact =
        computed(program, arguments, {.sizes = known(*program, sizes_of(p))});
    for (const char* name : {"Q", "K", "V"}) all[name] = exact.at(name) * 1.01;
    CHECK_FALSE(check_against(program, all).agrees());
  }
  SUBCASE("it is seen where some products are exact, or nothing") {
    for (auto& [name, x] : arguments) x = rounded(x, 8);
    arguments["P_o"] = Tensor::zeros(arguments["P_o"].shape());
    for (const int bits : {11, 8}) {
      const AgainstReport report = check_against(program, multiplied_in(program, arguments, bits));
      INFO(told(report));
      // Rounded to 8 bits, what is in these products is exact in 11: nothing shows the precision.
      CHECK(report.agrees());
    }
  }
}

TEST_CASE("agreement from the inputs acquits nobody where rounding explains anything") {
  const Planted p{"multi_head_scaled", {}, "", "", "", ""};
  const auto program = program_of(p, false);
  const RunOptions options{.sizes = known(*program, sizes_of(p))};
  int tried = 0;
  for (const double larger : {1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0}) {  // softmax saturates
    CAPTURE(larger);
    TensorsByName leaves = arguments_of(program, sizes_of(p));
    for (const char* name : {"X", "M"}) leaves[name] = leaves[name] * larger;
    TensorsByName all = computed(program, leaves, options);
    for (auto& [name, x] : leaves) x = x.variable();
    Evaluation run(program, leaves, options);
    const Tensor Y = run.value(program->result);
    const Tensors asked = {run.value(numbered(*program, "Q")), run.value(numbered(*program, "L")),
                           leaves.at("P_q")};
    const Tensors found = grad(Y, asked, {.cotangent = all.at("Y")});
    all["grad:Y"] = all.at("Y");
    all["grad:Q"] = found[0], all["grad:L"] = found[1], all["grad:P_q"] = found[2];
    if (sum(tete::square(found[2])).item() == 0) continue;
    CHECK(check_against(program, all).agrees());
    all["grad:P_q"] = -all["grad:P_q"];
    const AgainstReport report = check_against(program, all);
    REQUIRE(!report.agrees());
    CHECK(report.tensors[report.first].name == "grad:P_q");
    ++tried;
  }
  CHECK(tried >= 4);
}

TEST_CASE("numbers that are not finite are a difference, and never an agreement") {
  const Planted p{"multi_head", {}, "", "", "", ""};
  const auto program = program_of(p, false);
  const SizesByName sizes = sizes_of(p);
  const TensorsByName exact =
      computed(program, arguments_of(program, sizes), {.sizes = known(*program, sizes)});
  for (const double number : {static_cast<double>(NAN), static_cast<double>(INFINITY)})
    for (const char* name : {"Q", "L", "W", "Y"}) {
      TensorsByName all = exact;
      all[name] = with_entry(all[name], 3, number);
      const AgainstReport report = check_against(program, all);
      REQUIRE(!report.agrees());
      const TensorReport& first = report.tensors[report.first];
      CHECK(first.name == name);
      CHECK(!first.finite);
      CHECK(std::isinf(first.difference));
      CHECK(first.guess.sentence.empty());
    }
  TensorsByName nothing = exact;
  for (auto& [name, x] : nothing) x = x * NAN;
  CHECK_THROWS_AS(check_against(program, nothing), Error);
}

TEST_CASE("what follows from a mistake that is explained is no second one") {
  // J is not given, so the mistake shows in L; grad:J is, and grad:Q and grad:K come from it.
  const Planted p{"talking_heads", {}, "K[m, d_k, h_k])", "K[m, d_k, h_k]) / sqrt(d_k)", "", ""};
  const auto ours = program_of(p, false), theirs = program_of(p, true);
  TensorsByName arguments = arguments_of(ours, sizes_of(p)), tracked = arguments;
  for (auto& [name, x] : tracked) x = x.variable();
  for (const bool twice : {false, true}) {
    Evaluation run(theirs, tracked, {});
    Tensors xs;
    std::vector<std::string> names = {"Q", "K", "V", "L", "W", "U", "O", "P_l", "P_q", "J"};
    for (const std::string& name : names) xs.push_back(run.value(numbered(*theirs, name.c_str())));
    const Tensor Y = run.value(theirs->result), g = random_normal(Y.shape(), Key(5));
    const Tensors gradients = grad(sum(Y * g), xs);
    TensorsByName all = arguments;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] != "J") all.try_emplace(names[i], xs[i].detach());
      all["grad:" + names[i]] = gradients[i];
    }
    all["Y"] = Y.detach(), all["grad:Y"] = g;
    if (twice) all["grad:V"] = all["grad:V"] * 2;
    const AgainstReport report = check_against(ours, all);
    INFO(told(report));
    std::string differ;
    for (const TensorReport& t : report.tensors)
      if (t.verdict == TensorReport::Verdict::differs) differ += t.name + " ";
    CHECK(differ == (twice ? "L grad:V " : "L "));
  }
}

// ---- What is right, and no evidence of a mistake ------------------------------------------------

namespace {

// The gradients of a layer's W and L, as a library computes them in f32: W (gW - Σ W gW).
TensorsByName with_gradients_of_softmax(const std::shared_ptr<const Checked>& program,
                                        TensorsByName arguments) {
  TensorsByName all = computed(program, arguments, {});
  for (auto& [name, x] : arguments) x = x.variable();
  Evaluation run(program, arguments, {});
  const Tensor W = run.value(numbered(*program, "W")), Y = run.value(program->result);
  all["grad:Y"] = random_normal(Y.shape(), Key(5));
  all["grad:W"] = grad(sum(Y * all["grad:Y"]), Tensors{W})[0];
  const std::vector<double> w = W.values(), g = all["grad:W"].values();
  std::vector<double> made(w.size());
  const auto rows = static_cast<size_t>(W.size(0) * W.size(1)), M = static_cast<size_t>(W.size(2)),
             H = static_cast<size_t>(W.size(3));
  for (size_t row = 0; row < rows; ++row)
    for (size_t h = 0; h < H; ++h) {
      const auto at = [&](size_t m) { return (row * M + m) * H + h; };
      float total = 0;
      for (size_t m = 0; m < M; ++m)
        total += static_cast<float>(w[at(m)]) * static_cast<float>(g[at(m)]);
      for (size_t m = 0; m < M; ++m)
        made[at(m)] = static_cast<float>(w[at(m)]) * (static_cast<float>(g[at(m)]) - total);
    }
  all["grad:L"] = cast(Tensor::of<double>(W.shape(), std::span<const double>(made)), Dtype::f32);
  return all;
}

std::shared_ptr<const Checked> checked(const std::string& text) {
  return std::make_shared<const Checked>(check(Program::parse(text, "chain.tete")));
}

}  // namespace

TEST_CASE("the gradient of a softmax of which one weight is nearly 1 is off by rounding") {
  const Planted p{"multi_head", {}, "", "", "", ""};
  const auto program = program_of(p, false);
  for (const double scale : {1.0, 3.0, 10.0, 30.0}) {
    CAPTURE(scale);
    TensorsByName arguments = arguments_of(program, sizes_of(p));
    for (const char* name : {"X", "M"}) arguments[name] = arguments[name] * scale;
    TensorsByName all = with_gradients_of_softmax(program, arguments);
    const AgainstReport report = check_against(program, all);
    INFO(told(report));
    CHECK(report.agrees());
    all["grad:L"] = all["grad:L"] + all["grad:W"] * 1e-4;
    CHECK(!check_against(program, all).agrees());
  }
}

TEST_CASE("numbers that are too small for a device are no evidence") {
  const auto program = checked(
      "def Small(X[n, d], P[d] = normal(1)):\n"
      "  Y[n, d] = X[n, d] * P[d]\n"
      "  return Y[n, d]\n");
  const Tensor X = random_normal({2, 5, 7}, Key(1)) * 1e-20;
  const Tensor P = random_normal({7}, Key(2)) * 1e-19;
  CHECK(check_against(program, {{"X", X}, {"P", P}, {"Y", Tensor::zeros({2, 5, 7})}}).agrees());
  CHECK(!check_against(program, {{"X", X}, {"P", P * 1e9}, {"Y", Tensor::zeros({2, 5, 7})}})
             .agrees());
}

TEST_CASE("weights that are all 1/7 do not show a precision; the file and the inputs do") {
  const Planted p{"multi_head", {}, "", "", "", "", {{"m", 7}}};
  const auto program = program_of(p, false);
  TensorsByName arguments = arguments_of(program, sizes_of(p));
  for (const char* name : {"X", "M"}) arguments[name] = arguments[name] * 0;
  for (const int bits : {11, 8}) {
    const TensorsByName all =
        computed(program, arguments, {.sizes = known(*program, sizes_of(p))}, nullptr, bits);
    AgainstOptions options;
    CHECK(check_against(program, all, options).agrees());
    for (const auto& [name, x] : all) options.stored_bits[name] = bits;
    CHECK(check_against(program, all, options).agrees());
  }
}

TEST_CASE("what is in the file is not asked for, nor anything twice") {
  const Planted p{"multi_head", {"rotary"}, "", "", "", ""};
  const auto program = program_of(p, false);
  TensorsByName all = computed(program, arguments_of(program, sizes_of(p)),
                               {.sizes = known(*program, sizes_of(p))});
  all["L"] = all["L"] * 1.5 + 0.3;
  const TensorsByName given = all;
  const AgainstReport whole = check_against(program, given);
  REQUIRE(!whole.agrees());
  CHECK(whole.tensors[whole.first].unseen.empty());
  for (const char* left_out : {"Q", "K"}) {
    TensorsByName fewer = given;
    std::erase_if(fewer, [&](const auto& named) {
      return named.first == left_out || named.first.ends_with(".Y");
    });
    for (const TensorReport& t : check_against(program, fewer).tensors) {
      std::vector<std::string> names;
      for (int i : t.unseen) names.push_back(program->name_of(i));
      for (const std::string& name : names) {
        CHECK(std::count(names.begin(), names.end(), name) == 1);
        CHECK(fewer.count(name) == 0);
      }
    }
  }
}

TEST_CASE("axes of equal size are not put in order, however many there are") {
  const std::string dims = "[n, a, b, c, d, e, f, g, i, j, k, l]";
  const auto program = checked("def Twice(X" + dims + "):\n  Y" + dims + " = X" + dims +
                               " * 2\n  return Y" + dims + "\n");
  Shape shape(12, 1), turned(12, 1);
  shape[10] = turned[11] = 3, shape[11] = turned[10] = 2;
  const Tensor X = random_normal(shape, Key(1));
  const AgainstReport report = check_against(program, {{"X", X}, {"Y", Tensor::zeros(turned)}});
  REQUIRE(!report.agrees());
  CHECK(report.tensors[0].shape.find("looks like") == std::string::npos);
}

TEST_CASE("a mistake in a long text of which nothing is given is not guessed at for ever") {
  std::string text = "def Long(X[n, d]):\n  Y0[n, d] = tanh(X[n, d])\n";
  for (int i = 1; i < 150; ++i)
    text += "  Y" + std::to_string(i) + "[n, d] = tanh(Y" + std::to_string(i - 1) +
            "[n, d] * 1.01 + X[n, d])\n";
  const auto program = checked(text + "  return Y149[n, d]\n");
  const Tensor X = random_normal({2, 3, 4}, Key(1));
  const AgainstReport report =
      check_against(program, {{"X", X}, {"Y149", random_normal({2, 3, 4}, Key(2))}});
  REQUIRE(report.first == 0);
  CHECK(report.tensors[0].guess.gave_up);
  CHECK(report.tensors[0].guess.sentence.empty());
}
