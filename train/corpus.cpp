#include "train/corpus.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/utf8.hpp"

namespace tete {

// The usual limit of 1,024 open files is too low for a text in many.
static void raise_limit_of_files(rlim_t count) {
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count) return;
  limit.rlim_cur = std::min(count, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, a file cannot be opened, which is told
}

Corpus::Corpus(std::string text) {
  const size_t size = text.size();
  sources_.push_back({"", std::move(text), nullptr, size});
}

Corpus::Corpus(const std::vector<std::string>& paths) {
  raise_limit_of_files(paths.size() + 256);
  for (const std::string& path : paths) {
    const auto file = std::make_shared<const File>(open_regular_file(path));
    const size_t size = file_size(*file);
    if (size == 0) bad_input(path, " is empty");
    sources_.push_back({path, "", file, size});
  }
}

std::string Corpus::read(size_t part, size_t first, size_t count) const {
  const Source& source = sources_[part];
  if (!source.file) return source.text.substr(first, count);
  std::string bytes(std::min(count, source.size - first), '\0');
  read_at(*source.file, source.path, first, bytes.data(), bytes.size());
  return bytes;
}

std::string Corpus::characters() const {
  std::vector<bool> seen(0x110000);
  for (size_t part = 0; part < parts(); ++part)
    for (size_t first = 0; first < size(part);) {
      const std::string bytes = read(part, first, 65536);
      const bool is_last = first + bytes.size() == size(part);
      size_t at = 0;
      while (at + (is_last ? 1 : 4) <= bytes.size()) {  // a piece may end inside a character
        const Character c = read_character(bytes, at);
        if (c.length == 0)
          bad_input(path(part), " is not UTF-8: byte ", first + at,
                    " does not continue a character; convert it (iconv), or use bytes as tokens");
        if (c.code == 0)
          bad_input(path(part), " is not a text: byte ", first + at,
                    " is zero; to train on any bytes, use bytes as tokens");
        seen[c.code] = true;
        at += static_cast<size_t>(c.length);
      }
      first += at;
    }
  std::string each;
  for (char32_t code = 0; code < seen.size(); ++code)
    if (seen[code]) append_character(each, code);
  return each;
}

}  // namespace tete
