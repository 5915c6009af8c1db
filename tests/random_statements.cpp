// The statements of random texts, one function for each kind.
#include "tests/random_draft.hpp"

namespace tete::tests {

namespace {

constexpr size_t most_axes = 4;

using Maker = void (*)(Draft&);

// ---- Sums ---------------------------------------------------------------------------------------

// Each name that two share stays or is summed; sequences rarely where nothing is hidden.
void contraction(Draft& draft) {
  const int a = draft.find_real();
  const int b = draft.find([&](const Draft::Value& v) {
    return std::any_of(v.axes.begin(), v.axes.end(),
                       [&](const std::string& axis) { return has(draft[a].axes, axis); });
  });
  const bool hidden = draft[a].hidden || draft[b].hidden;
  Axes axes;
  bool sums_long = false;
  for (const std::string& axis : joined(draft[a].axes, draft[b].axes)) {
    const bool shared = has(draft[a].axes, axis) && has(draft[b].axes, axis);
    const double share = !is_long(axis) ? 0.5 : axis != "n" && hidden ? 0.7 : 0.06;
    if (shared && draft.chance(share)) sums_long |= is_long(axis);
    else axes.push_back(axis);
  }
  if (axes.size() > most_axes) return;
  draft.add(axes, "einsum(" + draft.use(a) + ", " + draft.use(b) + ")", hidden && !sums_long);
}

void projection(Draft& draft) {
  const int x = draft.find_real();
  Axes axes, inside;
  for (const std::string& axis : draft[x].axes)
    (is_long(axis) || draft.chance(0.3) ? axes : inside).push_back(axis);
  if (inside.empty()) return;
  Axes made = inside;
  for (const char* axis : {"k", "h"})
    if (!has(draft[x].axes, axis) && axes.size() < 3 && draft.chance(0.6))
      axes.push_back(axis), made.push_back(axis);
  const bool hidden = draft[x].hidden;
  draft.add(axes, "einsum(" + draft.use(x) + ", " + draft.parameter(made) + ")", hidden);
}

// The sum over a sequence with weights of its own.
void weighted_sum(Draft& draft) {
  const int x = draft.find([](const Draft::Value& v) { return !memory_of(v.axes).empty(); });
  if (x < 0) return;
  const std::string s = memory_of(draft[x].axes);
  const int w = draft.weights(s);
  if (w < 0) return;
  Axes axes = without(joined(draft[w].axes, draft[x].axes), s);
  for (const std::string& axis : Axes(axes))
    if (!is_long(axis) && has(draft[w].axes, axis) && has(draft[x].axes, axis) && draft.chance(0.3))
      axes = without(axes, axis);
  if (axes.size() > most_axes) return;
  const bool hidden = draft[x].hidden && !memory_of(axes).empty();
  draft.add(axes, "einsum(" + draft.use(w) + ", " + draft.use(x) + ")", hidden);
}

void reduction(Draft& draft) {
  const bool of_hidden = draft.chance(0.5);
  const int x = draft.find([&](const Draft::Value& v) {
    return (!of_hidden || v.hidden) && v.element != Element::whole;
  });
  if (x < 0) return;
  const bool is_truth = draft[x].element == Element::truth;
  const std::string s = memory_of(draft[x].axes);
  const std::string axis = !s.empty() && draft.chance(0.5) ? s : draft.one_of(draft[x].axes);
  std::string name = draft.one_of<std::string>({"sum", "mean", "max", "min", "logsumexp"});
  if (is_truth) name = draft.one_of<std::string>({"sum", "any", "min", "max"});
  const bool masks = name != "sum" && name != "any";
  const Axes axes = without(draft[x].axes, axis);
  const std::string mask = masks ? draft.mask_key(draft[x].axes) : "";
  const bool stays = is_truth && name != "sum";
  draft.add(axes, name + "(" + draft.use(x) + ", reduced_dim=" + axis + mask + ")",
            draft[x].hidden && !is_long(axis), stays ? Element::truth : Element::real);
}

// ---- Elements -----------------------------------------------------------------------------------

void function(Draft& draft) {
  static const std::vector<std::string> keeping = {
      "sqrt(relu(%))", "sin(%)",  "tanh(%)",     "erf(%)",         "relu(%)",        "elu(%)",
      "silu(%)",       "gelu(%)", "gelu_erf(%)", "abs(%)",         "clip(%, -1, 1)", "-%",
      "% ^ 2",         "% * 3",   "% / 2",       "log(1 + abs(%))"};
  static const std::vector<std::string> others = {
      "exp(clip(%, -3, 3))",    "cos(%)", "sigmoid(%)", "softplus(%)",
      "clip(%, 1, 2)",          "% + 1",  "1 - %",      "2 ^ clip(%, -2, 2)",
      "exp(clip(%, -3, 3)) - 1"};
  const int x = draft.find_real();
  const bool keeps = draft.chance(0.7), hidden = draft[x].hidden && (keeps || draft.chance(0.3));
  const Axes axes = draft[x].axes;
  draft.add(axes, filled(draft.one_of(keeps ? keeping : others), {draft.use(x)}), hidden);
}

void combination(Draft& draft) {
  static const std::vector<std::string> forms = {
      "% + %", "% - %", "% * %", "% / (1 + abs(%))", "% * sigmoid(%)", "% * % + 1"};
  const int a = draft.find_real(), b = draft.find_real();
  const Axes axes = joined(draft[a].axes, draft[b].axes);
  if (axes.size() > most_axes) return;
  const size_t form = draft.below(forms.size());
  const bool both = draft[a].hidden && draft[b].hidden, one = draft[a].hidden || draft[b].hidden;
  draft.add(axes, filled(forms[form], {draft.use(a), draft.use(b)}), form < 2 ? both : one);
}

void choice(Draft& draft) {
  const int x = draft.find_real();
  Axes axes = draft[x].axes;
  const std::string s = memory_of(axes);
  const int own = draft.find([&](const Draft::Value& v) { return v.element == Element::truth; });
  std::string see;
  if (own >= 0 && draft.chance(0.4)) {
    axes = joined(axes, draft[own].axes);
    see = draft.use(own);
  } else if (!s.empty() && has({"m", "l"}, s)) {
    axes = joined(axes, {"n"});
    see = draft.condition("n", s);
  }
  if (see.empty() || axes.size() > most_axes) return;
  const std::string number = draft.one_of<std::string>({"0", "0", "0", "-1e30", "1"});
  const std::string form = draft.chance(0.9) ? "select(%, %, %)" : "select(not (%), %, %)";
  const int y = draft.find_within(axes);
  const bool two = draft.chance(0.15) && y >= 0;
  draft.add(axes, filled(form, {see, draft.use(x), two ? draft.use(y) : number}),
            number == "0" && !two);
}

void numbers(Draft& draft) {
  const int x = draft.find_real();
  const std::string n = draft.one_of(draft.sequences());
  const std::string form =
      draft.one_of<std::string>({"% * log(S)", "% / S", "% / (position(S) + 1)", "% + causal",
                                 "% * (position(S) + 1)", "% / sqrt(k)", "% + position(S)"});
  const bool has_position = form.find("position") != std::string::npos;
  const Axes axes = has_position ? joined(draft[x].axes, {n}) : draft[x].axes;
  if (axes.size() > most_axes) return;
  const bool hidden = draft[x].hidden && form.find('+') != 2;
  draft.add(axes, filled(replaced(form, 'S', n), {draft.use(x)}), hidden);
}

void truth(Draft& draft) {
  const Axes all = draft.sequences();
  const std::string q = draft.one_of(all), s = draft.one_of(all);
  const int a = draft.find_real(), b = draft.find_within(draft[a].axes);
  if (q == s || draft.chance(0.25)) {
    const std::string other = b >= 0 && b != a ? draft.use(b) : "0";
    draft.add(draft[a].axes, draft.use(a) + draft.one_of<std::string>({" > ", " <= "}) + other,
              false, Element::truth);
  } else {
    draft.add({q, s}, draft.condition(q, s), true, Element::truth);
  }
}

void table(Draft& draft) {
  const int x = draft.find(
      [](const Draft::Value& v) { return std::any_of(v.axes.begin(), v.axes.end(), is_long); });
  Axes some;
  for (const std::string& axis : draft[x].axes)
    if (draft.chance(0.6)) some.push_back(axis);
  if (some.empty()) return;
  const std::string form = draft.one_of<std::string>({"% + %", "% * %"});
  const bool hidden = draft[x].hidden && form == "% * %";
  draft.add(draft[x].axes, filled(form, {draft.use(x), draft.parameter(some)}), hidden);
}

// ---- Along an axis ------------------------------------------------------------------------------

void soft(Draft& draft) {
  const int x = draft.find_real();
  const Axes axes = draft[x].axes;
  const std::string axis = draft.one_of(axes),
                    name = draft.chance(0.8) ? "softmax(" : "log_softmax(";
  const int extra = draft.find_within(without(axes, axis));
  std::string keys = ", reduced_dim=" + axis + draft.mask_key(axes);
  const std::string first = draft.use(x);
  if (extra >= 0 && draft.chance(0.25)) keys += ", extra_logit=" + draft.use(extra);
  draft.add(axes, name + first + keys + ")", is_long(axis) && has(axes, "n") && axis != "n");
}

void along(Draft& draft) {
  const int x = draft.find_real();
  const Axes axes = draft[x].axes;
  const std::string axis = draft.one_of(axes), n = draft.one_of(draft.sequences());
  const bool hidden = draft[x].hidden && !is_long(axis);
  const std::string form =
      draft.one_of<std::string>({"layer_norm(%, dim=", "rms_norm(%, dim=", "dropout(%, shared=",
                                 "rotate(%, position(S), dim="});
  if (form[1] == 'o' && !has({"k", "h"}, axis)) return;
  draft.add(form[2] == 't' ? joined(axes, {n}) : axes,
            filled(replaced(form, 'S', n), {draft.use(x)}) + axis + ")", hidden);
}

void largest(Draft& draft) {
  const int x = draft.find([](const Draft::Value& v) {
    return v.element == Element::real && !has(v.axes, "t") && v.axes.size() > 0;
  });
  if (x < 0) return;
  const std::string s = draft.one_of(draft[x].axes);
  Axes axes = draft[x].axes;
  std::replace(axes.begin(), axes.end(), s, std::string("t"));
  const std::string mask = draft.mask_key(draft[x].axes);
  const int at =
      draft.add(axes, "top_k(" + draft.use(x) + ", reduced_dim=" + s + ", dim=t" + mask + ")",
                false, Element::whole);
  const int from = draft.chance(0.5) ? x : draft.find_over(s);
  const Axes found = joined(without(draft[from].axes, s), axes);
  if (found.size() > most_axes || has(draft[from].axes, "t")) return;
  const int read =
      draft.add(found, "gather(" + draft.use(from) + ", " + draft.use(at) + ", dim=" + s + ")");
  const std::string q = draft.one_of(draft.sequences());
  if (has(found, q) && draft.chance(0.7))
    draft.add(found, "select(" + draft.use(at) + draft.one_of<std::string>({" <= ", " < "}) +
                         "position(" + q + "), " + draft.use(read) + ", 0)");
}

// The largest of pieces that each query sees, or nearly, and what they are of, hidden alike.
void largest_pieces(Draft& draft) {
  const int x = draft.find([](const Draft::Value& v) {
    return v.element == Element::real && v.axes.size() < most_axes && !has(v.axes, "t") &&
           (has(v.axes, "c") || has(v.axes, "u"));
  });
  if (x < 0) return;
  const std::string s = has(draft[x].axes, "c") ? "c" : "u";
  const int seen = draft.weights(s), other = draft.chance(0.9) ? seen : draft.weights(s);
  if (seen < 0 || other < 0) return;
  Axes axes = joined(without(draft[x].axes, s), {"n"});
  if (axes.size() > 2 || has(draft[seen].axes, "t")) return;
  const int score = draft.add(joined(axes, {s}), draft.use(x) + " * 1 + position(n) * 0.01");
  axes.push_back("t");
  const std::string mask =
      draft.chance(0.8) && draft[seen].element == Element::truth ? ", mask=" + draft.use(seen) : "";
  const int at =
      draft.add(axes, "top_k(" + draft.use(score) + ", reduced_dim=" + s + ", dim=t" + mask + ")",
                false, Element::whole);
  const auto found = [&](int value) {
    const Axes all = joined(without(draft[value].axes, s), axes);
    return draft.add(all, "gather(" + draft.use(value) + ", " + draft.use(at) + ", dim=" + s + ")",
                     false, draft[value].element);
  };
  const int read = found(x), hides = found(other);
  const bool is_truth = draft[hides].element == Element::truth;
  draft.add(joined(draft[read].axes, draft[hides].axes),
            is_truth ? "select(" + draft.use(hides) + ", " + draft.use(read) + ", 0)"
                     : draft.use(hides) + " * " + draft.use(read));
}

void lookup(Draft& draft) {
  const int x = draft.find_real();
  const std::string s = draft.one_of(draft[x].axes);
  const Axes all = without(draft.sequences(), s);
  if (all.empty()) return;
  const std::string q = draft.one_of(all), p = draft.one_of(all);
  std::vector<std::string> forms = {"clip(position(Q) - 1, 0, 100)",
                                    "position(Q)",
                                    "position(Q) // 2",
                                    "position(Q) % 2",
                                    "clip(position(Q) - position(P), 0, 100)",
                                    "clip(position(Q) - 2, 0, 3)"};
  if (!is_long(s))
    forms = {"position(Q) % 2", "clip(position(Q) - position(P), 0, 1)",
             "clip(bucket(position(P) - position(Q), 4, 8, 1), 0, 1)"};
  const std::string form = draft.one_of(forms);
  Axes axes = joined(without(draft[x].axes, s), {q});
  if (form.find('P') != std::string::npos) axes = joined(axes, {p});
  if (axes.size() > most_axes) return;
  const std::string at = replaced(replaced(form, 'Q', q), 'P', p);
  draft.add(axes, "gather(" + draft.use(x) + ", " + at + ", dim=" + s + ")", draft[x].hidden);
}

void scattering(Draft& draft) {
  const std::string s = draft.one_of(draft.sequences());
  const int x = draft.find([&](const Draft::Value& v) {
    return v.element == Element::real && has(v.axes, s) && (v.hidden || draft.chance(0.2));
  });
  const std::string to = draft.one_of<std::string>({"k", "t", s == "l" ? "m" : "l"});
  if (x < 0 || has(draft[x].axes, to) || (to == "m" && !draft.has_memory)) return;
  const std::string form = is_long(to) ? "position(S)" : "position(S) % 2";
  const int at = draft.add({s}, replaced(form, 'S', s), false, Element::whole);
  draft.add(
      joined(without(draft[x].axes, s), {to}),
      "scatter(" + draft.use(x) + ", " + draft.use(at) + ", reduced_dim=" + s + ", dim=" + to + ")",
      draft[x].hidden);
}

// ---- Windows, joins, names ----------------------------------------------------------------------

void cut(Draft& draft) {
  const int x = draft.find([](const Draft::Value& v) { return v.axes.size() < most_axes; });
  if (x < 0) return;
  const std::string s = draft.one_of(draft[x].axes),
                    drawn = draft.one_of<std::string>({"w", "v", "w", "j"}),
                    w = drawn == "j" && s == "n" && draft.chance(0.8) ? "i" : drawn;
  const bool is_back = w == "j" || w == "i";
  const std::string last = w == "w" ? "2" : "1";
  std::string keys = "into=(" + s + " " + w + "), ";
  const bool counts = s == "m" && draft.chance(0.6), reaches = draft.chance(0.2);
  if (counts) keys = "into=(u " + w + "), ";
  keys += is_back   ? "left=" + w + " - 1"
          : reaches ? "left=" + tete::text(w == "w") + ", right=1"
                    : "left=" + last;
  if (counts && draft.windows.empty() && !is_back) draft.windows = keys;
  if (counts) keys = draft.chance(0.9) && !draft.windows.empty() ? draft.windows : keys;
  const std::string place = keys.substr(keys.find(' ') + 1, 1);
  if (has(draft[x].axes, place) || has(draft[x].axes, "u") || (!is_long(s) && is_back)) return;
  Axes axes = draft[x].axes;
  if (counts) std::replace(axes.begin(), axes.end(), s, std::string("u"));
  axes.push_back(place);
  const std::string fill = draft.one_of<std::string>({"", "", ", fill=1", ", fill=-1e30"});
  draft.add(axes, "windows(" + draft.use(x) + ", dim=" + s + ", " + keys + fill + ")",
            draft[x].hidden, draft[x].element);
}

void blocks(Draft& draft) {
  const int x = draft.find_over("m");
  if (x < 0 || has(draft[x].axes, "v") || has(draft[x].axes, "c") || draft[x].axes.size() > 3)
    return;
  Axes axes = draft[x].axes;
  std::replace(axes.begin(), axes.end(), std::string("m"), std::string("c"));
  const int y =
      draft.add(joined(axes, {"v"}), "windows(" + draft.use(x) + ", dim=m, into=(c v), stride=2)",
                draft[x].hidden);
  if (draft.chance(0.7))
    draft.add(axes, "mean(" + draft.use(y) + ", reduced_dim=v)", draft[x].hidden);
}

void join(Draft& draft) {
  const std::string a = draft.one_of<std::string>({"d", "k", "h", "m"}),
                    b = a == "m" && draft.chance(0.5) ? "t" : a;
  const std::string e = a != "m" ? "e" : b == "t" ? "f" : "g";
  const int x = draft.find_over(a);
  if (x < 0 || has(draft[x].axes, e)) return;
  Axes like = draft[x].axes, axes = like;
  std::replace(like.begin(), like.end(), a, b);
  std::replace(axes.begin(), axes.end(), a, e);
  const int y = draft.find([&](const Draft::Value& v) {
    return v.element == Element::real && v.axes.size() == like.size() && is_within(v.axes, like);
  });
  if (y < 0 || (e == "e" && !draft.text.joined.empty() && draft.text.joined != a + " + " + a))
    return;
  if (e == "e") draft.text.joined = a + " + " + a;
  const bool hidden = draft[x].hidden && draft[y].hidden;
  const bool in_front = a != b && draft.chance(0.9);
  draft.add(axes,
            "concat(" + draft.use(in_front ? y : x) + ", " + draft.use(in_front ? x : y) +
                ", dim=" + e + ")",
            in_front ? draft[x].hidden : hidden);
}

void renaming(Draft& draft) {
  const int x = draft.find([](const Draft::Value& v) {
    return std::any_of(v.axes.begin(), v.axes.end(), [](const std::string& axis) {
      return has({"n", "m", "l"}, axis);
    });
  });
  if (const int c = draft.find([](const Draft::Value& v) { return has(v.axes, "c"); });
      c >= 0 && draft.chance(0.3)) {
    Axes axes = draft[c].axes;
    std::replace(axes.begin(), axes.end(), std::string("c"), std::string("p"));
    const bool hidden = draft[c].hidden;
    const Element element = draft[c].element;
    return void(draft.add(axes, draft.use(c, "c", "c=(p)"), hidden, element));
  }
  std::vector<std::string> from, to;
  for (const char* axis : {"n", "m", "l"}) {
    if (has(draft[x].axes, axis)) from.push_back(axis);
    else if (axis[0] != 'm' || draft.has_memory) to.push_back(axis);
  }
  if (to.empty()) return;
  const std::string a = draft.one_of(from), b = draft.one_of(to);
  Axes axes = draft[x].axes;
  std::replace(axes.begin(), axes.end(), a, b);
  const Element element = draft[x].element;
  draft.add(axes, draft.use(x, a, a + "=(" + b + ")"), draft[x].hidden, element);
}

void picking(Draft& draft) {
  const int x = draft.find_real();
  const std::string axis = draft.one_of(draft[x].axes), at = draft.chance(0.6) ? "0" : "1";
  const Axes rest = without(draft[x].axes, axis);
  const int y = draft.find(
      [&](const Draft::Value& v) { return v.element == Element::real && is_within(rest, v.axes); });
  const bool hidden = draft[x].hidden && !is_long(axis);
  if (y >= 0 && draft.chance(0.5)) {
    const std::string other = draft.use(y);
    draft.add(draft[y].axes, other + " - " + draft.use(x, axis, at));
  } else if (!rest.empty()) {
    draft.add(rest, draft.use(x, axis, at), hidden);
  }
}

void parts(Draft& draft) {
  const int x = draft.find([](const Draft::Value& v) {
    return v.element == Element::real && (has(v.axes, "k") || is_within({"a", "b"}, v.axes)) &&
           v.axes.size() < most_axes;
  });
  if (x < 0) return;
  const bool splits = has(draft[x].axes, "k");
  if (splits && (has(draft[x].axes, "a") || has(draft[x].axes, "b"))) return;
  Axes axes = splits ? without(draft[x].axes, "k") : without(without(draft[x].axes, "a"), "b");
  if (splits)
    return void(draft.add(joined(axes, {"a", "b"}), draft.use(x, "k", "k=(a b)"), draft[x].hidden));
  std::string left = "[";
  for (const std::string& axis : axes) left += axis + ", ";
  draft.add(joined(axes, {"k"}), draft.use(x), draft[x].hidden, Element::real, left + "k=(a b)]");
}

// ---- Calls --------------------------------------------------------------------------------------

void call(Draft& draft) {
  static const std::vector<std::string> bodies = {
      "  W[n, m] = softmax(S[n, m], reduced_dim=m)\n",
      "  W[n, m] = softmax(S[n, m], reduced_dim=n)\n",
      "  W[n, m] = select(visible(n, m), S[n, m], 0)\n", "  W[n, m] = tanh(S[n, m])\n",
      "  W[n, m] = select(position(m) <= position(n), S[n, m], 0)\n"};
  const auto is_sequence = [](const Draft::Value& v) {
    return v.element == Element::real && v.axes.size() == 2 && has({"n", "m", "l"}, v.axes[0]) &&
           has({"d", "k"}, v.axes[1]);
  };
  const int x = draft.find(is_sequence), m = draft.find([&](const Draft::Value&v) {
    return is_sequence(v) && v.axes[1] == draft[x].axes[1];
  });
  if (x < 0) return;
  if (!draft.text.defs.contains("Inner"))
    draft.text.defs["Inner"] =
        "def Inner(X[n, d], M[m, d], P[d, o] = normal(1)):\n"
        "  where o = d\n"
        "  S[n, m] = einsum(X[n, d], M[m, d])\n" +
        draft.one_of(bodies) +
        "  O[n, o] = einsum(W[n, m], M[m, d], P[d, o])\n"
        "  return O[n, o]\n";
  const Axes axes = draft[x].axes;
  draft.add(axes, "Inner(" + draft.use(x) + ", " + draft.use(m) + ")");
}

// Pieces of a memory that another def cuts; p is a name of theirs, or they are counted as c.
void pooling(Draft& draft) {
  const int x = draft.find([](const Draft::Value& v) {
    return v.element == Element::real && v.axes.size() == 2 && has({"m", "l"}, v.axes[0]);
  });
  if (x < 0) return;
  if (!draft.text.defs.contains("Pool"))
    draft.text.defs["Pool"] =
        "def Pool(S[q, d]):\n"
        "  where w = 2, c = q // 2\n"
        "  A[c, w, d] = windows(S[q, d], dim=q, into=(c w), stride=" +
        draft.one_of<std::string>({"w", "2", "2, right=1", "2, left=1"}) +
        ")\n"
        "  B[c, d] = " +
        draft.one_of<std::string>({"mean", "max", "sum"}) +
        "(A[c, w, d], reduced_dim=w)\n"
        "  return B[c, d]\n";
  const Axes axes = {draft.one_of<std::string>({"c", "c", "p"}), draft[x].axes[1]};
  draft.add(axes, "Pool(" + draft.use(x) + ")");
}

// A call of another def that takes a sequence: it sums what comes before, or has a size of its own.
void recurrence(Draft& draft) {
  const int x = draft.find([](const Draft::Value& v) {
    return v.element == Element::real && v.axes.size() == 2 && has({"n", "m", "l"}, v.axes[0]);
  });
  if (x < 0) return;
  if (!draft.text.defs.contains("Before"))
    draft.text.defs["Before"] =
        "def Before(S[q, d]):\n"
        "  Z[l, d] = S[q=(l), d]\n"
        "  C[q, l] = select(" +
        draft.one_of<std::string>({"position(l) <= position(q)", "position(l) < position(q)",
                                   "position(l) <= position(q) + 1"}) +
        ", 1, 0)\n"
        "  A[q, d] = einsum(C[q, l], Z[l, d])\n"
        "  return A[q, d]\n";
  draft.text.defs["Long"] =
      "def Long(S[q, d]):\n  where k = q + 1\n  A[k] = index(k) * 0.1\n  return A[k]\n";
  if (draft.chance(0.2)) return void(draft.add({"r"}, "Long(" + draft.use(x) + ")"));
  const Axes axes = draft[x].axes;
  draft.add(axes, "Before(" + draft.use(x) + ")");
}

const std::vector<Maker> makers = {
    contraction,  contraction, projection, weighted_sum, weighted_sum,   weighted_sum,
    weighted_sum, reduction,   reduction,  function,     function,       combination,
    combination,  choice,      choice,     numbers,      truth,          table,
    soft,         soft,        along,      largest,      largest_pieces, lookup,
    scattering,   cut,         cut,        blocks,       join,           renaming,
    renaming,     picking,     parts,      call,         pooling,        recurrence};

}  // namespace

void add_statement(Draft& draft) { draft.one_of(makers)(draft); }

}  // namespace tete::tests
