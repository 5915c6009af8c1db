// The texts of the models that are trained by default against the same models in C++
// (nn/transformer.hpp): a checkpoint of one goes on as the other with the same bits.
#include <algorithm>
#include <map>
#include <set>

#include "attention/sites.hpp"
#include "core/graph.hpp"
#include "tests/layer.hpp"
#include "tests/written.hpp"
#include "tools/model.hpp"
#include "train/optimizer.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

std::string changed(std::string text, const Changes& changes) {
  for (const auto& [from, to] : changes) text = replaced(text, from, to);
  return text;
}

// One choice of what fills the slots, in C++ and in the text.
struct Choice {
  std::string attention = "multi_head", with = "none";
  LanguageModelConfig config = {};
  Changes fillers = {};
  SizesByName dims = {};
};

LanguageModelConfig small(LanguageModelConfig config = {}) {
  config.vocabulary = 11, config.context = 12, config.d_model = 32, config.layers = 2;
  config.block.d_ff = 48;
  return config;
}

Choice gpt2_style() {
  Choice c{.config = small()};
  c.config.block.feed_forward = {"gelu_erf", true};
  c.config.scale_logits = false;
  c.fillers = {{"= ff\n", "= ff_biases\n"},
               {"= relu\n", "= gelu_erf\n"},
               {"= output_tied\n", "= output_tied_unscaled\n"}};
  return c;
}

Choice gated() {
  Choice c{.config = small()};
  c.config.block.feed_forward = {"swiglu", true};
  c.config.block.norm = "rms", c.config.tied = false, c.config.positions = "none";
  c.fillers = {{"= ff\n", "= ff_gated_biases\n"},
               {"= relu\n", "= silu\n"},
               {"= norm_layer_t2t\n", "= norm_rms\n"},
               {"= output_tied\n", "= output_own\n"},
               {"= positions_learned\n", "= positions_none\n"}};
  return c;
}

std::vector<Choice> choices() {
  std::vector<Choice> all{{.config = small()}, gpt2_style(), gated(),
                          gpt2_style(),        gpt2_style(), {.config = small()}};
  all[1].attention = "talking_heads";
  all[2].attention = "grouped_query", all[2].with = "rotary", all[2].dims = {{"g", 1}};
  all[3].with = "t5_bias";
  // Adafactor factors what has two dimensions of at least 128.
  all[4].config.d_model = all[4].config.block.d_ff = 128, all[4].config.layers = 1;
  all[5].config.block.feed_forward.activation = "liglu";
  all[5].fillers = {{"= ff\n", "= ff_gated\n"}, {"= relu\n", "= identity\n"}};
  return all;
}

// The text's name of a parameter of the model in C++.
const Changes language_model_names = {
    {"embedding/table", "E"}, {"positions/table", "A.P"}, {"decoder/norm/", "N."},
    {"/self_norm/", "/N."},   {"/ff_norm/", "/C."},       {"/self/", "/A/"},
    {"/ff/in/W", "/F.P_1"},   {"/ff/in/b", "/F.b_1"},     {"/ff/gate/W", "/F.P_g"},
    {"/ff/gate/b", "/F.b_g"}, {"/ff/out/W", "/F.P_2"},    {"/ff/out/b", "/F.b_2"},
    {".scale", ".gamma"},     {".bias", ".beta"},         {"output/W", "Y.W"}};

Changes encoder_decoder_names() {
  Changes names = {{"encoder/positions/table", "P.P"},
                   {"decoder/positions/table", "Q.P"},
                   {"encoder/norm/", "R."},
                   {"/cross_norm/", "/C."},
                   {"/cross/", "/D/"}};
  for (const char* layer : {"0", "1"})
    names.emplace_back(text("decoder/", layer, "/ff_norm/"), text("decoder/", layer, "/G."));
  names.insert(names.end(), language_model_names.begin(), language_model_names.end());
  return names;
}

// A model as training sees it.
struct Learner {
  ParamList params;
  std::function<Loss(const Forward& forward)> loss;
};

struct Learned {
  std::vector<Tensor> losses;
  std::vector<Tensors> gradients;
  Tensors values;
};

struct How {
  const char* optimizer = "adam";
  Products products = Products::full;
  bool recompute = false;
  int steps = 20;
};

Learned learn(const Learner& learner, Tensors values, const How& how) {
  const auto optimizer =
      find_optimizer(how.optimizer).make(learner.params.specs(), Dtype::f32, cpu());
  Learned learned;
  for (int step = 0; step < how.steps; ++step) {
    Tensors variables;
    for (const Tensor& value : values) variables.push_back(value.variable());
    const Forward forward{.params = variables,
                          .training = true,
                          .products = how.products,
                          .recompute_blocks = how.recompute};
    const Tensor loss = learner.loss(forward).sum;
    const Tensors gradients = grad(loss, variables);
    learned.losses.push_back(loss.detach());
    learned.gradients.push_back(gradients);
    optimizer->update(learner.params.specs(), values, gradients, 1e-2, step);
  }
  learned.values = values;
  return learned;
}

