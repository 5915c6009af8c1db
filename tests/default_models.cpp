// The texts of the models that are trained by default against the same models in C++
// (nn/transformer.hpp): a checkpoint of one goes on as the other with the same bits.
#include "attention/sites.hpp"
#include "core/graph.hpp"
#include "nn/model.hpp"
#include "tests/layer.hpp"
#include "tests/written.hpp"
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
  std::vector<Choice> all{{.config = small()}, gpt2_style(), gated(), gpt2_style(), gpt2_style()};
  all[1].attention = "talking_heads";
  all[2].attention = "grouped_query", all[2].with = "rotary", all[2].dims = {{"g", 1}};
  all[3].with = "t5_bias";
  // Adafactor factors what has two dimensions of at least 128.
  all[4].config.d_model = all[4].config.block.d_ff = 128, all[4].config.layers = 1;
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
};

Learned learn(const Learner& learner, Tensors values, const How& how, int steps = 20) {
  const auto optimizer =
      find_optimizer(how.optimizer).make(learner.params.specs(), Dtype::f32, cpu());
  Learned learned;
  for (int step = 0; step < steps; ++step) {
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

void check_same(const Learner& skeleton, const Learner& text, const Changes& names,
                const How& how) {
  CAPTURE(how.optimizer);
  CAPTURE(how.recompute);
  CAPTURE((how.products == Products::bf16));
  const Tensors values = skeleton.params.initial_values(Key(5));
  const Learned theirs = learn(skeleton, values, how);
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
}

void check_same(const Learner& skeleton, const Learner& text, const Changes& names) {
  for (const char* optimizer : {"adam", "adafactor"})
    check_same(skeleton, text, names, {.optimizer = optimizer});
  for (const Products products : {Products::full, Products::bf16})
    check_same(skeleton, text, names, {.products = products, .recompute = true});
  check_same(skeleton, text, names, {.products = Products::bf16});
}

}  // namespace

TEST_SUITE("default_models") {
  TEST_CASE("the text of the language model learns with the bits of the one in C++") {
    for (const Choice& c : choices()) {
      CAPTURE(c.attention);
      CAPTURE(c.with);
      const LanguageModel skeleton(c.config, attention_of(attention_of_layers(c, c.with), true));
      const Model text(text_of("language_model", c), sizes_of(c));
      const Tensor X = some_tokens({4, 12}, c.config.vocabulary, 1),
                   Y = some_tokens({4, 12}, c.config.vocabulary, 2);
      check_same({skeleton.params(), [&](const Forward& f) { return skeleton.loss(f, X, Y); }},
                 {text.params(), [&](const Forward& f) { return text.loss(f, {.X = X}, Y); }},
                 language_model_names);
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
      check_same(
          {skeleton.params(), [&](const Forward& f) { return skeleton.loss(f, M, lengths, Y); }},
          {text.params(), loss}, encoder_decoder_names());
    }
  }
}
