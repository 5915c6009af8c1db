#include "train/mapped_text.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "train/files.hpp"

namespace tete {

struct MappedText::Mapping {
  explicit Mapping(const std::string& name) : path(name) {
    const File file = open_regular_file(path);
    fstat(file.descriptor(), &about);
    if (about.st_size == 0) bad_input(path, " is empty");
    at = mmap(nullptr, size(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (at == MAP_FAILED) bad_input("cannot read ", path, ": ", errno_text(errno));
  }
  ~Mapping() { munmap(at, size()); }
  Mapping(const Mapping&) = delete;

  size_t size() const { return static_cast<size_t>(about.st_size); }
  std::string_view bytes() const { return {static_cast<const char*>(at), size()}; }
  void check_unchanged() const {
    struct stat now = {};
    if (stat(path.c_str(), &now) != 0 || now.st_dev != about.st_dev || now.st_ino != about.st_ino)
      return;
    if (now.st_size != about.st_size || now.st_mtim.tv_sec != about.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != about.st_mtim.tv_nsec)
      bad_input(path, " was written to while a run learns from it");
  }

  std::string path;
  struct stat about = {};
  void* at = nullptr;
};

static void check_characters(const std::string& path, std::string_view text) {
  const size_t nul = text.find('\0');
  if (nul != std::string::npos)
    bad_input(path, " is not a text: byte ", nul, " is zero; to train on any bytes, use bytes",
              " as tokens");
  const size_t bad = find_invalid_utf8(text);
  if (bad != std::string::npos)
    bad_input(path, " is not UTF-8: byte ", bad, " does not continue a character; convert it",
              " (iconv), or use bytes as tokens");
}

MappedText::MappedText(std::string text)
    : kept_(std::make_shared<const std::string>(std::move(text))), parts_{*kept_} {}

MappedText::MappedText(const std::vector<std::string>& paths, Tokenizer::Unit unit) {
  for (const std::string& path : paths) {
    files_.push_back(std::make_shared<const Mapping>(path));
    parts_.push_back(files_.back()->bytes());
    if (unit == Tokenizer::Unit::characters) check_characters(path, parts_.back());
  }
}

void MappedText::check_unchanged() const {
  for (const auto& file : files_) file->check_unchanged();
}

}  // namespace tete
