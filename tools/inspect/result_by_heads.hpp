// result_by_heads: how much each head adds to the result of an attention.
#pragma once
#include "tools/inspect/site.hpp"

namespace tete {

// [batch…, n, d, h]: the operands of the einsum that sums over heads, multiplied without that sum.
// Empty if the result is no such sum of plain values. `seen` has the values at the site's path and
// its inputs.
Tensor result_by_heads(const SitePlace& place, const Activations& seen);

}  // namespace tete
