#include "tools/inspect/changes.hpp"

#include <algorithm>

#include "core/ops.hpp"
#include "tools/npy.hpp"

namespace tete {

void check(const ChangeOptions& o) {
  const bool has_source = !o.from.empty() || o.text_from;
  if (!o.patch.empty() && !has_source)
    bad_input(
        "--patch takes values of another run: expected --text-from TEXT or --from CHECKPOINT");
  if (o.patch.empty() && has_source)
    bad_input(o.from.empty() ? "--text-from" : "--from",
              " says what --patch takes its values from, "
              "but there is no --patch PATH");
  if (o.each_position && !o.any())
    bad_input("--each-position is for --ablate, --patch and --steer, but there is none of them");
}

// ---- Hooks ----

Hook ablating(const Part& part) {
  return {part.value->path, [part](const std::string&, const Tensor& x) {
            return replaced_at(part, x, Tensor::zeros(x.shape(), x.dtype(), x.backend()));
          }};
}

Hook patching(const Part& part, const Tensor& source) {
  return {part.value->path, [part, source](const std::string&, const Tensor& x) {
            return replaced_at(part, x, source);
          }};
}

namespace {

// The axes along which a vector for the part may vary; with or without those of sequences.
std::vector<int> open_axes(const Part& part, bool with_sequences) {
  std::vector<int> axes;
  for (int k = 0; k < std::ssize(part.value->dims); ++k)
    if (!part.at(k) && (with_sequences || part.value->sequences[k] < 0)) axes.push_back(k);
  return axes;
}

// The vector with the rank of x, 1 where it does not vary; empty if it has no fitting shape.
Tensor spread(const Part& part, const Tensor& vector, const Shape& x) {
  const int batch = x.size() - static_cast<int>(part.value->dims.size());
  for (const bool with_sequences : {false, true}) {
    Shape given, wide(x.size(), 1);
    for (int axis : open_axes(part, with_sequences)) {
      given.push_back(x[batch + axis]);
      wide[batch + axis] = x[batch + axis];
    }
    if (vector.shape() == given) return reshape(vector, wide);
  }
  return {};
}

}  // namespace

Hook steering(const Part& part, const Tensor& vector) {
  return {part.value->path, [part, vector](const std::string&, const Tensor& x) {
            const Tensor added = cast(vector, x.dtype());
            return replaced_at(part, x, x + broadcast(spread(part, added, x.shape()), x.shape()));
          }};
}

// ---- Runs ----

namespace {

struct SteeringFile {
  Selection selection;
  std::string path;
  Tensor vector;
};

// "PATH=FILE", "PATH[h=2]=FILE"
SteeringFile read_steering(const std::string& written, Backend& device) {
  const size_t open = written.find('['), equals = written.find('=');
  const size_t at = open < equals ? written.find("]=") : equals;
  const size_t cut = open < equals && at != std::string::npos ? at + 1 : at;
  if (cut == std::string::npos || cut == 0 || cut + 1 == written.size())
    bad_input("--steer ", written, ": expected PATH=FILE, as in decoder/0/Y=vector.npy");
  SteeringFile made{
      Selection::read("--steer", written.substr(0, cut)), written.substr(cut + 1), {}};
  made.vector = read_npy(made.path).to(device);
  if (!is_finite(made.vector))
    bad_input("--steer ", made.selection.written, ": expected numbers, but ", made.path,
              " has one that is infinite or NaN");
  return made;
}

// The runs that patches are taken from, text by text.
class PatchSources {
 public:
  PatchSources(const Trained& trained, const ChangeOptions& o, Backend& device)
      : trained_(trained), o_(o) {
    if (!o_.from.empty()) other_ = read_trained(o_.from, device);
  }

  // Reads the values at these paths; what they are put in place of has their shapes.
  void read(const std::vector<TextReading>& readings, const std::vector<std::string>& paths) {
    std::vector<double> losses, probabilities;
    for (const TextReading& reading : readings) {
      const TextReading source = source_of(reading);
      losses.push_back(source.loss), probabilities.push_back(source.probability);
      values_[&reading] = values_of(source, paths);
      check_shapes(reading, source, paths);
    }
    loss_ = estimate_of(losses), probability_ = estimate_of(probabilities);
  }
  const Tensor& at(const TextReading& reading, const std::string& path) const {
    return values_.at(&reading).at(path);
  }
  Estimate loss() const { return loss_; }
  Estimate probability() const { return probability_; }