Tensor some_tokens(const Shape& shape, Index below, uint64_t seed) {
  std::vector<int64_t> all;
  for (Index i = 0; i < element_count(shape); ++i)
    all.push_back(static_cast<int64_t>(
        uniform_below(Key(seed), static_cast<uint64_t>(i), static_cast<uint64_t>(below))));
  return Tensor::of<int64_t>(shape, std::span<const int64_t>(all));
}

std::shared_ptr<const Checked> text_of(const char* model, const Choice& c) {
  std::string text = changed(std::string(find_model(model).program->source->text), c.fillers);
  text = replaced(text, "= multi_head\n", "= " + c.attention + "\n");
  text = replaced(text, "use Absolute", "use Positions = " + c.with + "\nuse Absolute");
  return std::make_shared<const Checked>(check(Program::parse(text), {}, catalogue()));
}

SizesByName sizes_of(const Choice& c) {
  SizesByName sizes = c.dims;
  sizes["v"] = c.config.vocabulary, sizes["l"] = c.config.layers, sizes["h"] = 2;
  sizes["d_X"] = c.config.d_model, sizes["f"] = c.config.block.d_ff;
  if (c.config.positions == "learned") sizes["max_n"] = c.config.context;
  return sizes;
}

std::vector<ChosenAttention> attention_of_layers(const Choice& c, const std::string& with) {
  const auto amendments = with == "none" ? std::vector<std::string>() : std::vector{with};
  const ChosenAttention one{load_attention(c.attention, amendments),
                            {.d_model = c.config.d_model, .heads = 2, .dims = c.dims}};
  return std::vector<ChosenAttention>(static_cast<size_t>(c.config.layers), one);
}

// The text has every parameter of the model in C++, under the name that `names` gives it; values
// in the order of the text.
Tensors in_order_of(const ParamList& text, const ParamList& skeleton, const Tensors& values,
                    const Changes& names) {
  REQUIRE(text.size() == skeleton.size());
  Tensors mine(values.size());
  for (int i = 0; i < skeleton.size(); ++i) {
    const std::string name = changed(skeleton.specs()[i].name, names);
    CAPTURE(name);
    const int at = text.find(name);
    REQUIRE(at >= 0);
    CHECK(text.specs()[at].shape == skeleton.specs()[i].shape);
    mine[static_cast<size_t>(at)] = values[static_cast<size_t>(i)];
  }
  return mine;
}

Learned check_same(const Learner& skeleton, const Learner& text, const Changes& names,
                   const How& how) {
  CAPTURE(how.optimizer);
  CAPTURE(how.recompute);
  CAPTURE((how.products == Products::bf16));
  const Tensors values = skeleton.params.initial_values(Key(5));
  Learned theirs = learn(skeleton, values, how);
  const Learned ours = learn(text, in_order_of(text.params, skeleton.params, values, names), how);
  const auto order = [&](const Tensors& of_skeleton) {
    return in_order_of(text.params, skeleton.params, of_skeleton, names);
  };
  for (size_t step = 0; step < ours.losses.size(); ++step) {
    CAPTURE(step);
    REQUIRE(same_bits(ours.losses[step], theirs.losses[step]));
    const Tensors gradients = order(theirs.gradients[step]);
    for (int i = 0; i < text.params.size(); ++i) {
      CAPTURE(text.params.specs()[i].name);
      REQUIRE(same_bits(ours.gradients[step][i], gradients[i]));
    }
  }
  const Tensors last = order(theirs.values);
  for (int i = 0; i < text.params.size(); ++i) CHECK(same_bits(ours.values[i], last[i]));
  CHECK(!same_bits(theirs.losses.front(), theirs.losses.back()));
  return theirs;
}

void check_same(const Learner& skeleton, const Learner& text, const Changes& names) {
  const Learned full = check_same(skeleton, text, names, {}),
                rounded = check_same(skeleton, text, names,
                                     {.products = Products::bf16, .recompute = true});
  CHECK(!same_bits(full.losses.back(), rounded.losses.back()));
  check_same(skeleton, text, names, {.optimizer = "adafactor"});
  check_same(skeleton, text, names, {.recompute = true, .steps = 3});
  check_same(skeleton, text, names, {.products = Products::bf16, .steps = 3});
}

}  // namespace

