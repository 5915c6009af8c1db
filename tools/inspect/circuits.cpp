#include "tools/inspect/circuits.hpp"

#include <algorithm>

#include "core/ops.hpp"
#include "nn/trace.hpp"
#include "tools/inspect/lone_tokens.hpp"
#include "tools/inspect/model_end.hpp"
#include "tools/inspect/result_by_heads.hpp"
#include "tools/inspect/stream_parts.hpp"

namespace tete {

namespace {

// Rows of x[k, d], each `times` in a row; or all of them, `times` one after the other.
Tensor repeated_rows(const Tensor& x, Index times, bool each) {
  const Index k = x.size(0), d = x.size(1);
  const Tensor all = each ? broadcast(reshape(x, {k, 1, d}), {k, times, d})
                          : broadcast(reshape(x, {1, k, d}), {times, k, d});
  return reshape(all, {k * times, 1, d});
}

bool is_picked(const Selection& selection, Index head) {
  return selection.picks.empty() ||
         std::any_of(selection.picks.begin(), selection.picks.end(),
                     [&](const Selection::Pick& pick) { return pick.element == head; });
}

// The maps of which the softmaxes are, or of which the weights are made.
std::vector<int> logits_of(const Roles& roles) {
  std::vector<int> found;
  const bool has_softmax = std::any_of(roles.maps.begin(), roles.maps.end(),
                                       [](const Roles::Map& map) { return map.is_softmax; });
  for (const Roles::Tie& tie : roles.ties) {
    const bool is_last = has_softmax ? roles.maps[tie.to].is_softmax : tie.to == roles.weights;
    if (is_last && std::find(found.begin(), found.end(), tie.from) == found.end())
      found.push_back(tie.from);
  }
  return found;
}

class CircuitFinder {
 public:
  CircuitFinder(const Trained& trained, const TextReading& reading, const Activations& seen)
      : trained_(trained),
        reading_(reading),
        seen_(seen),
        lone_(trained, reading, seen),
        places_(places_of(trained.model)) {}

  Circuits find(const std::vector<std::string>& heads) {
    for (const std::string& written : heads) {
      const Selection selection = Selection::read("--circuits", written);
      for (const Selection::Pick& pick : selection.picks)
        if (!pick.axis.empty())
          bad_input("--circuits ", written, ": in brackets stand heads' numbers, as in [2], not '",
                    pick.axis, "=", pick.element, "'");
      for (const SitePlace& place : meant(selection)) look(place, selection);
    }
    return std::move(made_);
  }

 private:
  std::vector<SitePlace> meant(const Selection& selection) const {
    std::vector<SitePlace> found;
    std::vector<std::string> paths;
    for (const SitePlace& place : places_) {
      paths.push_back(place.path);
      if (fits(selection.pattern, place.path)) found.push_back(place);
    }
    if (found.empty())
      bad_input("--circuits ", selection.written, ": expected the path of an attention",
                choice(selection.pattern, paths));
    return found;
  }

  void look(const SitePlace& place, const Selection& selection) {
    const std::string why = lone_.refusal(place);
    if (!why.empty()) return made_.missing.push_back(why);
    const auto [X, M] = lone_.read_by(place);
    const size_t before = made_.found.size();
    Index heads = 0;
    add_qk(place, selection, X, M, heads);
    add_ov(place, selection, X, M, heads);
    if (!selection.picks.empty() && heads > 0 && before == made_.found.size())
      bad_input("--circuits ", selection.written, ": ", place.path, " has ", counted(heads, "head"),
                ", so the last is ", heads - 1);
  }

  // ---- QK ----