 private:
  const Trained& from() const { return other_ ? *other_ : trained_; }

  // Returns f(); its errors say which model they are of.
  template <class F>
  auto told_of_from(const F& f) const {
    try {
      return f();
    } catch (const Error& error) {
      if (!other_) throw;
      throw Error(error.kind(), text("--from ", o_.from, ": ", error.what()));
    }
  }

  // The text that values are taken from; with an encoder it is answered alike. It is asked for the
  // same token at the same place, if it has that.
  TextReading source_of(const TextReading& reading) const {
    const NamedText given = o_.text_from ? NamedText{*o_.text_from, "--text-from"} : reading.text;
    std::optional<std::vector<int64_t>> answer;
    if (from().model.kind() == ModelKind::encoder_decoder) answer = reading.passage.next();
    TextReading source = told_of_from([&] { return tete::read(from(), given, answer, {}); });
    const bool is_alike = from().tokenizer.describe() == trained_.tokenizer.describe() &&
                          reading.position < std::ssize(source.passage.next());
    if (!is_alike) return source.probability = undefined, source;
    source.position = reading.position, source.token = reading.token;
    source.probability = source.probability_of(source.passage.logits({.params = from().params}));
    return source;
  }

  Activations values_of(const TextReading& source, const std::vector<std::string>& paths) const {
    return told_of_from([&] {
      return trace({.params = from().params}, paths,
                   [&](const Forward& f) { source.passage.logits(f); });
    });
  }

  void check_shapes(const TextReading& reading, const TextReading& source,
                    const std::vector<std::string>& paths) const {
    const auto length = [](const TextReading& r) {
      return std::ssize(r.passage.sequences()[0].tokens);
    };
    const Activations here = trace({.params = trained_.params}, paths,
                                   [&](const Forward& f) { reading.passage.logits(f); });
    for (const std::string& path : paths) {
      const Shape &theirs = at(reading, path).shape(), &ours = here.at(path).shape();
      if (theirs == ours) continue;
      if (length(source) != length(reading))
        bad_input(source.text.origin, " has ", counted(length(source), "token"), ", but ",
                  reading.text.origin, " has ", length(reading),
                  ": a patch is of the same positions");
      bad_input("--patch ", path, ": it is ", ours, " here, but ", theirs,
                " in what it is taken from");
    }
  }

  const Trained& trained_;
  const ChangeOptions& o_;
  std::optional<Trained> other_;
  std::map<const TextReading*, Activations> values_;
  Estimate loss_ = {}, probability_ = {};
};

class Changing {
 public:
  Changing(const Trained& trained, const std::vector<TextReading>& readings, const ChangeOptions& o,
           Backend& device)
      : trained_(trained), readings_(readings), o_(o), device_(device) {
    const Passage& first = readings.front().passage;
    for (size_t i = 0; i < first.sequences().size(); ++i) {
      lengths_.push_back(0);
      for (const TextReading& each : readings) lengths_[i] = std::max(lengths_[i], length(each, i));
    }
    values_.emplace(trained.model, trace({.params = trained.params}, {"**"},
                                         [&](const Forward& f) { first.logits(f); }));
  }

  ValueChanges run() {
    for (const std::string& written : o_.ablate)
      for (const Part& part : parts(Selection::read("--ablate", written), true))
        add("ablate", part, "", [&](const TextReading&) { return ablating(part); });
    if (!o_.patch.empty()) patch();
    for (const std::string& written : o_.steer) steer(read_steering(written, device_));
    sum_up();
    return std::move(made_);
  }

 private:
  static Index length(const TextReading& reading, size_t sequence) {
    return std::ssize(reading.passage.sequences()[sequence].tokens);
  }
  std::vector<Part> parts(const Selection& selection, bool each_head) const {
    return values_->parts(selection, each_head, o_.each_position, lengths_);
  }

