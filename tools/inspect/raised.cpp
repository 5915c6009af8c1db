#include "tools/inspect/raised.hpp"

#include <algorithm>

#include "core/ops.hpp"
#include "tools/inspect/model_end.hpp"

namespace tete {

namespace {

// Adds one head's row to what a site has.
void add_row(Tensor& all, const Tensor& row) {
  const Tensor one = reshape(row, {1, row.size(0), row.size(1)});
  all = all ? concat({all, one}, 0) : one;
}

// logits[n, v]
void add_head(const Tensor& logits, Site& site) {
  constexpr Index few = 2;
  const Index n = logits.size(0), v = logits.size(1), k = std::min(few, v);
  const Tensor tokens = top_k(logits, 1, k);
  const std::vector<int64_t> which = tokens.values<int64_t>();
  const std::vector<double> all = logits.values();
  std::vector<double> by;
  for (size_t i = 0; i < which.size(); ++i)
    by.push_back(
        all[i / static_cast<size_t>(k) * static_cast<size_t>(v) + static_cast<size_t>(which[i])]);
  add_row(site.raised, tokens);
  add_row(site.raised_by, Tensor::of<double>({n, k}, by));
}

}  // namespace

void add_raised(const Trained& trained, const Activations& seen, std::vector<Site>& sites) {
  const StreamParts stream = stream_parts(trained.model, seen);
  if (!stream.refused.empty()) return;
  Tensor z;
  for (const StreamPart& part : stream.parts) z = z ? z + part.value : part.value;
  const Index last = z.size(0) - 1;
  const ModelEnd end(trained, stream_of(trained.model).value, row_of(z, 0, last));
  if (!end.is_sum()) return;
  for (const StreamPart& part : stream.parts) {
    const auto site = std::find_if(sites.begin(), sites.end(),
                                   [&](const Site& each) { return each.path == part.path; });
    if (part.head >= 0 && site != sites.end()) add_head(end.logits(part.value, z), *site);
  }
}

}  // namespace tete
