#include "tests/random_draft.hpp"

#include "core/error.hpp"

namespace tete::tests {

// ---- Axes and forms -----------------------------------------------------------------------------

Axes without(Axes axes, const std::string& axis) {
  std::erase(axes, axis);
  return axes;
}
Axes joined(Axes a, const Axes& b) {
  for (const std::string& axis : b)
    if (!has(a, axis)) a.push_back(axis);
  return a;
}
bool is_within(const Axes& a, const Axes& b) {
  return std::all_of(a.begin(), a.end(), [&](const std::string& axis) { return has(b, axis); });
}
bool is_long(const std::string& axis) {
  return std::string("nmlucjfiprg").find(axis) != std::string::npos;
}
std::string memory_of(const Axes& axes) {
  for (const std::string& axis : axes)
    if (is_long(axis) && axis != "n") return axis;
  return "";
}

std::string filled(const std::string& form, const std::vector<std::string>& parts) {
  std::string all;
  size_t next = 0;
  for (char c : form)
    if (c != '%') all += c;
    else all += parts[std::min(next++, parts.size() - 1)];
  return all;
}

std::string replaced(const std::string& text, char from, const std::string& to) {
  std::string all;
  for (char c : text)
    if (c == from) all += to;
    else all += c;
  return all;
}

namespace {

std::string bracketed(const std::string& name, const Axes& axes) {
  std::string all;
  for (const std::string& axis : axes) all += (all.empty() ? "" : ", ") + axis;
  return name + "[" + all + "]";
}

}  // namespace

// ---- Values -------------------------------------------------------------------------------------

int Draft::find_real() {
  return find([](const Value& v) { return v.element == Element::real; });
}
int Draft::find_over(const std::string& axis) {
  return find([&](const Value& v) { return v.element == Element::real && has(v.axes, axis); });
}
int Draft::find_within(const Axes& axes) {
  return find(
      [&](const Value& v) { return v.element == Element::real && is_within(v.axes, axes); });
}

std::string Draft::use(int value) {
  values[static_cast<size_t>(value)].used = true;
  return bracketed((*this)[value].name, (*this)[value].axes);
}

std::string Draft::use(int value, const std::string& axis, const std::string& word) {
  Axes axes = (*this)[value].axes;
  std::replace(axes.begin(), axes.end(), axis, word);
  values[static_cast<size_t>(value)].used = true;
  return bracketed((*this)[value].name, axes);
}

int Draft::add(Axes axes, const std::string& right, bool hidden, Element element,
               const std::string& left) {
  const std::string name = tete::text("Z", text.statements.size());
  values.push_back({name, axes, element, hidden});
  text.statements.push_back({name, left.empty() ? bracketed(name, axes) : name + left, right});
  return static_cast<int>(values.size()) - 1;
}

std::string Draft::parameter(const Axes& axes) {
  const std::string name = tete::text("P", text.parameters.size());
  Axes bounded = axes;
  for (std::string& axis : bounded)
    if (is_long(axis)) axis += "<=room";
  text.parameters.push_back({name, bracketed(name, bounded), "normal(1)"});
  return bracketed(name, axes);
}

// ---- Masks --------------------------------------------------------------------------------------

Axes Draft::sequences() const {
  Axes all = {"n"};
  if (has_memory) all.push_back("m");
  for (const Value& v : values)
    if (has(v.axes, "l")) return joined(all, {"l"});
  return all;
}

std::string Draft::condition(const std::string& q, const std::string& s) {
  static const std::vector<std::string> right = {"position(S) <= position(Q)",
                                                 "position(Q) >= position(S)",
                                                 "position(S) - position(Q) <= 0",
                                                 "position(S) + 1 <= position(Q)",
                                                 "position(S) <= position(Q) and position(S) > 1",
                                                 "not position(S) > position(Q)",
                                                 "position(S) == position(Q)"};
  static const std::vector<std::string> odd = {"position(S) < position(Q)",
                                               "position(S) <= position(Q) + 1",
                                               "position(Q) - position(S) < 2",
                                               "abs(position(Q) - position(S)) < 2",
                                               "position(S) > position(Q)",
                                               "index(S) <= index(Q)",
                                               "position(S) - 1 < position(Q)",
                                               "position(S) // 2 <= position(Q) // 2",
                                               "position(S) + 1 < position(Q) or position(S) == 0",
                                               "position(S) % 2 <= position(Q)",
                                               "position(S) <= 2 * position(Q)"};
  const bool of_call = (q == "n") != (s == "n") && q.find_first_of("nml") != std::string::npos;
  std::string form = chance(0.6) ? one_of(right) : one_of(odd);
  if (of_call && chance(0.5)) form = chance(0.8) ? "visible(Q, S)" : "visible(Q, S) and " + form;
  if (chance(0.08)) form = "not (" + form + ")";
  return replaced(replaced(form, 'Q', q), 'S', s);
}

std::string Draft::mask_key(const Axes& axes) {
  const std::string s = memory_of(axes);
  const bool fits = !s.empty() && has(axes, "n") && has({"m", "l"}, s);
  const int own =
      find([&](const Value& v) { return v.element == Element::truth && is_within(v.axes, axes); });
  if (own >= 0 && chance(0.4)) return ", mask=" + use(own);
  if (fits && chance(0.3)) return ", mask=" + condition("n", s);
  return "";
}

int Draft::weights(const std::string& axis) {
  const int known = find([&](const Value& v) {
    const auto is_other = [&](const std::string& a) { return is_long(a) && a != "n" && a != axis; };
    return v.hidden && has(v.axes, "n") && has(v.axes, axis) &&
           std::none_of(v.axes.begin(), v.axes.end(), is_other);
  });
  if (known >= 0 && chance(0.7)) return known;
  if (axis == "p" && chance(0.7)) {  // pieces under another name
    const int pieces = weights("c");
    if (pieces < 0) return pieces;
    Axes axes = (*this)[pieces].axes;
    std::replace(axes.begin(), axes.end(), std::string("c"), std::string("p"));
    const Element element = (*this)[pieces].element;
    return add(axes, use(pieces, "c", "c=(p)"), true, element);
  }
  if (axis == "u" || axis == "c") return weights_of_windows(axis);
  return axis == "m" || axis == "l" ? new_weights(axis) : known;
}

int Draft::new_weights(const std::string& axis) {
  const Axes pair = {"n", axis};
  const int logits = find([&](const Value& v) {
    return v.element == Element::real && is_within(pair, v.axes) && v.axes.size() <= 3 &&
           !has(v.axes, axis == "m" ? "l" : "m");
  });
  if (logits < 0 || chance(0.15)) return add(pair, condition("n", axis), true, Element::truth);
  const Axes axes = (*this)[logits].axes;
  const std::string x = use(logits), see = condition("n", axis);
  switch (below(8)) {
    case 0:
      return add(axes, "select(" + see + ", " + x + ", " + (chance(0.9) ? "0" : "1") + ")", true);
    case 1:
      return add(axes, x + " * (" + see + ")", true);
    case 2:
      return add(axes, "log_softmax(" + x + ", reduced_dim=" + axis + ")", true);
    case 3:
      return add(axes, "exp(clip(" + x + ", -3, 3)) * (" + see + ")", true);
    default:
      return add(axes, "softmax(" + x + ", reduced_dim=" + axis + mask_key(axes) + ")", true);
  }
}

// Windows of the mask as of the values, or nearly.
int Draft::weights_of_windows(const std::string& axis) {
  if (!has_memory || (axis == "u" && windows.empty())) return -1;
  const int seen = add({"n", "m"}, condition("n", "m"), true, Element::truth);
  std::string keys = axis == "u" ? windows : "into=(c v), stride=2";
  const std::string place = keys.substr(keys.find(' ') + 1, 1);
  if (chance(0.1)) keys += ", right=1";
  if (chance(0.5)) keys += ", fill=1";
  const int cut = add({"n", axis, place}, "windows(" + use(seen) + ", dim=m, " + keys + ")", true,
                      Element::truth);
  const std::string how = chance(0.85) ? "min(" : "any(";
  return add({"n", axis}, how + use(cut) + ", reduced_dim=" + place + ")", true, Element::truth);
}

}  // namespace tete::tests
