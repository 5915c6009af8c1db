#include "nn/position.hpp"

#include <cmath>

#include "nn/decode.hpp"

namespace tete {

Tensor sinusoidal_positions(Index n, Index d_X, Dtype dtype) {
  if (d_X % 2 != 0) bad_input("sinusoidal positions need an even width, got ", d_X);
  const Index half = d_X / 2;
  const double last = std::max<double>(1, static_cast<double>(half - 1));
  std::vector<double> table(n * d_X);
  for (Index p = 0; p < n; ++p) {
    for (Index t = 0; t < half; ++t) {
      const double angle =
          static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(t) / last);
      table[p * d_X + t] = std::sin(angle);
      table[p * d_X + half + t] = std::cos(angle);
    }
  }
  return cast(Tensor::of<double>({n, d_X}, table), dtype);
}

Positions::Positions(const Scope& scope, const std::string& kind, Index context, const Dim& width)
    : path_(scope.path), kind_(kind), context_(context) {
  const std::string kinds[] = {"none", "learned", "sinusoidal"};
  if (kind == "learned") {
    table_ = scope.declare(
        {"table", {"n", width.name}, {context, width.size}, {InitializerKind::normal, 1.0}});
  } else if (kind == "sinusoidal") {
    sinusoids_ = sinusoidal_positions(context, width.size, Dtype::f64);
  } else if (kind != "none") {
    bad_input("unknown positions '", kind, "'", suggestion(kind, kinds),
              " (there are none, learned, sinusoidal)");
  }
}

Tensor Positions::rows(const Forward& forward, Index first, Index n, Dtype dtype) const {
  const Index last = first + n;
  if (sinusoids_ && last > context_)
    return slice(sinusoidal_positions(last, sinusoids_.size(1), dtype), 0, first, n);
  if (sinusoids_) return cast(slice(sinusoids_, 0, first, n), dtype);
  if (last > context_)
    bad_input("the sequence has ", last, " positions, but the model learned only ", context_);
  return slice(forward[table_], 0, first, n);
}

Tensor Positions::operator()(const Forward& forward, const Tensor& X) const {
  if (kind_ == "none") return X;
  const Index first = forward.decoding ? forward.decoding->length : 0;
  const Tensor P = rows(forward, first, X.size(1), X.dtype()).to(X.backend());
  return add("b n d_X, n d_X", X, forward.offer("", path_, P));
}

}  // namespace tete
