// The table of Narang et al. 2021: each row is a text, other fillers of its slots, and sizes
// (tests/data/narang.csv); parameters and operations follow from them as printed.
#include <fstream>
#include <iterator>
#include <sstream>

#include "attention/gradcheck.hpp"
#include "core/graph.hpp"
#include "nn/cost.hpp"
#include "nn/model.hpp"
#include "tests/layer.hpp"
#include "tools/model_cost.hpp"
#include "tools/uses.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

struct Row {
  std::string name;
  double parameters, operations;  // printed, in millions and in 10^12
  std::string text, use, dim;
};

// Fields with commas stand in quotation marks.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields{""};
  bool quoted = false;
  for (char c : line)
    if (c == '"') quoted = !quoted;
    else if (c == ',' && !quoted) fields.emplace_back();
    else fields.back() += c;
  return fields;
}

std::vector<Row> printed_rows() {
  std::ifstream file(std::string(DATA) + "/narang.csv");
  std::vector<Row> rows;
  std::string line;
  std::getline(file, line);
  REQUIRE(line == "row,parameters,operations,text,use,dim");
  while (std::getline(file, line)) {
    const std::vector<std::string> f = fields_of(line);
    REQUIRE(f.size() == 6);
    rows.push_back({f[0], std::stod(f[1]), std::stod(f[2]), f[3], f[4], f[5]});
  }
  return rows;
}

// The text with other fillers of its slots: "Norm=norm_rms Cross=multi_head".
std::shared_ptr<const Checked> filled(const std::string& name, const std::string& uses) {
  std::istringstream words(uses);
  return load_text(name, {}, {std::istream_iterator<std::string>(words), {}});
}

SizesByName sizes_of(const std::string& dims) {
  SizesByName sizes;
  std::istringstream each(dims);
  for (std::string one; each >> one;) {
    const size_t equals = one.find('=');
    sizes[one.substr(0, equals)] = std::stoll(one.substr(equals + 1));
  }
  return sizes;
}

constexpr Index batch = 128, sources = 512, targets = 114, width = 768, layers = 12;

Cost mesh_cost(const std::shared_ptr<const Checked>& program, const SizesByName& given) {
  SizeTable sizes = paper_sizes(program, given);
  return cost_of(*program, sizes, {.counting = Counting::mesh});
}

// The paper's code finds places for groups of at most 1,024 tokens, two sources or eight targets: a
// token's product with all places is as many times as long as with those of its own sequence. Each
// of 32 experts has so many places for a sequence, in three layers of a stack.
Index of_groups(Index source_places, Index target_places) {
  const Index both_ways = 2 * 3 * batch * 32 * width;
  return both_ways * (sources * source_places * (2 - 1) + targets * target_places * (8 - 1));
}

// The operations that the code of the paper makes beside those of the text, or spares.
Index others(const std::string& row) {
  // It trains on a quarter of the rarer tokens' logits.
  if (row == "Adaptive softmax without projection")
    return -batch * targets * width * (32128 - 2500) * 3 / 4;
  // It makes all 512 columns of logits and keeps as many as there are positions.
  if (row.starts_with("Synthesizer (dense"))
    return batch * targets * (512 - targets) * 8 * 128 * layers;
  if (row == "Mixture of experts") return of_groups(2 * 16, 2 * 2);
  if (row == "Switch Transformer") return of_groups(19, 4);
  return 0;
}

void check_printed(const Row& row, Index parameters, Index operations) {
  CAPTURE(row.name);
  CAPTURE(parameters);
  CAPTURE(operations);
  CHECK(std::abs(static_cast<double>(parameters) / 1e6 - row.parameters) < 1.3);
  const double ratio = static_cast<double>(operations) / 1e12 / row.operations;
  // Printed is less than the look-ups alone come to, 2.4: a misprint, it seems, of 7.8.
  if (row.name == "Funnel Transformer") CHECK(std::abs(ratio * 1.9 / 7.8 - 1) < 0.01);
  else CHECK(std::abs(ratio - 1) < 0.01);
}

// A text at small sizes, with random tokens and parameters.
struct SmallRun {
  std::shared_ptr<const Checked> program;
  RunOptions options;
  TensorsByName tensors;

