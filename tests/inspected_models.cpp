// Every kind of model can be looked into: every variant, whole models, encoders.
#include "nn/run.hpp"
#include "tests/inspect.hpp"
#include "tools/inspect/places.hpp"

using namespace tete;
using namespace tete::tests;

TEST_SUITE("inspect") {
  TEST_CASE("every variant can be looked into, as a decoder and between an encoder and a decoder") {
    int decoders = 0, crossing = 0;
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const auto program = load_attention(variant.name);
      for (const bool encoder : {false, true}) {
        if (!encoder && !is_causal(*program)) continue;
        if (encoder && (!attends_across(*program) || !program->takes_mask)) continue;
        const ModelSettings s = settings_of(variant.name, encoder);
        (encoder ? crossing : decoders)++;
        const TemporaryFolder folder;
        write_run(folder / "run", s);
        InspectOptions options;
        options.checkpoints = {folder / "run"};
        for (const char* text : {"a", "abcabcabcabcabca"}) {
          options.text = text;
          const Report report = inspect(options);
          const Frame& frame = report.runs[0].frames[0];
          CHECK(frame.sites.size() == (encoder ? 6 : 2));
          for (const Site& site : frame.sites) {
            REQUIRE(!site.maps.empty());
            int weights = 0;
            for (const AttentionMap& map : site.maps) weights += map.weights;
            CHECK(weights == 1);
            CHECK(!site.heads.empty());
            CHECK(!site.histograms.empty());
            CHECK(bool(site.ablation) == !std::isnan(frame.predictions[0].loss));
          }
        }
      }
    }
    CHECK(decoders > 40);
    CHECK(crossing > 15);
  }

  TEST_CASE("a whole model's text: what is told follows from what its calls compute") {
    for (const std::string name : {"gpt2", "llama", "neox"}) {
      CAPTURE(name);
      const ModelSettings s = settings_of_text(name);
      const TemporaryFolder folder;
      const std::string checkpoint = write_run(folder / "run", s);
      InspectOptions options;
      options.checkpoints = {folder / "run"};
      options.text = "abcabc abc";
      const Report report = inspect(options);
      const Frame& frame = report.runs[0].frames[0];
      REQUIRE(frame.sites.size() == 2);
      const Trained trained = read_trained(checkpoint);
      const Model& model = trained.model;
      const Site& site = frame.sites[1];
      CHECK(site.path == "Z/1/A");
      CHECK(site.stack == "Z");
      CHECK(site.causal);
      CHECK(site.heads.size() == 5);
      CHECK(site.weights == "W");

      // The values of one call are what its own program makes of its inputs.
      options.layer = site.path, options.save = folder / "layer.safetensors";
      inspect(options);
      const Safetensors saved(options.save);
      TensorsByName inputs;
      const auto program = places_of(model)[1].program;
      for (const std::string& input : program->input_names) inputs[input] = saved.read(input);
      for (const CheckedParameter& p : program->parameters) inputs[p.name] = saved.read(p.name);
      RunOptions run_options;
      run_options.mask.causal = true;
      run_options.watch = [&](const std::string& value, const Tensor& x) {
        if (value == "W") CHECK(difference(x, saved.read("W")) < 1e-6);
      };
      CHECK(difference(run(program, inputs, run_options), saved.read("Y")) < 1e-5);

      // The lens at the end is the model itself.
      const LogitLens& lens = frame.lens[0];
      const Index last = std::ssize(lens.points) - 1, n = 10;
      CHECK(lens.points[0] == (name == "llama" ? "A" : "B"));
      CHECK(lens.points[last] == "Z/1/Y");
      CHECK(difference(slice(lens.probabilities, 0, last, 1),
                       reshape(slice(frame.predictions[0].probabilities, 1, 0, 1), {1, n})) < 1e-6);

      // Without a head: its part of P_o is zero.
      Tensors values = trained.params;
      const auto at = static_cast<size_t>(trained.declared().find(site.path + "/P_o"));
      const std::vector<int64_t>& read = report.runs[0].sequences[0].tokens;
      std::vector<int64_t> next(read.begin() + 1, read.end());
      next.push_back(-1);
      const Tensor keep = one_hot(Tensor::of<int64_t>({1}, {2}), 3, Dtype::f32);
      values[at] = values[at] * (1.0 - broadcast(reshape(keep, {1, 1, 3}), values[at].shape()));
      const double loss = model
                              .loss({values}, {.X = Tensor::of<int64_t>({1, n}, read)},
                                    Tensor::of<int64_t>({1, n}, next))
                              .sum.item() /
                          9;
      CHECK(close(site.ablation.values()[2], loss - frame.predictions[0].loss));
    }
  }

  TEST_CASE("texts with an encoder: its maps, the decoder's, and those between them") {
    const ModelSettings s = settings_of_text("t5");
    const TemporaryFolder folder;
    write_run(folder / "run", s);
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abcd", options.answer = "dcba";
    options.paths = {"encoder.0.attn.hook_pattern", "decoder.1.cross_attn.hook_pattern",
                     "decoder.1.hook_resid_mid_cross", "encoder_final_ln.hook_normalized"};
    options.save = folder / "acts.safetensors";
    const Report report = inspect(options);
    const RunReport& run = report.runs[0];
    REQUIRE(run.sequences.size() == 2);
    CHECK(run.sequences[1].tokens == std::vector<int64_t>{0, 5, 4, 3, 2});
    REQUIRE(run.frames[0].sites.size() == 6);
    const Site &own = site_at(report, "encoder/0/A"), &self = site_at(report, "decoder/1/A"),
               &cross = site_at(report, "decoder/1/D");
    CHECK((!own.causal && own.kind == "self" && own.row_sequence == 0 && own.column_sequence == 0));
    CHECK((self.causal && self.kind == "self" && self.row_sequence == 1));
    CHECK((!cross.causal && cross.kind == "cross" && cross.row_sequence == 1));
    CHECK(cross.column_sequence == 0);
    CHECK(map_of(cross, "W").values.shape() == Shape{3, 5, 4});
    CHECK(map_of(own, "W").values.shape() == Shape{3, 4, 4});
    CHECK(bool(cross.ablation));
    const Safetensors saved(options.save);
    CHECK(saved.read("encoder.0.attn.hook_pattern").shape() == Shape{1, 3, 4, 4});
    CHECK(saved.read("decoder.1.cross_attn.hook_pattern").shape() == Shape{1, 3, 5, 4});
    const LogitLens& lens = run.frames[0].lens[0];
    const Index last = std::ssize(lens.points) - 1;
    CHECK(lens.points.size() == 7);
    CHECK(difference(slice(lens.probabilities, 0, last, 1),
                     reshape(slice(run.frames[0].predictions[0].probabilities, 1, 0, 1), {1, 5})) <
          1e-6);
    options.answer.reset();
    const RunReport alone = inspect(options).runs[0];
    const Predictions& p = alone.frames[0].predictions[0];
    CHECK(same_bits(p.next, reshape(slice(p.tokens, 1, 0, 1), {p.next.size()})));
  }

  TEST_CASE("an encoder's text: rows are about their own tokens, and blanks are asked for") {
    const ModelSettings s = settings_of_text("bert");
    const TemporaryFolder folder;
    const Tokenizer tokenizer = Tokenizer::characters(letters);
    write_run(folder / "run", s, tokenizer, 0, 1);
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "ab_d";
    const RunReport run = inspect(options).runs[0];
    CHECK(run.sequences[0].tokens == std::vector<int64_t>{2, 3, 28, 5});
    CHECK(run.vocabulary.back() == "_");
    CHECK(run.frames[0].predictions[0].next.values<int64_t>() == std::vector<int64_t>{2, 3, -1, 5});
    REQUIRE(run.frames[0].sites.size() == 2);
    CHECK(!run.frames[0].sites[1].causal);
  }

  TEST_CASE("an encoder's source and what the decoder answers, its own or a given one") {
    const TemporaryFolder folder;
    const ModelSettings s = settings_of_text("encoder_decoder", {{"Attention=talking_heads"}});
    write_run(folder / "run", s);
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abcd";
    const Report own = inspect(options);
    const RunReport& run = own.runs[0];
    REQUIRE(run.sequences.size() == 2);
    CHECK(run.sequences[0].tokens.size() == 4);
    CHECK(run.sequences[1].tokens[0] == end_token);
    // It answers what it finds likeliest.
    const Predictions& p = run.frames[0].predictions[0];
    CHECK(p.sequence == 1);
    CHECK(same_bits(p.next, reshape(slice(p.tokens, 1, 0, 1), {p.next.size()})));
    const Site& cross = site_at(own, "decoder/1/D");
    CHECK(cross.row_sequence == 1);
    CHECK(cross.column_sequence == 0);
    CHECK(map_of(cross, "W").values.shape() == Shape{3, std::ssize(run.sequences[1].tokens), 4});
    CHECK(cross.heads.size() == 1);  // entropy: no column is a row's own token
    CHECK(!cross.causal);
    CHECK(site_at(own, "decoder/1/A").causal);
    CHECK(run.frames[0].lens[0].points.size() == 7);

    options.answer = "dcba";
    const Report given = inspect(options);
    CHECK(given.runs[0].sequences[1].tokens == std::vector<int64_t>{0, 5, 4, 3, 2});
    CHECK(given.runs[0].frames[0].predictions[0].next.values<int64_t>() ==
          std::vector<int64_t>{5, 4, 3, 2, 0});
    options.answer = "0123";
    CHECK(error_of([&] { inspect(options); }).starts_with("--answer: "));
    options.answer = "abcdefghijklmnopq";
    CHECK(error_of([&] { inspect(options); }) ==
          "--answer has 17 tokens, but the model writes at most 16");
  }
}
