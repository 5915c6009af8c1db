#include "tools/inspect/predictions.hpp"

#include <algorithm>
#include <cmath>

namespace tete {

namespace {

// softmax(logits[n, v]), in double.
struct Chances {
  Index n, v;
  std::vector<double> p;

  explicit Chances(const Tensor& logits)
      : n(logits.size(0)), v(logits.size(1)), p(softmax(cast(logits, Dtype::f64), 1).values()) {}
  double operator()(Index i, int64_t token) const {
    return token < 0 ? undefined : p[i * v + token];
  }
};

}  // namespace

Predictions predictions_of(const Passage& passage, const Tensor& logits, int likeliest) {
  const Chances chances(logits);
  const Index n = logits.size(0), k = std::min<Index>(likeliest, logits.size(1));
  Predictions made;
  made.sequence = passage.predicted();
  made.tokens = top_k(logits, 1, k);
  made.next = Tensor::of<int64_t>({n}, passage.next());
  made.loss = passage.loss(logits);
  made.counted = std::count_if(passage.next().begin(), passage.next().end(),
                               [](int64_t token) { return token >= 0; });
  const std::vector<int64_t> top = made.tokens.values<int64_t>();
  std::vector<float> probabilities, next;
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < k; ++j)
      probabilities.push_back(static_cast<float>(chances(i, top[i * k + j])));
    next.push_back(static_cast<float>(chances(i, passage.next()[i])));
  }
  made.probabilities = Tensor::of<float>({n, k}, probabilities);
  made.next_probability = Tensor::of<float>({n}, next);
  return made;
}

// The paths of the residual stream's states, as far as they are seen.
static std::vector<std::string> points_of(const Trained& trained, const Activations& seen) {
  std::vector<std::string> points;
  for (const std::string& path : stream_of(trained.model).points)
    if (seen.contains(path)) points.push_back(path);
  return points;
}

// The slot whose filler a point on the way adds.
static std::string added_at(const std::vector<SitePlace>& programs, const std::string& path) {
  const PlacedValue at = value_at(programs, path);
  std::string slot;
  if (at.program)
    visit(at.program->values[at.number].right, [&](const Node& node) {
      if (slot.empty() && node.kind == NodeKind::value) slot = at.program->values[node.index].slot;
    });
  return slot;
}

LogitLens lens_of(const Trained& trained, const Passage& passage, const Activations& seen) {
  LogitLens lens;
  lens.sequence = passage.predicted();
  lens.points = points_of(trained, seen);
  const std::vector<SitePlace> programs = programs_of(trained.model);
  for (const std::string& point : lens.points) lens.slots.push_back(added_at(programs, point));
  const auto n = std::ssize(passage.next());
  std::vector<int64_t> tokens;
  std::vector<float> probabilities, next;
  for (const std::string& point : lens.points) {
    const Tensor logits = passage.logits_of({.params = passage.params()}, seen.at(point));
    const Chances chances(logits);
    const std::vector<int64_t> top = top_k(logits, 1, 1).values<int64_t>();
    for (Index i = 0; i < n; ++i) {
      tokens.push_back(top[i]);
      probabilities.push_back(static_cast<float>(chances(i, tokens.back())));
      next.push_back(static_cast<float>(chances(i, passage.next()[i])));
    }
  }
  const Shape shape{std::ssize(lens.points), n};
  lens.tokens = Tensor::of<int64_t>(shape, tokens);
  lens.probabilities = Tensor::of<float>(shape, probabilities);
  lens.next_probability = Tensor::of<float>(shape, next);
  return lens;
}

}  // namespace tete