  SmallRun(const std::string& name, std::string use) {
    if (const size_t number = use.find('['); number != std::string::npos)
      use.replace(number, use.find(']') - number, "[0");
    program = filled(name, use);
    options.sizes = text_sizes_to_check(program, {}, /*order=*/2);
    if (use == "Encoder=funnel")  // two places are left of the source
      options.sizes["m"] = options.sizes["p"] = 9;
    SizeTable sizes(program, options.sizes);
    for (const ParameterSpec& made : parameter_specs(*program, sizes))
      tensors[made.spec.name] = noise(made.spec.shape, tensors.size() + 1) * 0.7 +
                                (made.spec.dims == std::vector<std::string>{"h"} ? 3.0 : 0.0);
    for (size_t i = 0; i < program->inputs.size(); ++i) {
      const Index length = sizes.size(program->values[program->inputs[i]].dims[0]);
      std::vector<int64_t> tokens;
      for (Index t = 0; t < length; ++t) tokens.push_back((3 * t + 1) % 7);
      tensors[program->input_names[i]] =
          Tensor::of<int64_t>({1, length}, std::span<const int64_t>(tokens));
    }
  }
  Tensor operator()() const { return run(program, tensors, options); }
  // The result after one token of an input is another.
  Tensor with_token(const std::string& input, Index at) const {
    SmallRun other = *this;
    std::vector<int64_t> tokens = tensors.at(input).values<int64_t>();
    tokens[static_cast<size_t>(at)] = (tokens[static_cast<size_t>(at)] + 1) % 7;
    other.tensors[input] =
        Tensor::of<int64_t>({1, std::ssize(tokens)}, std::span<const int64_t>(tokens));
    return other();
  }
};

// The slope of a random sum of the result, along a random direction of all parameters together.
void check_slope(const SmallRun& small) {
  std::vector<std::string> names;
  Tensors values, directions;
  for (const auto& [name, tensor] : small.tensors) {
    if (!is_real(tensor.dtype())) continue;
    names.push_back(name), values.push_back(tensor.variable());
    directions.push_back(noise(tensor.shape(), 1000 + names.size()));
  }
  const Tensor cotangent = noise(small().shape(), 999);
  const auto at = [&](const Tensors& parameters) {
    SmallRun moved = small;
    for (size_t i = 0; i < names.size(); ++i) moved.tensors[names[i]] = parameters[i];
    return sum(moved() * cotangent);
  };
  const Tensors slopes = grad(at(values), values);
  double analytic = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(difference(slopes[i], slopes[i] * 0) > 0);
    analytic += sum(slopes[i] * directions[i]).item();
  }
  const auto moved_by = [&](double step) {
    Tensors moved;
    for (size_t i = 0; i < values.size(); ++i)
      moved.push_back(values[i].detach() + directions[i] * step);
    return at(moved).item();
  };
  const double step = 1e-6, numeric = (moved_by(step) - moved_by(-step)) / (2 * step);
  CHECK(std::abs(analytic - numeric) < 1e-5 * std::max(1.0, std::abs(numeric)));
}

}  // namespace

