// `tete inspect` is held against plain recomputation from the tensors that it saves, and these
// against a run of the text alone.
#include "tools/inspect/inspect.hpp"

#include "nn/run.hpp"
#include "tests/inspect.hpp"
#include "tests/strict_device.hpp"
#include "tools/inspect/page.hpp"

using namespace tete;
using namespace tete::tests;

TEST_SUITE("inspect") {
  TEST_CASE(
      "what is saved is what the text makes of the same inputs; what is told follows from it") {
    const TemporaryFolder folder;
    const std::string checkpoint = write_run(folder / "run", settings_of("talking_heads"));
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abcabc abc";
    options.save = folder / "acts.safetensors";
    const Report report = inspect(options);
    REQUIRE(report.runs.size() == 1);
    REQUIRE(report.runs[0].frames.size() == 1);
    const Frame& frame = report.runs[0].frames[0];
    REQUIRE(frame.sites.size() == 2);
    const Safetensors saved(options.save);
    const Trained trained = read_trained(checkpoint);
    const auto parameter = [&](const std::string& name) {
      return trained.params[trained.declared().find(name)];
    };
    const Index n = 10;

    for (const std::string path : {"decoder/0/A", "decoder/1/A"}) {
      CAPTURE(path);
      const Site& site = site_at(report, path);
      TensorsByName inputs;
      const std::string block = path.substr(0, path.rfind('/'));
      inputs["X"] = inputs["M"] = saved.read(block + "/N");
      for (const char* name : {"P_q", "P_k", "P_v", "P_o", "P_l", "P_w"})
        inputs[name] = parameter(path + "/" + name);
      std::map<std::string, Tensor> made;
      RunOptions run_options;
      run_options.mask.causal = true;
      run_options.watch = [&](const std::string& name, const Tensor& x) { made[name] = x; };
      run(load_attention("talking_heads"), inputs, run_options);
      for (const char* name : {"Q", "K", "V", "J", "L", "W", "U", "O", "Y"})
        CHECK(same_bits(saved.read(path + "/" + name), made.at(name)));

      // Maps, head by head.
      for (const std::string name : {"J", "L", "W", "U"}) {
        const AttentionMap& map = map_of(site, name);
        CHECK(map.path == path + "/" + name);
        CHECK(same_bits(map.values,
                        reshape(rearrange("b n m h -> b h n m", saved.read(map.path)), {3, n, n})));
        CHECK(map.weights == (name == "W"));
      }
      const std::vector<double> W = map_of(site, "W").values.values();
      const std::vector<double> entropy = statistic(site, "entropy").values();
      const std::vector<double> previous = statistic(site, "previous token").values();
      for (Index h = 0; h < 3; ++h) {
        double sum = 0, before = 0;
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < n; ++j) {
            const double w = W[(h * n + i) * n + j];
            if (w > 0) sum -= w * std::log(w);
            if (j + 1 == i) before += w;
          }
        CHECK(close(entropy[h], sum / static_cast<double>(n - 1)));  // the first row is not counted
        CHECK(close(previous[h], before / static_cast<double>(n - 1)));
      }
      REQUIRE(site.histograms.size() == 2);  // of W and of U
      for (const Histogram& histogram : site.histograms) {
        const std::vector<double> counts = histogram.counts.values();
        for (size_t h = 0; h < 3; ++h) {
          double all = 0;
          for (size_t i = 0; i < counts.size() / 3; ++i) all += counts[h * counts.size() / 3 + i];
          // A causal mask leaves these of 10 × 10; of weights the first row's 1 is not counted.
          CHECK(all == (histogram.map == "W" ? 54 : 55));
        }
      }

      // Mixing.
      REQUIRE(site.mixing.size() == 3);
      CHECK(site.mixing[0].name == "P_l");
      CHECK(site.mixing[0].path == path + "/P_l");
      CHECK(same_bits(site.mixing[0].values, parameter(path + "/P_l")));
      CHECK(site.mixing[2].name == "P_l×P_w");
      CHECK(difference(site.mixing[2].values, einsum("a b, b c -> a c", parameter(path + "/P_l"),
                                                     parameter(path + "/P_w"))) == 0);
      CHECK(close(site.mixing[2].determinant,
                  site.mixing[0].determinant * site.mixing[1].determinant, 1e-5));

      // Without a head: its part of P_o is zero.
      Tensors values = trained.params;
      const auto at = static_cast<size_t>(trained.declared().find(path + "/P_o"));
      const Model& model = trained.model;
      const Tensor tokens = Tensor::of<int64_t>({1, n}, report.runs[0].sequences[0].tokens);
      std::vector<int64_t> next(report.runs[0].sequences[0].tokens.begin() + 1,
                                report.runs[0].sequences[0].tokens.end());
      next.push_back(-1);
      const Tensor targets = Tensor::of<int64_t>({1, n}, next);
      const auto loss = [&] { return model.loss({values}, {.X = tokens}, targets).sum.item() / 9; };
      const double whole = loss();
      CHECK(close(frame.predictions[0].loss, whole, 1e-6));
      const std::vector<double> ablation = site.ablation.values();
      REQUIRE(ablation.size() == 3);
      for (Index h = 0; h < 3; ++h) {
        const Tensor keep = one_hot(Tensor::of<int64_t>({1}, {h}), 3, Dtype::f32);
        values[at] = trained.params[at] *
                     (1.0 - broadcast(reshape(keep, {1, 1, 3}), trained.params[at].shape()));
        CHECK(std::abs(ablation[h] - (loss() - whole)) < 1e-5);
      }
    }

    // The predictions of the next token.
    const Predictions& p = frame.predictions[0];
    const Tensor chances = softmax(reshape(saved.read("Y"), {n, 28}), 1);
    CHECK(p.tokens.shape() == Shape{n, 5});
    CHECK(same_bits(p.tokens, top_k(chances, 1, 5)));
    const std::vector<double> all = chances.values(), told = p.probabilities.values();
    const std::vector<int64_t> likeliest = p.tokens.values<int64_t>();
    for (size_t i = 0; i < told.size(); ++i)
      CHECK(close(told[i], all[i / 5 * 28 + static_cast<size_t>(likeliest[i])], 1e-6));
    CHECK(std::isnan(p.next_probability.values().back()));
    // The lens at the end is the model itself.
    const LogitLens& lens = frame.lens[0];
    CHECK(lens.points == std::vector<std::string>{"B", "decoder/0/B", "decoder/0/Y", "decoder/1/B",
                                                  "decoder/1/Y"});
    CHECK(same_bits(slice(lens.tokens, 0, 4, 1), reshape(slice(p.tokens, 1, 0, 1), {1, n})));
    CHECK(difference(slice(lens.probabilities, 0, 4, 1),
                     reshape(slice(p.probabilities, 1, 0, 1), {1, n})) == 0);
    CHECK(difference(slice(lens.probabilities, 0, 0, 1), slice(lens.probabilities, 0, 4, 1)) >
          1e-4);

    // Its text, with its tensors.
    REQUIRE(report.runs[0].texts.size() == 1);
    bool found = false;
    for (const TextLine& line : report.runs[0].texts[0].lines)
      if (line.values == std::vector<std::string>{"J"}) {
        found = true;
        CHECK(line.formula == "n*m*d_k*h_k");
        CHECK(line.number == 10 * 10 * 4 * 3);
      }
    CHECK(found);
    CHECK(site_at(report, "decoder/0/A").values.front().name == "X");
  }

  TEST_CASE("only what globs ask for is saved, TransformerLens's names too") {
    const TemporaryFolder folder;
    write_run(folder / "run", settings_of("multi_head"));
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abc";
    options.save = folder / "acts.safetensors";
    options.paths = {"decoder/*/A/W", "blocks.1.attn.hook_pattern"};
    options.ablation = false;
    inspect(options);
    std::vector<std::string> names;
    const Safetensors saved(options.save);
    for (const auto& entry : saved.entries()) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    CHECK(names ==
          std::vector<std::string>{"blocks.1.attn.hook_pattern", "decoder/0/A/W", "decoder/1/A/W"});
    options.paths = {"decoder/*/A/w"};
    CHECK(error_of([&] { inspect(options); }) ==
          "nothing in this model is at 'decoder/*/A/w'; did you mean 'decoder/0/A/W'?");
  }

  TEST_CASE("on a device whose memory the host cannot touch the page is the same") {
    StrictDevice device;
    for (const char* name : {"talking_heads", "multi_head", "dynamic_projections"})
      for (const bool encoder : {false, true}) {
        CAPTURE(name);
        const TemporaryFolder folder;
        const ModelSettings s = settings_of(name, encoder);
        write_run(folder / "run", s);
        InspectOptions options;
        options.checkpoints = {folder / "run"};
        options.text = "abca";
        write_page(inspect(options), folder / "here.html");
        options.device = &device;
        write_page(inspect(options), folder / "there.html");
        CHECK(contents(folder / "there.html") == contents(folder / "here.html"));
        CHECK(device.reads > 0);
      }
  }

  TEST_CASE("checkpoints of a run in their order, and two runs") {
    const TemporaryFolder folder;
    for (int64_t step : {0, 10, 20})
      write_run(folder / "run", settings_of("talking_heads"), Tokenizer::characters(letters), step);
    write_run(folder / "other", settings_of("multi_head"));
    std::ofstream(folder / "run/metrics.jsonl")
        << R"({"step":1,"split":"train","loss":3.5,"lr":0.01,"grad_norm":2.0})"
        << "\n"
        << R"({"step":10,"split":"validation","loss":3.25})"
        << "\n"
        << R"({"step":10,"split":"train","loss":3.0,"lr":0.02,"grad_norm":1.0})"
        << "\n"
        << R"({"step":20,"spl)";
    InspectOptions options;
    options.checkpoints = {folder / "run", folder / "other"};
    options.all_steps = true;
    options.text = "abc abc";
    options.save = folder / "acts.safetensors";
    const Report report = inspect(options);
    REQUIRE(report.runs.size() == 2);
    REQUIRE(report.runs[0].frames.size() == 3);
    CHECK(report.runs[0].frames[0].step == 0);
    CHECK(report.runs[0].frames[2].step == 20);
    CHECK(report.runs[1].frames.size() == 1);
    CHECK(Safetensors(options.save).find("run-1/step-20/decoder/0/A/W"));
    CHECK(Safetensors(options.save).find("run-2/decoder/0/A/W"));
    const std::vector<Curve>& curves = report.runs[0].curves;
    REQUIRE(curves.size() == 4);
    CHECK(curves[0].name == "loss");
    CHECK(curves[0].steps == std::vector<double>{1, 10});
    CHECK(curves[0].values == std::vector<double>{3.5, 3});
    CHECK(curves[1].name == "validation loss");
    CHECK(curves[1].group == "loss");
    CHECK(report.runs[1].curves.empty());
  }

  TEST_CASE("any text: bytes of other scripts, markup, one token, as many as there is room for") {
    const TemporaryFolder folder;
    ModelSettings s = settings_of("talking_heads");
    s.context = 64;
    write_run(folder / "bytes", s, Tokenizer::bytes());
    InspectOptions options;
    options.checkpoints = {folder / "bytes"};
    for (const std::string text : {"</script><b>\"'&", "😀 שלום", "x", "\n"}) {
      options.text = text;
      const Report report = inspect(options);
      CHECK(report.text == text);
      std::string back;
      for (int64_t token : report.runs[0].sequences[0].tokens)
        back += report.runs[0].vocabulary[token];
      CHECK(back == text);
    }
    CHECK(std::isnan(inspect(options).runs[0].frames[0].predictions[0].loss));
    options.text = std::string(64, 'a');
    CHECK(inspect(options).runs[0].frames[0].sites[0].maps[0].values.shape() == Shape{3, 64, 64});
    options.text += "a";
    CHECK(error_of([&] { inspect(options); }) ==
          "--text has 65 tokens, but the model reads at most 64");
    options.text = "";
    CHECK(error_of([&] { inspect(options); }) == "--text is empty: there is nothing to look at");
    options.answer = "x", options.text = "x";
    CHECK(error_of([&] { inspect(options); }) ==
          "--answer is for models with an encoder; this one reads --text alone");

    write_run(folder / "letters", settings_of("talking_heads"));
    options = {};
    options.checkpoints = {folder / "letters"};
    options.text = "A";
    CHECK(error_of([&] { inspect(options); }).starts_with("--text: "));
    options.checkpoints = {folder / "nowhere"};
    CHECK(error_of([&] { inspect(options); }) != "no error");
  }
}
