// What `tete inspect` attributes to parts of the residual stream is what they add to a logit.
#include "tools/inspect/attribution.hpp"

#include <algorithm>

#include "tests/inspect.hpp"
#include "tools/inspect/model_end.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

InspectOptions asking(const std::string& folder, const std::string& text) {
  InspectOptions options;
  options.checkpoints = {folder};
  options.text = text, options.ablation = false;
  options.save = folder + ".safetensors";
  return options;
}

std::vector<std::string> names_of(const Attribution& a) {
  std::vector<std::string> names;
  for (const Contribution& each : a.rows)
    names.push_back(each.path + (each.head < 0 ? "" : text(" ", each.head)));
  return names;
}

double logit_in(const std::string& saved, const std::string& path, Index position, int64_t token) {
  const Tensor Y = Safetensors(saved).read(path);
  return Y.values()[static_cast<size_t>(position * Y.size(2) + token)];
}

// Row `at` of x[1, n, d], or of the head of x[1, n, d, h].
std::vector<double> row(const Tensor& x, Index at, Index head = 0) {
  const Index d = x.size(2), h = x.rank() == 4 ? x.size(3) : 1;
  const std::vector<double> all = x.values();
  std::vector<double> made;
  for (Index i = 0; i < d; ++i) made.push_back(all[static_cast<size_t>((at * d + i) * h + head)]);
  return made;
}

}  // namespace

