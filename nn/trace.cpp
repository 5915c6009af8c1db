#include "nn/trace.hpp"

#include <optional>
#include <set>

#include "nn/tap_names.hpp"

namespace tete {

namespace {

// * stands for any letters but the separator, ** for any parts with their separators.
bool fits_parts(std::string_view pattern, std::string_view name, char separator) {
  const size_t width = name.size() + 1;
  std::vector<bool> fit((pattern.size() + 1) * width);  // [i, j]: pattern from i fits name from j
  fit.back() = true;
  for (size_t i = pattern.size(); i-- > 0;) {
    const bool many = pattern.substr(i).starts_with("**");
    for (size_t j = width; j-- > 0;) {
      const auto from = [&](size_t p, size_t n) { return fit[p * width + n]; };
      const bool more = j < name.size(), part = j == 0 || name[j - 1] == separator;
      bool fits;
      if (many) {
        const bool no_part = part && i + 2 < pattern.size() && pattern[i + 2] == separator;
        fits = from(i + 2, j) || (more && from(i, j + 1)) || (no_part && from(i + 3, j));
      } else if (pattern[i] == '*') {
        fits = from(i + 1, j) || (more && name[j] != separator && from(i, j + 1));
      } else {
        fits = more && pattern[i] == name[j] && from(i + 1, j + 1);
      }
      fit[i * width + j] = fits;
    }
  }
  return fit[0];
}

}  // namespace

bool fits(const std::string& pattern, const std::string& path) {
  const bool parts = (pattern + path).find('/') != std::string::npos;
  return fits_parts(pattern, path, parts ? '/' : '.');
}

namespace {

// True if a pattern may mean TransformerLens's names, not paths; ** alone means paths.
bool is_of_others(const std::string& pattern) {
  return pattern.find('/') == std::string::npos &&
         (pattern.find('.') != std::string::npos || pattern.starts_with("hook_"));
}

std::string lower(std::string word) {
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return word;
}

// "; did you mean 'x'?", or "". Letters of another case are nearer than others.
std::string meant(const std::string& pattern, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (fits(lower(pattern), lower(name))) return text("; did you mean '", name, "'?");
  return suggestion(pattern, names);
}

// A dense copy without a graph, which keeps no other storage alive.
Tensor kept(const Tensor& x) {
  Tensor copy = Tensor::empty(x.shape(), x.dtype(), x.backend());
  copy_onto(x.detach(), copy);
  return copy;
}

// The next part of each name with a beginning that fits the pattern. The pattern ends with a
// separator or is empty.
std::set<std::string> parts_behind(const std::string& pattern, const std::set<std::string>& names,
                                   char separator) {
  std::set<std::string> parts;
  for (const std::string& name : names)
    for (size_t from = 0, end = 0; end != std::string::npos; from = end + 1) {
      end = name.find(separator, from);
      if (fits_parts(pattern, name.substr(0, from), separator))
        parts.insert(name.substr(from, end - from));
    }
  return parts;
}

// The parts under the longest folder of a pattern that fits any: "; under 'decoder/0/' there are
// ff, resid, self".
std::string what_there_is(const std::string& pattern, const std::set<std::string>& names,
                          char separator) {
  constexpr size_t most = 24;
  for (std::string folder = pattern; !names.empty();) {
    const size_t end = folder.find_last_of(separator);
    folder.resize(end == std::string::npos ? 0 : end + 1);
    const std::set<std::string> parts = parts_behind(folder, names, separator);
    if (parts.empty() && !folder.empty()) {
      folder.pop_back();
      continue;
    }
    std::string all;
    size_t count = 0;
    for (const std::string& part : parts)
      if (++count <= most) all += (count > 1 ? ", " : "") + part;
    if (count > most) all += ", …";
    return text("; ", folder.empty() ? "" : text("under '", folder, "' "), "there are ", all);
  }
  return "";
}

// The patterns of one run, and the values that they ask for.
class Taps {
 public:
  void add(const std::string& pattern) { patterns_.push_back({pattern}); }
  void enter(const std::string& path, const Checked& program) {
    if (mixes_logits(program)) mixing_.insert(path);
  }
  // The names of the value at the path that the pattern fits.
  std::vector<TapName> asked(int pattern, const std::string& path) {
    Pattern& p = patterns_[pattern];
    std::vector<TapName> ways;
    for (const TapName& name : names_of(path)) {
      const bool other = name.name != path;
      if ((!other || is_of_others(p.text)) && fits_parts(p.text, name.name, other ? '.' : '/'))
        ways.push_back(name);
    }
    p.met |= !ways.empty();
    return ways;
  }
  bool asks(int from, int to, const std::string& path) {
    bool any = false;
    for (int i = from; i < to; ++i) any |= !asked(i, path).empty();
    return any;
  }
  void check_met() const {
    for (const Pattern& p : patterns_) {
      if (p.met) continue;
      const bool others = is_of_others(p.text);
      std::set<std::string> names;
      for (const auto& [path, all] : names_)
        for (const TapName& name : all)
          if (others ? name.name != path : name.name == path) names.insert(name.name);
      const std::string near = meant(p.text, {names.begin(), names.end()});
      bad_input("nothing in this model is at '", p.text, "'",
                near.empty() ? what_there_is(p.text, names, others ? '.' : '/') : near);
    }
  }

