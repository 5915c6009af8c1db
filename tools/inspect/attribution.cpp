#include "tools/inspect/attribution.hpp"

#include "core/ops.hpp"
#include "tools/inspect/model_end.hpp"
#include "tools/inspect/stream_parts.hpp"

namespace tete {

namespace {

// The parts of several texts, by path and head, in the order of the first.
class Gathered {
 public:
  void add(const std::string& path, Index head, double logit) {
    for (auto& [row, logits] : rows_)
      if (row.path == path && row.head == head) return logits.push_back(logit);
    rows_.push_back({{path, head}, {logit}});
  }
  std::vector<Contribution> rows() {
    std::vector<Contribution> all;
    for (auto& [row, logits] : rows_) {
      row.logit = estimate_of(logits);
      all.push_back(row);
    }
    return all;
  }

 private:
  std::vector<std::pair<Contribution, std::vector<double>>> rows_;
};

// The logit of one text, whose parts are added; or why there is none.
std::string attribute(const Trained& trained, const TextReading& reading, const Activations& seen,
                      Gathered& rows, std::vector<double>& logits) {
  const StreamParts stream = stream_parts(trained.model, seen);
  if (!stream.refused.empty()) return stream.refused;
  Tensor z;
  for (const StreamPart& part : stream.parts) z = z ? z + part.value : part.value;
  const ModelEnd end(trained, stream_of(trained.model).value, row_of(z, 0, reading.position));
  if (!end.is_sum())
    return "Behind its last block this model does more than to divide by a number and to multiply "
           "with a matrix, so a logit is no sum of what is added before.";
  const Tensor direction = end.direction(reading.token);
  double logit = end.constant(reading.token);
  for (const StreamPart& part : stream.parts) {
    const double adds = sum(row_of(part.value, 0, reading.position) * direction).item();
    rows.add(part.path, part.head, adds);
    logit += adds;
  }
  rows.add("bias", -1, end.constant(reading.token));
  logits.push_back(logit);
  return "";
}

}  // namespace

Attribution attribution_of(const Trained& trained, const std::vector<TextReading>& readings,
                           const std::vector<Activations>& seen) {
  Gathered rows;
  std::vector<double> logits;
  Attribution made;
  for (size_t i = 0; i < readings.size() && made.refused.empty(); ++i)
    made.refused = attribute(trained, readings[i], seen[i], rows, logits);
  if (!made.refused.empty()) return made;
  made.rows = rows.rows(), made.logit = estimate_of(logits);
  const std::vector<SitePlace> programs = programs_of(trained.model);
  for (Contribution& row : made.rows)
    if (const PlacedValue at = value_at(programs, row.path); at.program)
      row.slot = at.program->values[at.number].slot;
  made.texts = std::ssize(readings);
  made.token = readings.front().token, made.position = readings.front().position;
  return made;
}

}  // namespace tete
