#include "tools/inspect/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "nn/trace.hpp"
#include "tools/generate.hpp"
#include "tools/inspect/attribution.hpp"
#include "tools/inspect/circuits.hpp"
#include "tools/inspect/curves.hpp"
#include "tools/inspect/predictions.hpp"
#include "tools/inspect/raised.hpp"
#include "tools/inspect/result_by_heads.hpp"
#include "tools/inspect/site.hpp"
#include "tools/inspect/texts.hpp"
#include "tools/inspect/transformer_lens.hpp"
#include "tools/model_cost.hpp"

namespace tete {

namespace {

// One run: its checkpoints, one after the other.
class Inspection {
 public:
  Inspection(const InspectOptions& options, const std::string& where, const std::string& prefix,
             NamedTensors& saved)
      : o_(options), where_(where), prefix_(prefix), saved_(saved) {
    if (!o_.texts.empty()) lines_ = read_lines(o_.texts);
  }

  RunReport run() {
    run_.name = where_;
    const std::vector<std::string> paths = checkpoints();
    // The newest comes first: what it answers is what all of them are asked about.
    for (const std::string& path : paths) {
      const Trained trained = read_trained(path, *o_.device);
      if (!answer_ && o_.answer) answer_ = answer_tokens(trained, *o_.answer);
      const Passage passage(trained, o_.text, answer_, origin());
      if (trained.model.kind() == ModelKind::encoder_decoder) answer_ = passage.next();
      if (run_.frames.empty()) describe(trained, passage);
      frame(trained, passage, paths.size() > 1);
    }
    std::reverse(run_.frames.begin(), run_.frames.end());
    run_.texts = texts_.all();
    run_.curves = read_curves(folder());
    return std::move(run_);
  }

 private:
  // The newest first.
  std::vector<std::string> checkpoints() const {
    if (!o_.all_steps || !std::filesystem::is_directory(where_)) return {where_};
    std::vector<std::string> paths;
    for (int64_t step : saved_steps(where_)) paths.push_back(where_ + "/" + checkpoint_name(step));
    return paths.empty() ? std::vector<std::string>{where_} : paths;
  }

  std::string origin() const {
    return lines_.empty() || o_.text != lines_[0].text ? "--text" : lines_[0].origin;
  }

  // The text that is looked at, or the lines of the file.
  std::vector<TextReading> readings(const Trained& trained) const {
    std::vector<TextReading> all;
    if (lines_.empty()) all.push_back(read(trained, {o_.text, "--text"}, answer_, o_.asked));
    for (const NamedText& line : lines_)
      all.push_back(read(trained, line, o_.answer ? answer_ : std::nullopt, o_.asked));
    return all;
  }

  std::string folder() const {
    return std::filesystem::is_directory(where_)
               ? where_
               : std::filesystem::path(where_).parent_path().string();
  }

  void describe(const Trained& trained, const Passage& passage) {
    const ModelSettings& s = trained.settings;
    run_.description =
        text(name_of(trained.model.kind()), ", ", shape_of(trained.model), tete::described(s), ", ",
             grouped(trained.declared().element_total()), " parameters");
    for (int64_t token = 0; token < trained.tokenizer.size(); ++token)
      run_.vocabulary.push_back(trained.tokenizer.piece(static_cast<int32_t>(token)));
    if (trained.fills()) run_.vocabulary.push_back(std::string(1, blank));
    run_.sequences = passage.sequences();
    if (run_.sequences.size() > 1 && trained.task && trained.task->answer)
      for (int32_t token : trained.tokenizer.encode(trained.task->answer(o_.text)))
        run_.right.push_back(token);
  }

  // Every value of the model, what each head adds, and the logits.
  static Activations everything(const Trained& trained, const Passage& passage,
                                const std::vector<SitePlace>& places, Tensor& logits) {
    Activations seen = trace({.params = trained.params}, {"**"},
                             [&](const Forward& forward) { logits = passage.logits(forward); });
    if (!is_finite(logits))
      fail(ErrorKind::numbers, trained.path,
           ": the model's logits are not finite: its training went ", "wrong");
    for (const SitePlace& place : places)
      if (const Tensor each = result_by_heads(place, seen)) seen[place.path + "/Y/heads"] = each;
    return seen;
  }