TEST_SUITE("narang") {
  TEST_CASE("each row of the table costs what is printed, as texts") {
    const std::vector<Row> rows = printed_rows();
    CHECK(rows.size() == 52);
    for (const Row& row : rows) {
      const Cost cost = mesh_cost(filled(row.text, row.use), sizes_of(row.dim));
      check_printed(row, cost.parameters, cost.of_batch(batch) + others(row.name));
    }
  }

  TEST_CASE("a deep model of single heads has the parameters that a shallow one has, and norms") {
    // Liu, Liu, Han 2020, table 1: 12 layers of 12 heads, and 144 of one. Their count has no head
    // of masked tokens, and a matrix on the first token.
    const auto bert = filled("bert", "");
    const SizesByName deep{{"v", 30522}, {"l", 144},  {"h", 1},
                           {"f", 256},   {"d_k", 64}, {"d_v", 64}};
    const Index head = 768 * 768 + 768 + 2 * 768 + 30522, pooler = 768 * 768 + 768;
    CHECK(mesh_cost(bert, {{"v", 30522}}).parameters - head + pooler == 109482240);
    CHECK(mesh_cost(bert, deep).parameters - head + pooler == 110090496);
  }

  TEST_CASE("in each row of the table no position sees a later one, nor the source's padding") {
    for (const Row& row : printed_rows()) {
      CAPTURE(row.name);
      SmallRun small(row.text, row.use);
      CHECK(small.program->leak == "");
      const Index m = small.tensors.at("M").size(1), n = small.tensors.at("X").size(1);
      const Tensor lengths = Tensor::of<int64_t>({1}, {m - 1});
      small.options.mask.lengths = lengths;
      const Tensor Y = small();
      CHECK(difference(small.with_token("M", m - 1), Y) < 1e-12);
      CHECK(difference(small.with_token("M", 0), Y) > 1e-9);
      const Tensor later = small.with_token("X", n - 1);
      CHECK(difference(slice(later, 1, 0, n - 1), slice(Y, 1, 0, n - 1)) < 1e-12);
      CHECK(difference(later, Y) > 1e-9);
    }
  }

  TEST_CASE("in each row of the table the gradient of all parameters is that of differences") {
    for (const Row& row : printed_rows()) {
      CAPTURE(row.name);
      check_slope(SmallRun(row.text, row.use));
    }
  }

  TEST_CASE("each row of the table reads each token once, as a run of all of them") {
    for (const Row& row : printed_rows()) {
      CAPTURE(row.name);
      const SmallRun small(row.text, row.use);
      SizesByName sizes = small.options.sizes;
      for (const char* length : {"n", "m"}) sizes.erase(length);
      if (small.program->has_losses()) sizes["decoder.Z.F.c"] = 9;  // all rows find places
      const Model model(small.program, sizes);
      Tensors values;
      for (const ParamSpec& spec : model.params().specs())
        values.push_back(small.tensors.at(spec.name));
      const Tensor X = small.tensors.at("X"), M = small.tensors.at("M");
      const Index n = X.size(1);
      Decoding decoding;
      const auto read = [&](Index at, Index count) {
        return model.next_logits({.params = values}, {.X = slice(X, 1, at, count), .M = M},
                                 decoding);
      };
      for (Index at = 0, count; at < n; at += count) {
        count = at == 0 ? 2 : 1;
        const Tensor next = read(at, count);
        const Tensor all =
            model.last_logits({.params = values}, {.X = slice(X, 1, 0, at + count), .M = M});
        CHECK(difference(next, all) < 1e-12);
      }
    }
  }

  TEST_CASE("with other fillers a model reads each token once, as a run of all of them") {
    for (const std::string use :
         {"Block=rezero", "Block=rezero Norm=norm_none", "Block=admin", "Norm=norm_rms_subsampled",
          "Block=fixup Attention=attention_fixup FeedForward=ff_fixup Norm=norm_none",
          "Attention=random_plus", "Block=attention_only Attention=branched", "Activation=selu",
          "FeedForward=ff_gated Activation=sigmoid", "FeedForward[1]=product_keys"}) {
      CAPTURE(use);
      SizesByName sizes{{"v", 7}, {"l", 2}, {"h", 2}, {"d_X", 8}};
      const auto program = filled("gpt2", use);
      if (use.ends_with("product_keys")) sizes.insert({{"g", 2}, {"s", 5}, {"c", 3}, {"k", 3}});
      const Model model(program, sizes);
      const Tensors values = model.params().initial_values(Key(3), Dtype::f64);
      const Tensor X = Tensor::of<int64_t>({1, 7}, {1, 4, 0, 2, 2, 3, 6});
      Decoding decoding;
      for (Index at = 0, count; at < 7; at += count) {
        count = at == 0 ? 3 : at == 4 ? 2 : 1;
        const Tensor next =
            model.next_logits({.params = values}, {.X = slice(X, 1, at, count)}, decoding);
        const Tensor all = model.last_logits({.params = values}, {.X = slice(X, 1, 0, at + count)});
        CHECK(difference(next, all) < 1e-12);
      }
    }
  }
}
