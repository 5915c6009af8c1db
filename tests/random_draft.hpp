// A random text under way: the values that its statements have so far.
#pragma once
#include <algorithm>
#include <random>

#include "nn/language/builtins.hpp"
#include "tests/random_text.hpp"

namespace tete::tests {

using Axes = std::vector<std::string>;

inline bool has(const Axes& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}
Axes without(Axes axes, const std::string& axis);
// Each axis of a, then those of b that a lacks.
Axes joined(Axes a, const Axes& b);
bool is_within(const Axes& a, const Axes& b);
// True if the axis is a sequence or counts positions of one.
bool is_long(const std::string& axis);
// The first long axis that is not n, or "".
std::string memory_of(const Axes& axes);

// `form` with the first % replaced by the first of `parts`, and so on; the last stays for the rest.
std::string filled(const std::string& form, const std::vector<std::string>& parts);
// `text` with each letter `from` replaced.
std::string replaced(const std::string& text, char from, const std::string& to);

struct Draft {
  struct Value {
    std::string name;
    Axes axes;
    Element element = Element::real;
    bool hidden = false;  // made to be 0 in the future, perhaps wrongly
    bool used = false;
  };

  explicit Draft(uint64_t seed) : random(seed) {}

  std::mt19937_64 random;
  RandomText text = {};
  std::vector<Value> values = {};
  std::string windows = {};  // the keys of those that u counts
  bool has_memory = false;

  size_t below(size_t count) { return random() % count; }
  bool chance(double share) { return static_cast<double>(below(1000)) < share * 1000; }
  template <class T>
  T one_of(const std::vector<T>& all) {
    return all[below(all.size())];
  }

  const Value& operator[](int value) const { return values[static_cast<size_t>(value)]; }

  // A value with axes that fits, rather one that nothing uses yet; or -1.
  template <class Fits>
  int find(const Fits& fits) {
    std::vector<int> all, unused;
    for (size_t i = 0; i < values.size(); ++i)
      if (!values[i].axes.empty() && fits(values[i]))
        (values[i].used ? all : unused).push_back(static_cast<int>(i));
    if (!unused.empty() && (all.empty() || chance(0.7))) return one_of(unused);
    return all.empty() ? -1 : one_of(all);
  }
  int find_real();
  // One with this axis.
  int find_over(const std::string& axis);
  // A value whose axes are all among these.
  int find_within(const Axes& axes);

  // The use of a value: "Z3[n, m]"; with another word for one axis, "Z3[n=(l), m]" or "Z3[0, m]".
  std::string use(int value);
  std::string use(int value, const std::string& axis, const std::string& word);
  // Adds a statement and returns its value. `left`: the axes as the left writes them, if otherwise.
  int add(Axes axes, const std::string& right, bool hidden = false, Element element = Element::real,
          const std::string& left = "");
  // The use of a new parameter, which has a row for each position of a long axis.
  std::string parameter(const Axes& axes);

  // The sequences that the text has so far.
  Axes sequences() const;
  // A condition for the positions of s that q sees, or nearly those.
  std::string condition(const std::string& q, const std::string& s);
  // ", mask=…" for a value with these axes, or "".
  std::string mask_key(const Axes& axes);
  // A value [n, axis, …] that hides the future of `axis`, or nearly; or -1.
  int weights(const std::string& axis);

 private:
  int new_weights(const std::string& axis);
  int weights_of_windows(const std::string& axis);
};

// Adds statements of one kind, or none where no value fits.
void add_statement(Draft& draft);

}  // namespace tete::tests
