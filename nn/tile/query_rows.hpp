// The statements that follow row by row from what they read: a run of some of the queries needs
// only the same queries' rows.
#pragma once
#include "nn/language/check.hpp"

namespace tete {

// The reason why a statement needs rows of other queries than its own, "" if it does not; and what
// it is about.
struct OtherRows {
  std::string reason = {};
  Place place = {};
};

// Why statements need rows of other queries than their own.
class QueryRows {
 public:
  explicit QueryRows(const Checked& program) : program_(program) {}

  bool is_query(int dim) const { return program_.dimensions[dim].role == Role::query; }
  std::ptrdiff_t count(const Names& dims) const;
  // Why v needs rows of other queries, judged by its dimensions alone; empty if it does not.
  std::string reason(const CheckedValue& v) const;
  // The same, judged by its dimensions and its statement.
  OtherRows read_by(const CheckedValue& v) const;

 private:
  const DimensionFlow& flow(int dim) const { return program_.flow.dimensions[dim]; }
  std::string name_of(int dim) const;
  std::string reason(const Node& node) const;
  std::string reason_in_use(const Node& node) const;

  const Checked& program_;
};

}  // namespace tete