  // A row: the change in each text that has the part.
  void add(const char* kind, const Part& part, const std::string& with,
           const std::function<Hook(const TextReading&)>& hook) {
    ValueChange row{.kind = kind, .path = part.value->path, .part = part.others(), .with = with};
    const NamedValue& value = *part.value;
    if (value.heads >= 0) row.head = part.at(value.heads).value_or(-1);
    if (value.positions >= 0) {
      row.position = part.at(value.positions).value_or(-1);
      row.sequence = value.sequences[value.positions];
    }
    std::vector<double> losses, probabilities;
    for (const TextReading& reading : readings_) {
      if (!has(reading, part)) continue;
      run_with_hooks({.params = trained_.params}, {hook(reading)}, [&](const Forward& forward) {
        const Tensor logits = reading.passage.logits(forward);
        if (!is_finite(logits))
          fail(ErrorKind::numbers, "--", kind, " ", value.path, part.others(),
               with.empty() ? "" : "=", with, ": the logits of ", reading.text.origin,
               " are not finite after that");
        losses.push_back(reading.passage.loss(logits) - reading.loss);
        probabilities.push_back(reading.probability_of(logits) - reading.probability);
      });
    }
    row.texts = std::ssize(losses);
    row.loss = estimate_of(losses), row.probability = estimate_of(probabilities);
    made_.rows.push_back(std::move(row));
  }

  // Texts may be shorter than the longest.
  static bool has(const TextReading& reading, const Part& part) {
    return std::all_of(part.picks.begin(), part.picks.end(), [&](const auto& pick) {
      const int sequence = part.value->sequences[pick.first];
      return sequence < 0 || pick.second < length(reading, static_cast<size_t>(sequence));
    });
  }

  // ---- Patches ----

  void patch() {
    std::vector<Selection> selections;
    for (const std::string& written : o_.patch)
      selections.push_back(Selection::read("--patch", written));
    std::vector<Part> all;
    std::set<std::string> paths;
    for (const Selection& selection : selections)
      for (const Part& part : parts(selection, true))
        all.push_back(part), paths.insert(part.value->path);
    PatchSources sources(trained_, o_, device_);
    sources.read(readings_, {paths.begin(), paths.end()});
    made_.source_loss = sources.loss(), made_.source_probability = sources.probability();
    for (const Part& part : all)
      add("patch", part, "", [&](const TextReading& reading) {
        return patching(part, sources.at(reading, part.value->path));
      });
  }

  // ---- Steering ----

  void steer(const SteeringFile& file) {
    for (const Part& part : parts(file.selection, false))
      add("steer", part, file.path, [&](const TextReading& reading) {
        check_fits(file, part, reading);
        return steering(part, file.vector);
      });
  }

  void check_fits(const SteeringFile& file, const Part& part, const TextReading& reading) const {
    const auto of = [&](bool with_sequences) {
      std::vector<std::string> dims;
      Shape shape;
      for (int axis : open_axes(part, with_sequences)) {
        const int sequence = part.value->sequences[axis];
        const Index size = sequence < 0 ? values_->size(*part.value, axis, lengths_)
                                        : length(reading, static_cast<size_t>(sequence));
        dims.push_back(text(part.value->dims[axis], "=", size));
        shape.push_back(size);
      }
      return std::pair(text("[", list_of(dims), "]"), shape);
    };
    const auto [few, short_shape] = of(false);
    const auto [all, long_shape] = of(true);
    if (file.vector.shape() == short_shape || file.vector.shape() == long_shape) return;
    bad_input("--steer ", file.selection.written, ": expected ", few,
              few == all ? "" : " or " + all, ", but ", file.path, " has ", file.vector.shape());
  }

  void sum_up() {
    std::vector<double> losses, probabilities;
    for (const TextReading& each : readings_)
      losses.push_back(each.loss), probabilities.push_back(each.probability);
    made_.loss = estimate_of(losses), made_.probability = estimate_of(probabilities);
    const TextReading& first = readings_.front();
    made_.texts = std::ssize(readings_);
    made_.token = first.token, made_.position = first.position;
    made_.sequence = first.passage.predicted();
  }

  const Trained& trained_;
  const std::vector<TextReading>& readings_;
  const ChangeOptions& o_;
  Backend& device_;
  std::vector<Index> lengths_;  // of each sequence, the longest
  std::optional<NamedValues> values_;
  ValueChanges made_;
};

}  // namespace

ValueChanges changes_of(const Trained& trained, const std::vector<TextReading>& readings,
                        const ChangeOptions& options, Backend& device) {
  return Changing(trained, readings, options, device).run();
}

}  // namespace tete
