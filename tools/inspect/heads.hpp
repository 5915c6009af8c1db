// Measures of single heads: numbers of one attention's weights.
#pragma once
#include "tools/inspect/report.hpp"

namespace tete {

// Measures of a map whose columns may be anything: "entropy", but of one with negative entries.
// Where columns are the tokens of the rows' own sequence, also "distance", "previous token",
// "duplicate token" and "induction". Rows in which nothing is seen (they are 0) are not counted,
// nor are those that see one column and have no choice; NaN where none is left. `tokens`: of the
// sequence, or empty where rows and columns are not one. `causal`: a row sees no column behind its
// own position.
std::vector<HeadStatistic> head_statistics(const AttentionMap& map,
                                           const std::vector<int64_t>& tokens, bool causal);

// Counts of the entries of each head between the bounds. `causal`: columns behind a row's own
// position are not counted, nor is a softmax's first row, which is 1; `own_mask`: nor are zeros.
// W[h, n, m] -> counts[h, bins].
Histogram histogram_of(const AttentionMap& map, bool causal, bool own_mask);

}  // namespace tete
