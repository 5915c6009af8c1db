#include "tools/inspect/mixing.hpp"

#include <algorithm>
#include <cmath>

#include "core/ops.hpp"
#include "tools/inspect/matrix.hpp"

namespace tete {

Mixing mixing_of(std::string name, std::string path, std::string rows, std::string columns,
                 const Tensor& values) {
  Mixing mixing{std::move(name), std::move(path), std::move(rows), std::move(columns), values};
  const Matrix matrix(values);
  const auto finite = [](double x) { return std::isfinite(x); };
  if (!std::all_of(matrix.values.begin(), matrix.values.end(), finite)) return mixing;
  const std::vector<double> singular = singular_values(matrix);
  mixing.condition = singular.front() / singular.back();
  if (matrix.rows != matrix.columns) return mixing;
  mixing.determinant = determinant(matrix);
  std::vector<double> sizes;
  for (const auto& eigenvalue : eigenvalues(matrix)) sizes.push_back(std::abs(eigenvalue));
  mixing.smallest_eigenvalue = *std::min_element(sizes.begin(), sizes.end());
  return mixing;
}

std::vector<Mixing> all_mixing(const Checked& program, const Roles& roles,
                               const ParameterAt& parameter) {
  std::vector<Mixing> all;
  const auto add = [&](int number) {
    const CheckedParameter& p = program.parameters[number];
    const Names& dims = program.values[p.value].dims;
    const auto name = [&](int i) { return program.dimensions[dims[i]].name; };
    const auto [path, value] = parameter(number);
    all.push_back(mixing_of(p.name, path, name(0), name(1), value));
  };
  for (int number : roles.mix_before) add(number);
  for (int number : roles.mix_after) add(number);
  const size_t before = roles.mix_before.size(), both = all.size();
  for (size_t i = 0; i < before; ++i)
    for (size_t k = before; k < both; ++k) {
      const Mixing l = all[i], w = all[k];
      if (l.values.size(1) != w.values.size(0)) continue;
      all.push_back(mixing_of(l.name + "×" + w.name, "", l.rows, w.columns,
                              einsum("a b, b c -> a c", l.values, w.values)));
    }
  return all;
}

}  // namespace tete
