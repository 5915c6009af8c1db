#include "tools/inspect/stream_parts.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/ops.hpp"

namespace tete {

namespace {

double largest_entry_of(const Tensor& x) {
  double most = 0;
  for (double entry : x.values()) most = std::max(most, std::abs(entry));
  return most;
}

// Dropout is the identity here.
const Node& without_dropout(const Node& node) {
  return calls(node, "dropout") ? without_dropout(node.args[0]) : node;
}

// The terms of a sum, of a sum's first term, and so on.
void collect_terms(const Node& sum, std::vector<const Node*>& terms) {
  const Node& node = without_dropout(sum);
  if (node.kind != NodeKind::operation || node.op != Operator::add) return terms.push_back(&node);
  for (const Node& arg : node.args) collect_terms(arg, terms);
}

// One program's sums: the model's own, or a block's, whose first input is the stream.
class Sums {
 public:
  Sums(const SitePlace& place, const Activations& seen, int input, StreamParts& made)
      : place_(place), program_(*place.program), seen_(seen), input_(input), made_(made) {}

  // Adds what a value is a sum of, but for the input. False where it is no sum that has the input.
  bool add(int number) {
    if (number == input_) return true;
    const CheckedValue& v = program_.values[number];
    if (v.kind == ValueKind::same) return add(v.index);
    std::vector<const Node*> terms;
    if (v.kind == ValueKind::statement) collect_terms(v.right, terms);
    const bool is_renamed = terms.size() == 1 && is_plain_value(*terms[0]);
    if (is_renamed) return add(terms[0]->index);
    if (terms.size() < 2) return input_ < 0 && add_part(path_of(place_, number), value(number));
    return add_terms(number, terms);
  }

 private:
  bool add_terms(int number, const std::vector<const Node*>& terms) {
    Tensor rest = value(number);
    if (!rest) return false;
    std::string unnamed = path_of(place_, number);
    int unknown = 0;
    bool has_input = input_ < 0;
    for (const Node* term : terms) {
      const int of = is_plain_value(*term) ? term->index : -1;
      const Tensor x = of < 0 ? Tensor() : for_each(value(of), rest.shape());
      if (!x || !(x.shape() == rest.shape())) {
        ++unknown, unnamed = name_in(*term, unnamed);
        continue;
      }
      rest = rest - x;
      if (leads_to_input(of)) has_input = true;
      if (!(leads_to_input(of) || is_sum(of) ? add(of) : add_part(path_of(place_, of), x)))
        return false;
    }
    return has_input && (unknown == 0 || add_whole(unnamed, rest));
  }

  // The only named value in a term that is none, as A in a * A.
  std::string name_in(const Node& term, const std::string& other) const {
    std::set<int> named;
    visit(term, [&](const Node& node) {
      if (node.kind == NodeKind::value && !program_.is_argument(node.index) && node.index != input_)
        named.insert(node.index);
    });
    return named.size() == 1 ? path_of(place_, *named.begin()) : other;
  }

  bool leads_to_input(int number) const {
    if (number == input_) return true;
    const CheckedValue& v = program_.values[number];
    if (v.kind == ValueKind::same) return leads_to_input(v.index);
    if (v.kind != ValueKind::statement) return false;
    std::vector<const Node*> terms;
    collect_terms(v.right, terms);
    return std::any_of(terms.begin(), terms.end(), [&](const Node* term) {
      return is_plain_value(*term) && leads_to_input(term->index);
    });
  }
  // True for each sum of the model's own program, as that of embedding and positions.
  bool is_sum(int number) const {
    const CheckedValue& v = program_.values[number];
    if (input_ >= 0 || v.kind == ValueKind::parameter) return false;
    return v.kind == ValueKind::same || v.kind == ValueKind::statement;
  }

  // [rows, d_X] in f64 on the processor; empty if it is not known.
  Tensor value(int number) const {
    const auto at = seen_.find(path_of(place_, number));
    if (at == seen_.end()) return {};
    const Tensor& x = at->second;
    const Tensor here = cast(x.to(cpu()), Dtype::f64);
    return x.rank() == 3 ? reshape(here, {x.size(0) * x.size(1), x.size(2)}) : here;
  }
  // For each sample what is made without one, as positions are.
  static Tensor for_each(const Tensor& x, const Shape& all) {
    const bool is_one = x && x.rank() == 2 && x.size(0) == 1 && x.size(1) == all[1];
    return is_one ? broadcast(x, all) : x;
  }

  bool add_whole(const std::string& path, const Tensor& x) {
    if (!x || x.rank() != 2) return false;
    made_.parts.push_back({path, -1, x});
    return true;
  }
  // Head by head, and what is left, where it is known what each adds.
  bool add_part(const std::string& path, Tensor x) {
    const auto heads = seen_.find(path + "/Y/heads");
    if (!x || heads == seen_.end()) return add_whole(path, x);
    const double size = largest_entry_of(x);
    const Tensor each = cast(heads->second.to(cpu()), Dtype::f64);
    const int last = each.rank() - 1;
    for (Index head = 0; head < each.size(last); ++head) {
      const Tensor one = reshape(slice(each, last, head, 1), x.shape());
      made_.parts.push_back({path, head, one});
      x = x - one;
    }
    // A bias, and not what rounding leaves.
    if (largest_entry_of(x) > 1e-5 * size) made_.parts.push_back({path, -1, x});
    return true;
  }

  const SitePlace& place_;
  const Checked& program_;
  const Activations& seen_;
  const int input_;  // its value; -1: the model's own program
  StreamParts& made_;
};

}  // namespace

// Adds the state that goes into the first block.
static std::string add_start(const Model& model, const SitePlace& whole, int number,
                             const Activations& seen, StreamParts& made) {
  const CheckedCall& call = model.program().calls[model.program().values[number].index];
  return Sums(whole, seen, -1, made).add(call.passed[0].value)
             ? ""
             : "What goes into the first block is no sum of named values.";
}

static const char* without_stream = "This model has no residual stream, a block that is repeated.";

StreamParts stream_start(const Model& model, const Activations& seen) {
  StreamParts made;
  const Stream stream = stream_of(model);
  if (stream.value < 0) return {{}, without_stream};
  made.refused = add_start(model, programs_of(model).front(), stream.value, seen, made);
  return made;
}

StreamParts stream_parts(const Model& model, const Activations& seen) {
  StreamParts made;
  const Stream stream = stream_of(model);
  if (stream.value < 0) return {{}, without_stream};
  const std::vector<SitePlace> programs = programs_of(model);
  made.refused = add_start(model, programs.front(), stream.value, seen, made);
  if (!made.refused.empty()) return {{}, made.refused};
  const std::string own = model.program().values[stream.value].name + "/";
  for (const SitePlace& place : programs) {
    const bool is_block =
        place.path.starts_with(own) && place.path.find('/', own.size()) == std::string::npos;
    if (!is_block) continue;
    const Checked& block = *place.program;
    if (!Sums(place, seen, block.inputs[0], made).add(block.result))
      return {{},
              text(path_of(place, block.result), " is no sum of ", block.input_names[0],
                   " and what the block adds, so no part of it reaches the logits as it is.")};
  }
  return made;
}

}  // namespace tete
