#include "nn/embed.hpp"

namespace tete {

Embedding::Embedding(const Scope& scope, const Dim& rows, const Dim& width, Initializer init)
    : table_(scope.declare({"table", {rows.name, width.name}, {rows.size, width.size}, init})) {}

Tensor Embedding::operator()(const Forward& forward, const Tensor& tokens) const {
  return gather("[v] d_X, b n -> b n d_X", forward[table_], tokens.to(forward[table_].backend()));
}

Tensor Embedding::products(const Forward& forward, const Tensor& X) const {
  return einsum("b n d_X, v d_X -> b n v", {.products = forward.products}, X, forward[table_]);
}

}  // namespace tete