TEST_SUITE("logit attribution") {
  TEST_CASE("of every kind of stream the parts' sum is the logit") {
    struct Row {
      std::string model, text, logits;
      std::vector<std::string> parts;  // of the first layer, and what is around the layers
    };
    for (const Row& r :
         {Row{"language_model",
              "abcab",
              "Y",
              {"T", "A.P", "decoder/0/A 0", "decoder/0/A 1", "decoder/0/A 2", "decoder/0/F"}},
          Row{"gpt2",
              "abcab",
              "Y",
              {"T", "A.P", "Z/0/A 0", "Z/0/A 1", "Z/0/A 2", "Z/0/A", "Z/0/F"}},
          Row{"llama", "abcab", "Y", {"T", "Z/0/A 0", "Z/0/A 1", "Z/0/A 2", "Z/0/F"}},
          Row{"neox", "abcab", "Y", {"T", "Z/0/A 0", "Z/0/A 1", "Z/0/A 2", "Z/0/A", "Z/0/F"}},
          Row{"t5",
              "abcab",
              "Y",
              {"T", "decoder/0/A 0", "decoder/0/A 1", "decoder/0/A 2", "decoder/0/D 0",
               "decoder/0/D 1", "decoder/0/D 2", "decoder/0/F"}}}) {
      CAPTURE(r.model);
      const TemporaryFolder folder;
      write_run(folder / "run", settings_of_text(r.model));
      InspectOptions options = asking(folder / "run", r.text);
      if (r.model == "t5") options.answer = "cab";
      const Attribution a = inspect(options).runs[0].frames[0].attribution;
      CHECK(a.refused == "");
      std::vector<std::string> names = names_of(a);
      CHECK(names.back() == "bias");
      REQUIRE(names.size() > r.parts.size());
      names.resize(r.parts.size());
      CHECK(names == r.parts);
      double sum = 0, largest = 0;
      for (const Contribution& each : a.rows) {
        sum += each.logit.mean;
        largest = std::max(largest, std::abs(each.logit.mean));
      }
      CHECK(std::abs(sum - a.logit.mean) < 1e-9);
      CHECK(std::abs(sum - logit_in(options.save, r.logits, a.position, a.token)) < 1e-4 * largest);
    }
  }

  TEST_CASE("a head's part is its result, normed as the sum is, times the token's output vector") {
    const TemporaryFolder folder;
    write_run(folder / "run", settings_of_text("gpt2"));
    const InspectOptions options = asking(folder / "run", "abcab");
    const Attribution a = inspect(options).runs[0].frames[0].attribution;
    const Safetensors saved(options.save);
    const Trained trained = read_trained(folder / "run");
    const auto parameter = [&](const std::string& name) {
      return trained.params[trained.declared().find(name)].values();
    };
    const std::vector<double> z = row(saved.read("Z/1/Y"), a.position);
    const auto d = z.size();
    double mean = 0, variance = 0;
    for (double x : z) mean += x / static_cast<double>(d);
    for (double x : z) variance += (x - mean) * (x - mean) / static_cast<double>(d);
    const std::vector<double> gain = parameter("N.gamma"), bias = parameter("N.beta"),
                              E = parameter("E");
    const double* u = E.data() + static_cast<size_t>(a.token) * d;
    const auto adds = [&](const std::vector<double>& x) {
      double own = 0, sum = 0;
      for (double each : x) own += each / static_cast<double>(d);
      for (size_t i = 0; i < d; ++i)
        sum += (x[i] - own) / std::sqrt(variance + 1e-5) * gain[i] * u[i];
      return sum;
    };
    int heads = 0;
    for (const Contribution& each : a.rows) {
      if (each.path == "Z/1/F")
        CHECK(close(each.logit.mean, adds(row(saved.read("Z/1/F"), a.position))));
      if (each.path != "Z/1/A" || each.head < 0) continue;
      ++heads;
      CHECK(close(each.logit.mean, adds(row(saved.read("Z/1/A/Y/heads"), a.position, each.head))));
    }
    CHECK(heads == 3);
    double constant = 0;
    for (size_t i = 0; i < d; ++i) constant += bias[i] * u[i];
    CHECK(close(a.rows.back().logit.mean, constant));
  }

  TEST_CASE("what a head raises most has the most of what it adds to any logit") {
    for (const std::string model : {"language_model", "gpt2"}) {
      CAPTURE(model);
      const TemporaryFolder folder;
      write_run(folder / "run", settings_of_text(model));
      InspectOptions options = asking(folder / "run", "abcab");
      constexpr Index position = 2;
      options.asked.position = position;
      const std::vector<Site> sites = inspect(options).runs[0].frames[0].sites;
      std::map<std::pair<std::string, Index>, std::vector<double>> added;  // by token
      for (const char letter : letters) {
        options.asked.token = std::string(1, letter);
        const Attribution asked = inspect(options).runs[0].frames[0].attribution;
        for (const Contribution& each : asked.rows)
          added[{each.path, each.head}].push_back(each.logit.mean);
      }
      for (const Site& site : sites) {
        REQUIRE(site.raised.shape() == Shape{3, 5, 2});
        const std::vector<int64_t> tokens = site.raised.values<int64_t>();
        const std::vector<double> by = site.raised_by.values();
        for (Index head = 0; head < 3; ++head) {
          std::vector<double> all = added.at({site.path, head});
          const size_t at = static_cast<size_t>((head * 5 + position) * 2);
          for (size_t k : {at, at + 1}) CHECK(close(by[k], all[static_cast<size_t>(tokens[k])]));
          std::sort(all.begin(), all.end());
          CHECK(close(by[at], all.back()));
          CHECK(close(by[at + 1], all[all.size() - 2]));
        }
      }
    }
  }

  TEST_CASE("over several texts: the mean of each") {
    const TemporaryFolder folder;
    write_run(folder / "run", settings_of("talking_heads"));
    InspectOptions options = asking(folder / "run", "");
    options.texts = folder.file("texts.txt", "abc\nbcab");
    const Attribution both = inspect(options).runs[0].frames[0].attribution;
    options.texts = "";
    std::vector<Attribution> each;
    for (const char* text : {"abc", "bcab"}) {
      options.text = text;
      each.push_back(inspect(options).runs[0].frames[0].attribution);
    }
    CHECK(both.texts == 2);
    REQUIRE(names_of(both) == names_of(each[0]));
    for (size_t i = 0; i < both.rows.size(); ++i) {
      const double a = each[0].rows[i].logit.mean, b = each[1].rows[i].logit.mean;
      CHECK(close(both.rows[i].logit.mean, (a + b) / 2));
      CHECK(close(both.rows[i].logit.deviation, std::abs(a - b) / std::sqrt(2.0)));
    }
  }

  TEST_CASE("the layers' factors are kept, and what is no sum is told") {
    const TemporaryFolder folder;
    write_run(folder / "rezero",
              settings_of_text("language_model", {{"Block=rezero"}, {"Attention=multi_head"}}));
    InspectOptions options = asking(folder / "rezero", "abcab");
    const Attribution a = inspect(options).runs[0].frames[0].attribution;
    CHECK(a.refused == "");
    CHECK(names_of(a)[2] == "decoder/0/A");
    double sum = 0;
    for (const Contribution& each : a.rows) sum += each.logit.mean;
    CHECK(std::abs(sum - logit_in(options.save, "Y", a.position, a.token)) < 1e-3);

    write_run(folder / "bert", settings_of_text("bert"), Tokenizer::characters(letters), 0, 1);
    CHECK(inspect(asking(folder / "bert", "ab_d"))
              .runs[0]
              .frames[0]
              .attribution.refused.starts_with("Z/0/Y is no sum of X and what the block adds"));
    write_run(folder / "softmaxes",
              settings_of_text("language_model", {{"Output=mixture_of_softmaxes"}}));
    CHECK(inspect(asking(folder / "softmaxes", "abcd"))
              .runs[0]
              .frames[0]
              .attribution.refused.starts_with("Behind its last block this model does more"));
  }
}