// The operations of a forward run with their shapes, in no order; without those that only give
// another view or another place in the graph.
std::multiset<std::string> operations(const Learner& learner) {
  Tensors variables;
  for (const Tensor& value : learner.params.initial_values(Key(5)))
    variables.push_back(value.variable());
  const std::set<std::string> views = {"alias",   "broadcast", "expand",
                                       "permute", "reshape",   "slice"};
  std::multiset<std::string> all;
  const RecordWatch watch([&](const Tensor& made) {
    const std::string op = made.made_by()->op;
    if (!views.contains(op)) all.insert(text(op, " ", made.shape()));
    return made;
  });
  learner.loss({.params = variables, .training = true});
  return all;
}

TEST_SUITE("default_models") {
  TEST_CASE("the text of the language model learns with the bits of the one in C++") {
    for (const Choice& c : choices()) {
      CAPTURE(c.attention);
      CAPTURE(c.with);
      const LanguageModel skeleton(c.config, attention_of(attention_of_layers(c, c.with), true));
      const Model text(text_of("language_model", c), sizes_of(c));
      const Tensor X = some_tokens({4, 12}, c.config.vocabulary, 1),
                   Y = some_tokens({4, 12}, c.config.vocabulary, 2);
      const Learner theirs{skeleton.params(),
                           [&](const Forward&f) { return skeleton.loss(f, X, Y); }},
          ours{text.params(), [&](const Forward&f) { return text.loss(f, {.X = X}, Y); }};
      check_same(theirs, ours, language_model_names);
      CHECK(operations(ours) == operations(theirs));
    }
  }

  TEST_CASE("the text of the encoder and decoder learns with the bits of those in C++") {
    for (const Choice& c : choices()) {
      CAPTURE(c.attention);
      CAPTURE(c.with);
      const std::vector<ChosenAttention> self = attention_of_layers(c, c.with),
                                         cross = attention_of_layers(c, "none");
      const EncoderDecoder skeleton(c.config, attention_of(ChosenSites{self, self, cross}));
      const Model text(text_of("encoder_decoder", c), sizes_of(c));
      const Tensor M = some_tokens({3, 10}, c.config.vocabulary, 3),
                   lengths = Tensor::of<int64_t>({3}, {10, 4, 7}),
                   Y = some_tokens({3, 8}, c.config.vocabulary, 4);
      const auto loss = [&](const Forward& f) {
        return text.loss(f, {.X = shifted_right(Y), .M = M, .lengths = lengths}, Y);
      };
      const Learner theirs{skeleton.params(),
                           [&](const Forward&f) { return skeleton.loss(f, M, lengths, Y); }},
          ours{text.params(), loss};
      check_same(theirs, ours, encoder_decoder_names());
      // Those in C++ put zeros at padding, which nothing reads.
      const auto ops = operations(ours), all = operations(theirs);
      CHECK(std::includes(all.begin(), all.end(), ops.begin(), ops.end()));
    }
  }

  TEST_CASE("every activation has a filler with its bits") {
    const std::map<std::string, std::string> gates = {{"glu", "sigmoid"},
                                                      {"geglu", "gelu"},
                                                      {"reglu", "relu"},
                                                      {"swiglu", "silu"},
                                                      {"liglu", "identity"}};
    const Tensor X = noise({5, 7}, 1, Dtype::f32) * 3.0;
    for (const char* name :
         {"relu", "gelu", "gelu_erf", "silu", "sigmoid", "tanh", "softplus", "elu", "selu",
          "identity", "glu", "geglu", "reglu", "swiglu", "liglu"}) {
      CAPTURE(name);
      const auto gate = gates.find(name);
      const bool is_gate = gate != gates.end();
      CHECK(activation(name).gated == is_gate);
      CHECK(same_bits(run(load_program(is_gate ? gate->second : name), {{"X", X}}),
                      activation(name).apply(X)));
    }
  }

  TEST_CASE("sinusoidal positions as a filler are those in C++, rounded in another order") {
    for (const Dtype type : {Dtype::f32, Dtype::f64})
      for (const Index d : {2, 6, 64}) {
        const Tensor zeros = Tensor::zeros({50, d}, type);
        CHECK(difference(run(load_program("positions_sinusoidal"), {{"X", zeros}}),
                         sinusoidal_positions(50, d, type)) < (type == Dtype::f64 ? 1e-12 : 1e-5));
      }
  }

  TEST_CASE("the context is the room for positions, which a slot's filler has") {
    ModelSettings settings;
    settings.context = 24;
    read_model_text(settings, "language_model", {}, {});
    const Model model = make_text_model(settings, 11);
    const ParamList& params = model.params();
    CHECK(params[ParamId{params.find("A.P")}].shape == Shape{24, 128});
  }
}
