// Oracles, recorded, against the texts of nn/models and nn/blocks: models of HuggingFace's
// transformers (tests/oracles/transformers.py), and loops from the papers
// (tests/oracles/narang.py).
#include <iterator>
#include <sstream>

#include "core/check/gradcheck.hpp"
#include "core/graph.hpp"
#include "nn/run.hpp"
#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tools/uses.hpp"
#include "train/safetensors.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// One recorded call: the text, its tensors by name, and what came out.
struct Recorded {
  Safetensors file;
  std::shared_ptr<const Checked> program;
  TensorsByName tensors, gradients;
  RunOptions options;

  explicit Recorded(const std::string& name)
      : file(std::string(DATA) + "/models/" + name + ".safetensors", Safetensors::Trust::anyone),
        program(load_text(file.metadata("text"), {}, uses_of(file))) {
    for (const auto& [path, tensor] : file.read_all()) {
      const size_t slash = path.find('/');
      const std::string kind = slash == std::string::npos ? "" : path.substr(0, slash);
      if (kind == "parameter") tensors[path.substr(slash + 1)] = tensor;
      else if (kind == "gradient") gradients[path.substr(slash + 1)] = tensor;
      else if (path == "lengths") options.mask.lengths = tensor;
      else if (path != "logits" && path != "cotangent") tensors[path] = tensor;
    }
    std::istringstream sizes(file.metadata("sizes"));
    for (std::string one; sizes >> one;) {
      const size_t equals = one.find('=');
      options.sizes[one.substr(0, equals)] = std::stoll(one.substr(equals + 1));
    }
  }
  // "Norm=norm_none Encoder=funnel"
  static std::vector<std::string> uses_of(const Safetensors& file) {
    const auto said = file.metadata().find("use");
    std::istringstream words(said == file.metadata().end() ? "" : said->second);
    return {std::istream_iterator<std::string>(words), {}};
  }
  Tensor logits() const { return run(program, tensors, options); }
  double tolerance() const { return file.read("logits").dtype() == Dtype::f64 ? 1e-10 : 1e-5; }
};

// The largest difference, relative to the largest element or 1: a gradient may be 0.
double relative(const Tensor& ours, const Tensor& theirs) {
  double largest = 1;
  for (double x : theirs.values()) largest = std::max(largest, std::abs(x));
  return difference(ours, theirs) / largest;
}

const char* const families[] = {"gpt2", "bert", "albert", "llama",
                                "neox", "t5",   "t5_1_1", "transformer"};
// Rows of the table of Narang et al. 2021, and Admin.
const char* const rows[] = {"universal",
                            "evolved",
                            "funnel",
                            "weighted",
                            "switch",
                            "moe",
                            "product_keys",
                            "lightweight_convolution",
                            "dynamic_convolution",
                            "mixture_of_softmaxes",
                            "adaptive_output",
                            "adaptive_input",
                            "adaptive_softmax",
                            "transparent",
                            "rezero",
                            "fixup",
                            "admin"};

}  // namespace

TEST_SUITE("oracles") {
  TEST_CASE("the texts of models give the logits of HuggingFace's") {
    for (const std::string name : families) {
      CAPTURE(name);
      const Recorded recorded(name);
      const double error = relative(recorded.logits(), recorded.file.read("logits"));
      CHECK(error < recorded.tolerance());
    }
  }

  TEST_CASE("what fills their slots gives the logits of loops over positions and heads") {
    for (const std::string name : rows) {
      CAPTURE(name);
      const Recorded recorded(name);
      CHECK(relative(recorded.logits(), recorded.file.read("logits")) < 1e-12);
    }
  }

  TEST_CASE("where no gradients are recorded, those of every parameter are those of differences") {
    for (const std::string name : families) {
      CAPTURE(name);
      Recorded recorded(name);
      if (!recorded.gradients.empty()) continue;
      Tensors values;
      GradCheckOptions options{.order = 1, .full = 0, .entries = 1, .explain = false};
      for (auto& [path, tensor] : recorded.tensors) {
        if (!is_real(tensor.dtype())) continue;
        values.push_back(cast(tensor, Dtype::f64));
        options.names.push_back(path);
      }
      const auto logits = [&](const Tensors& in) {
        for (size_t i = 0; i < in.size(); ++i) recorded.tensors[options.names[i]] = in[i];
        return recorded.logits();
      };
      const GradReport report = check_gradient(logits, values, options);
      CAPTURE(report);
      CHECK(report.passed());
    }
  }

  TEST_CASE("with the sizes in the texts, they have as many parameters as what was published") {
    struct Row {
      const char* name;
      Index vocabulary, parameters;
    };
    for (const Row& row : {
             Row{"gpt2", 50257, 124439808},       // GPT-2 small
             Row{"bert", 30522, 109514298},       // BERT-base, uncased
             Row{"albert", 30000, 11221680},      // ALBERT-base
             Row{"llama", 32000, 6738415616},     // 7B
             Row{"neox", 50432, 6857302016},      // Pythia 6.9B
             Row{"t5", 32128, 222903552},         // base
             Row{"t5_1_1", 32128, 247577856},     // base
             Row{"transformer", 58101, 73886208}  // opus-mt-en-de
         }) {
      CAPTURE(row.name);
      const auto program =
          std::make_shared<const Checked>(check(*find_text(row.name).program, {}, catalogue()));
      SizeTable sizes(program, {{"v", row.vocabulary}});
      std::map<std::string, Index> counts;  // one per stack counts once
      for (const ParameterSpec& made : parameter_specs(*program, sizes))
        counts[made.spec.name] = element_count(made.spec.shape);
      Index all = 0;
      for (const auto& [name, count] : counts) all += count;
      CHECK(all == row.parameters);
    }
  }

  TEST_CASE("and the gradients") {
    for (const std::string name : {"gpt2", "bert", "t5"}) {
      CAPTURE(name);
      Recorded recorded(name);
      std::vector<std::string> names;
      Tensors parameters;
      for (auto& [path, tensor] : recorded.tensors) {
        if (!recorded.gradients.contains(path)) continue;
        names.push_back(path);
        parameters.push_back(tensor = tensor.variable());
      }
      CHECK(names.size() == recorded.gradients.size());
      const Tensor loss = sum(recorded.logits() * recorded.file.read("cotangent"));
      const Tensors ours = grad(loss, parameters);
      for (size_t i = 0; i < names.size(); ++i) {
        CAPTURE(names[i]);
        const double error = relative(ours[i], recorded.gradients.at(names[i]));
        CHECK(error < recorded.tolerance());
      }
    }
  }
}