 private:
  struct Pattern {
    std::string text;
    bool met = false;
  };
  const std::vector<TapName>& names_of(const std::string& path) {
    const auto at = names_.find(path);
    if (at != names_.end()) return at->second;
    const Surroundings around{[this](const std::string& other) { return names_.contains(other); },
                              [this](const std::string& scope) { return mixing_.contains(scope); }};
    std::vector<TapName> names{{path}};
    for (TapName& name : tap_names(path, around)) names.push_back(std::move(name));
    return names_[path] = std::move(names);
  }

  std::vector<Pattern> patterns_;
  std::map<std::string, std::vector<TapName>> names_;  // by the paths that were offered
  std::set<std::string> mixing_;                       // paths of texts that mix logits
};

}  // namespace

std::map<std::string, Tensor> trace(const Forward& forward,
                                    const std::vector<std::string>& patterns, const Call& call,
                                    const std::vector<Hook>& hooks) {
  std::map<std::string, Tensor> seen;
  Taps taps;
  for (const std::string& pattern : patterns) taps.add(pattern);
  for (const Hook& hook : hooks) taps.add(hook.pattern);
  const auto looks = static_cast<int>(patterns.size()),
             all = looks + static_cast<int>(hooks.size());

  Forward looking = forward;
  looking.entered = [&](const std::string& path, const Checked& program) {
    taps.enter(path, program);
    if (forward.entered) forward.entered(path, program);
  };
  looking.replaced = [&](const std::string& path) {
    return taps.asks(looks, all, path) || forward.replaces(path);
  };
  looking.replace = [&](const std::string& path, const Tensor& value) {
    Tensor x = forward.replaces(path) ? forward.replacement(path, value) : value;
    for (int i = looks; i < all; ++i)
      for (const TapName& name : taps.asked(i, path)) {
        const Hook& hook = hooks[i - looks];
        const Tensor y = hook.replace(name.name, name.theirs(x));
        x = y ? name.ours(y) : y;
        if (!x) return x;
      }
    return x;
  };
  looking.watched = [&](const std::string& path) {
    return taps.asks(0, looks, path) || forward.watches(path);
  };
  looking.watch = [&](const std::string& path, const Tensor& value) {
    if (forward.watches(path)) forward.watch(path, value);
    for (int i = 0; i < looks; ++i)
      for (const TapName& name : taps.asked(i, path)) seen[name.name] = kept(name.theirs(value));
  };
  call(looking);
  taps.check_met();
  return seen;
}

void run_with_hooks(const Forward& forward, const std::vector<Hook>& hooks, const Call& call) {
  trace(forward, {}, call, hooks);
}

}  // namespace tete
