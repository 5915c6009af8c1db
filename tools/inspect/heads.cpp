#include "tools/inspect/heads.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace tete {

namespace {

// One head's weights.
struct Head {
  const float* first;
  Index n, m;
  bool causal;
  double operator()(Index i, Index j) const { return first[i * m + j]; }
  bool sees(Index i, Index j) const { return !causal || j <= i; }
  // True if row i has weights, and more than one column to put them on.
  bool chooses(Index i) const {
    return sees(i, 1) && m > 1 &&
           std::any_of(first + i * m, first + (i + 1) * m, [](float w) { return w != 0; });
  }
};

// The number of one row, NaN if it does not count.
using OfRow = std::function<double(const Head& W, Index i)>;

// The mean over rows, and the row that has most of it beyond what it has in `usual`: of few tokens
// a row has much on each, whatever the head does.
std::pair<double, Index> mean_over_rows(const Head& W, const OfRow& of_row, const Head* usual) {
  double sum = 0, rows = 0, most = -INFINITY;
  Index at = -1;
  for (Index i = 0; i < W.n; ++i) {
    const double x = W.chooses(i) ? of_row(W, i) : undefined;
    if (std::isnan(x)) continue;
    sum += x, ++rows;
    const double beyond = usual ? x - of_row(*usual, i) : x;
    if (beyond >= most) most = beyond, at = i;
  }
  return {rows == 0 ? undefined : sum / rows, at};
}

std::vector<float> equal_weights(Index n, Index m, bool causal) {
  std::vector<float> equal(static_cast<size_t>(n * m), 1);
  for (Index i = 0; causal && i < n; ++i)
    for (Index j = i + 1; j < m; ++j) equal[i * m + j] = 0;
  return equal;
}

double total(const Head& W, Index i) {
  double sum = 0;
  for (Index j = 0; j < W.m; ++j) sum += std::abs(W(i, j));
  return sum;
}

double entropy(const Head& W, Index i) {
  const double all = total(W, i);
  double sum = 0;
  for (Index j = 0; j < W.m; ++j) {
    if (W(i, j) < 0) return undefined;
    if (const double share = W(i, j) / all; share > 0) sum -= share * std::log(share);
  }
  return sum;
}

double distance(const Head& W, Index i) {
  double sum = 0;
  for (Index j = 0; j < W.m; ++j) sum += std::abs(W(i, j)) * static_cast<double>(std::abs(i - j));
  return sum / total(W, i);
}

// The share of row i's weight that is on the position just before it.
double previous(const Head& W, Index i) { return i == 0 ? undefined : W(i, i - 1) / total(W, i); }

// A row's share on what stands `after` places behind earlier tokens equal to row i's.
OfRow on_earlier(const std::vector<int64_t>& tokens, Index after) {
  return [&tokens, after](const Head& W, Index i) {
    double sum = 0;
    bool any = false;
    for (Index j = 0; j + after < i; ++j)
      if (tokens[j] == tokens[i]) sum += W(i, j + after), any = true;
    return any ? sum / total(W, i) : undefined;
  };
}

}  // namespace

std::vector<HeadStatistic> head_statistics(const AttentionMap& map,
                                           const std::vector<int64_t>& tokens, bool causal) {
  const Index h = map.values.size(0), n = map.values.size(1), m = map.values.size(2);
  const std::vector<float> weights = map.values.values<float>();
  const std::vector<float> equal = equal_weights(n, m, causal);
  const Head usual{equal.data(), n, m, causal};
  std::vector<HeadStatistic> found;
  const auto add = [&](const char* name, const char* meaning, const char* unit, const OfRow& of_row,
                       bool is_share = false) {
    std::vector<float> values;
    std::vector<Index> rows;
    for (Index k = 0; k < h; ++k) {
      const auto [mean, row] = mean_over_rows({weights.data() + k * n * m, n, m, causal}, of_row,
                                              is_share ? &usual : nullptr);
      values.push_back(static_cast<float>(mean));
      rows.push_back(row);
    }
    found.push_back({map.name, name, meaning, unit, Tensor::of<float>({h}, values), rows});
  };
  if (std::none_of(weights.begin(), weights.end(), [](float w) { return w < 0; }))
    add("entropy",
        "How widely a query token looks: the mean of -Σ p log p over its row x of the tensor, p = "
        "x / Σx.",
        "nats", entropy);
  if (tokens.empty()) return found;
  add("distance",
      "How far away it looks: the mean of Σ |x| |n - m| / Σ |x|, x the row of the query token at "
      "n, "
      "m the place of a key token.",
      "tokens", distance);
  add("previous token",
      "The mean share of the row on the token before: x[n-1] / Σ |x|, below 0 where it is "
      "negative.",
      "", previous, true);
  add("duplicate token",
      "The mean share of the row on earlier tokens that are the same as the query's.", "",
      on_earlier(tokens, 0), true);
  add("induction",
      "The mean share of the row on tokens that followed earlier ones like the query's.", "",
      on_earlier(tokens, 1), true);
  return found;
}

Histogram histogram_of(const AttentionMap& map, bool causal, bool own_mask) {
  constexpr Index bins = 50;
  const Index h = map.values.size(0), n = map.values.size(1), m = map.values.size(2);
  const std::vector<float> values = map.values.values<float>();
  Histogram histogram{map.name, 0, 1, {}};
  const auto counts_here = [&](Index i, Index j, float x) {
    return !(causal && (j > i || (map.weights && i == 0))) && !(own_mask && x == 0) &&
           std::isfinite(x);
  };
  const auto each = [&](const auto& see) {
    for (size_t at = 0; at < values.size(); ++at) {
      const auto place = static_cast<Index>(at);
      if (counts_here(place / m % n, place % m, values[at])) see(place / m / n, values[at]);
    }
  };
  if (!map.weights) {
    double low = INFINITY, high = -INFINITY;
    each([&](Index, float x) { low = std::min<double>(low, x), high = std::max<double>(high, x); });
    if (low < high) histogram.low = low, histogram.high = high;
    else if (low == high) histogram.low = low - 0.5, histogram.high = low + 0.5;
  }
  std::vector<float> counts(static_cast<size_t>(h * bins));
  const double width = (histogram.high - histogram.low) / static_cast<double>(bins);
  each([&](Index head, float x) {
    const auto bin = static_cast<Index>((x - histogram.low) / width);
    ++counts[head * bins + std::clamp<Index>(bin, 0, bins - 1)];
  });
  histogram.counts = Tensor::of<float>({h, bins}, counts);
  return histogram;
}

}  // namespace tete