  void frame(const Trained& trained, const Passage& passage, bool several) {
    Tensor logits;
    const std::vector<SitePlace> places = places_of(trained.model);
    const Activations seen = everything(trained, passage, places, logits),
                      asked = o_.paths.empty()
                                  ? seen
                                  : fitting(o_.paths, seen,
                                            as_in_transformer_lens(seen, trained.model));
    if (o_.layer.empty())
      save(asked, several ? text(prefix_, "step-", trained.step, "/") : prefix_);
    else save_layer(trained, seen);

    Frame made;
    made.step = trained.step;
    made.predictions = {predictions_of(passage, logits, o_.likeliest)};
    const Checked& program = trained.model.program();
    made.predictions[0].logits = program.name_of(program.result);
    made.lens = {lens_of(trained, passage, seen)};
    question(trained, places, seen, made);
    const auto length = [&](int sequence) {
      return std::ssize(passage.sequences()[sequence].tokens);
    };
    for (const SitePlace& place : places) {
      Site site = look_at(place, trained, passage, seen);
      site.text = texts_.add(text_of(place, length(place.rows), length(place.columns)));
      if (o_.ablation) add_ablation(place, passage, made.predictions[0].loss, site);
      made.sites.push_back(std::move(site));
    }
    add_raised(trained, seen, made.sites);
    run_.frames.push_back(std::move(made));
  }

  // Adds the answers about the token that is asked for.
  void question(const Trained& trained, const std::vector<SitePlace>& places,
                const Activations& seen, Frame& made) const {
    const std::vector<TextReading> texts = readings(trained);
    std::vector<Activations> all;
    Tensor logits;
    for (const TextReading& each : texts)
      all.push_back(lines_.empty() ? seen : everything(trained, each.passage, places, logits));
    made.attribution = attribution_of(trained, texts, all);
    Circuits circuits = circuits_of(trained, texts.front(), all.front(), o_.circuits);
    made.circuits = std::move(circuits.found);
    made.without_circuit = std::move(circuits.missing);
    if (o_.changes.any()) made.changes = changes_of(trained, texts, o_.changes, *o_.device);
  }

  void save(const Activations& asked, const std::string& prefix) {
    if (o_.save.empty()) return;
    for (const auto& [path, value] : asked) saved_.push_back({prefix + path, value});
  }

  void save_layer(const Trained& trained, const Activations& seen) {
    std::vector<std::string> paths;
    for (const SitePlace& place : places_of(trained.model)) {
      paths.push_back(place.path);
      if (place.path != o_.layer) continue;
      write_safetensors(
          o_.save, {{"program", place.program->name}, {"mask", place.causal ? "causal" : "none"}},
          tensors_of(place, trained, seen));
      return;
    }
    bad_input("--layer ", o_.layer, ": expected the path of an attention", choice(o_.layer, paths));
  }

  const InspectOptions& o_;
  const std::string where_, prefix_;
  std::vector<NamedText> lines_;  // of o_.texts
  NamedTensors& saved_;
  RunReport run_;
  Texts texts_;
  std::optional<std::vector<int64_t>> answer_;
};

void check(const InspectOptions& o) {
  if (o.checkpoints.empty() || o.checkpoints.size() > 2)
    bad_input("tete inspect looks at one checkpoint, or at two side by side; got ",
              o.checkpoints.size());
  if (!o.layer.empty() && o.save.empty())
    bad_input("--layer says what --save writes, but there is no --save FILE");
  if (!o.layer.empty() && !o.paths.empty())
    bad_input("--layer saves all of an attention: it takes no --paths");
  if (!o.layer.empty() && (o.checkpoints.size() > 1 || o.all_steps))
    bad_input("--layer is of one checkpoint: it takes neither --beside nor --all-steps");
  check(o.changes);
  if (o.likeliest < 1) bad_input("the likeliest tokens are at least 1, got ", o.likeliest);
}

}  // namespace

Report inspect(const InspectOptions& options) {
  InspectOptions o = options;
  check(o);
  if (o.text.empty() && !o.texts.empty()) o.text = read_lines(o.texts).front().text;
  Report report;
  report.title = "tete inspect";
  report.text = o.text;
  report.saved = o.save;

  NamedTensors saved;
  for (size_t i = 0; i < o.checkpoints.size(); ++i) {
    const std::string prefix = o.checkpoints.size() > 1 ? text("run-", i + 1, "/") : "";
    report.runs.push_back(Inspection(o, o.checkpoints[i], prefix, saved).run());
  }
  if (!o.save.empty() && o.layer.empty()) write_safetensors(o.save, {}, std::move(saved));
  return report;
}

}  // namespace tete
