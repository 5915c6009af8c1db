#include "nn/trace.hpp"

#include <algorithm>

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

// Names of other programs have dots between their parts.
bool is_path(const std::string& name) { return name.find('/') != std::string::npos; }

}  // namespace

bool fits(const std::string& pattern, const std::string& path) {
  return fits_parts(pattern, path, is_path(pattern + path) ? '/' : '.');
}

namespace {

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
// A, B, C, F, N, Y".
std::string what_there_is(const std::string& pattern, const std::set<std::string>& names,
                          char separator) {
  constexpr size_t most = 24;
  for (std::string folder = pattern; !names.empty();) {
    const size_t end = folder.find_last_of(separator);
    folder.resize(end == std::string::npos ? 0 : end + 1);
    std::set<std::string> parts = parts_behind(folder, names, separator);
    if (parts.empty() && !folder.empty()) {
      folder.pop_back();
      continue;
    }
    const bool is_cut = parts.size() > most;
    if (is_cut) parts.erase(std::next(parts.begin(), most), parts.end());
    return text("; ", folder.empty() ? "" : text("under '", folder, "' "), "there are ",
                list_of(parts), is_cut ? ", …" : "");
  }
  return "";
}

}  // namespace

void fail_nothing_at(const std::string& pattern, const std::set<std::string>& names) {
  const bool paths = std::any_of(names.begin(), names.end(), is_path);
  const std::string near = meant(pattern, {names.begin(), names.end()});
  bad_input("nothing in this model is at '", pattern, "'",
            near.empty() ? what_there_is(pattern, names, paths ? '/' : '.') : near);
}

std::map<std::string, Tensor> trace(const Forward& forward,
                                    const std::vector<std::string>& patterns, const Call& call,
                                    const std::vector<Hook>& hooks) {
  std::map<std::string, Tensor> seen;
  std::vector<std::string> all = patterns;
  for (const Hook& hook : hooks) all.push_back(hook.pattern);
  std::set<std::string> met, paths;
  const auto asks = [&](const std::string& pattern, const std::string& path) {
    paths.insert(path);
    const bool fits = fits_parts(pattern, path, '/');
    if (fits) met.insert(pattern);
    return fits;
  };
  const auto any_asks = [&](auto from, auto to, const std::string& path) {
    return std::count_if(from, to, [&](const auto& pattern) { return asks(pattern, path); }) > 0;
  };
  const auto looks_end = all.begin() + std::ssize(patterns);

  Forward looking = forward;
  looking.replaced = [&](const std::string& path) {
    return any_asks(looks_end, all.end(), path) || forward.replaces(path);
  };
  looking.replace = [&](const std::string& path, const Tensor& value) {
    Tensor x = forward.replaces(path) ? forward.replacement(path, value) : value;
    for (const Hook& hook : hooks)
      if (x && asks(hook.pattern, path)) x = hook.replace(path, x);
    return x;
  };
  looking.watched = [&](const std::string& path) {
    return any_asks(all.begin(), looks_end, path) || forward.watches(path);
  };
  looking.watch = [&](const std::string& path, const Tensor& value) {
    if (forward.watches(path)) forward.watch(path, value);
    if (any_asks(all.begin(), looks_end, path)) seen[path] = kept(value);
  };
  call(looking);
  for (const std::string& pattern : all)
    if (!met.contains(pattern)) fail_nothing_at(pattern, paths);
  return seen;
}

void run_with_hooks(const Forward& forward, const std::vector<Hook>& hooks, const Call& call) {
  trace(forward, {}, call, hooks);
}

}  // namespace tete