  void add_qk(const SitePlace& place, const Selection& selection, const Tensor& X, const Tensor& M,
              Index& heads) {
    const Checked& program = *place.program;
    const Roles roles = roles_of(program);
    const std::vector<int> maps = logits_of(roles);
    if (program.self_only || maps.empty()) {
      made_.missing.push_back(
          place.path + (maps.empty() ? " has no QK circuit: what enters its softmax has no name."
                                     : " has no QK circuit: its text reads one sequence, so its "
                                       "query and its key are one token."));
      return;
    }
    const Index k = std::ssize(lone_.tokens());
    const Activations made =
        lone_.run(place, repeated_rows(X, k, true), repeated_rows(M, k, false));
    for (int number : maps) {
      const Roles::Map& map = roles.maps[number];
      const CheckedValue& v = program.values[map.value];
      const auto at = made.find(place.path + "/" + v.name);
      if (at == made.end() || at->second.size() % (k * k) != 0) continue;
      const Index count = at->second.size() / (k * k);
      heads = std::max(heads, count);
      const Tensor all = reshape(at->second, {k, k, count});
      for (Index head = 0; head < count; ++head)
        if (is_picked(selection, head)) add("QK", place, v.name, head, row_of(all, 2, head));
    }
  }

  // ---- OV ----

  void add_ov(const SitePlace& place, const Selection& selection, const Tensor& X, const Tensor& M,
              Index& heads) {
    const Activations made = lone_.run(place, repeated_rows(X, 1, true), repeated_rows(M, 1, true));
    const Tensor each = result_by_heads(place, made);
    const std::string why = each ? end_refusal() : "its result is no sum over heads.";
    if (!why.empty()) return made_.missing.push_back(place.path + " has no OV circuit: " + why);
    const Index k = std::ssize(lone_.tokens()), count = each.size(each.rank() - 1);
    heads = std::max(heads, count);
    const Roles roles = roles_of(*place.program);
    for (Index head = 0; head < count; ++head) {
      if (!is_picked(selection, head)) continue;
      const Tensor added = reshape(slice(each, each.rank() - 1, head, 1), {k, each.size(2)});
      add("OV", place, place.program->values[roles.contribution].name, head,
          of_tokens(end_->logits(cast(added, Dtype::f64))));
    }
  }

  std::string end_refusal() {
    if (end_) return end_->is_sum() ? "" : no_sum;
    const StreamParts parts = stream_parts(trained_.model, seen_);
    if (!parts.refused.empty()) return parts.refused;
    Tensor z;
    for (const StreamPart& part : parts.parts) z = z ? z + part.value : part.value;
    end_.emplace(trained_, stream_of(trained_.model).value, row_of(z, 0, reading_.position));
    return end_refusal();
  }

  // The columns of these tokens, of logits[k, v].
  Tensor of_tokens(const Tensor& logits) const {
    const std::vector<double> all = logits.values();
    std::vector<double> kept;
    for (Index row = 0; row < logits.size(0); ++row)
      for (int64_t token : lone_.tokens()) kept.push_back(all[row * logits.size(1) + token]);
    return Tensor::of<double>({logits.size(0), std::ssize(lone_.tokens())}, kept);
  }

  void add(const char* kind, const SitePlace& place, const std::string& tensor, Index head,
           const Tensor& values) {
    const auto is_it = [&](const Circuit& c) {
      return c.kind == kind && c.path == place.path && c.tensor == tensor && c.head == head;
    };
    if (std::none_of(made_.found.begin(), made_.found.end(), is_it))
      made_.found.push_back({kind, place.path, tensor, head, lone_.tokens(), values});
  }

  static constexpr const char* no_sum =
      "the logits are no sum of what is added to the residual stream.";
  const Trained& trained_;
  const TextReading& reading_;
  const Activations& seen_;
  LoneTokens lone_;
  const std::vector<SitePlace> places_;
  std::optional<ModelEnd> end_;
  Circuits made_;
};

}  // namespace

Circuits circuits_of(const Trained& trained, const TextReading& reading, const Activations& seen,
                     const std::vector<std::string>& heads) {
  return CircuitFinder(trained, reading, seen).find(heads);
}

}  // namespace tete
