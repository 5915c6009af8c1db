// Implementations that are not ours, held against the text: what agrees, and where one that does
// not first parts from it.
#include <doctest/doctest.h>

#include <map>

#include "attention/attention.hpp"

using namespace tete;

namespace {

TensorsByName talking_heads_tensors() {
  TensorsByName tensors;
  const std::map<std::string, Shape> shapes = {
      {"X", {2, 5, 6}},   {"M", {2, 7, 8}},   {"P_q", {6, 4, 3}}, {"P_k", {8, 4, 3}},
      {"P_v", {8, 2, 3}}, {"P_o", {6, 2, 3}}, {"P_l", {3, 3}},    {"P_w", {3, 3}}};
  for (const auto& [name, shape] : shapes)
    tensors[name] = random_normal(shape, Key(1).fold(name), Dtype::f64) * 0.7;
  return tensors;
}

}  // namespace

TEST_CASE("an evaluation gives each value as a run shows it, and runs on with what is set") {
  const auto program = load_attention("talking_heads");
  const TensorsByName tensors = talking_heads_tensors();
  const SizesByName sizes = {{"d_v", 2}};
  TensorsByName seen;
  RunOptions options{.sizes = sizes};
  options.watch = [&](const std::string& name, const Tensor& x) { seen[name] = x; };
  run(program, tensors, options);

  const int J = program->find_value("J"), L = program->find_value("L");
  Evaluation plain(program, tensors, {.sizes = sizes});
  for (const char* name : {"Y", "W", "K"})
    CHECK(plain.value(program->find_value(name)).values() == seen[name].values());
  CHECK(plain.batch() == Shape{2});
  CHECK(plain.size(program->find_dimension("d_v")) == 2);

  Evaluation changed(program, tensors, {.sizes = sizes});
  changed.set(J, seen["J"] * 2);
  CHECK(changed.value(L).values() == (seen["L"] * 2).values());
  CHECK(changed.value(program->find_value("Q")).values() == seen["Q"].values());
  CHECK_THROWS_AS(changed.set(L, seen["V"]), Error);
}
