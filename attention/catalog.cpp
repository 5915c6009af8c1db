#include "attention/catalog.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tete {

namespace {

// The first line of the comment that opens a text.
std::string first_comment(std::string_view text) {
  size_t at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos || text[at] != '#') return "";
  at = std::min(text.find_first_not_of("# \t", at), text.size());
  const std::string_view line = text.substr(at, text.find('\n', at) - at);
  return std::string(line.substr(0, line.find_last_not_of(" \t\r") + 1));
}

Variant variant_of(std::string name, Program program) {
  std::string paper = first_comment(program.source->text);
  return {std::move(name), std::move(paper), std::make_shared<const Program>(std::move(program))};
}

std::vector<Variant> read_embedded(std::span<const EmbeddedText> texts) {
  std::vector<Variant> made;
  for (const auto& [name, text] : texts)
    made.push_back(variant_of(name, Program::parse(text, std::string(name) + ".tete")));
  return made;
}

Variant find(const std::vector<Variant>& among, const char* what, const std::string& name_or_path) {
  if (is_program_path(name_or_path)) {
    const std::string stem = std::filesystem::path(name_or_path).stem().string();
    return variant_of(stem, read_program(name_or_path));
  }
  if (const Variant* variant = find_named(name_or_path, among)) return *variant;
  std::vector<std::string> names = names_of_rows(among);
  if (std::error_code ignored; std::filesystem::exists(name_or_path + ".tete", ignored))
    names.push_back(name_or_path + ".tete");
  bad_input("there is no ", what, " '", name_or_path, "'", suggestion(name_or_path, names),
            "; a file is given by a path that ends in .tete");
}

}  // namespace

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = read_embedded(embedded_variants());
  return all;
}

const std::vector<Variant>& amendments() {
  static const std::vector<Variant> all = read_embedded(embedded_amendments());
  return all;
}

const std::vector<Variant>& blocks() {
  static const std::vector<Variant> all = read_embedded(embedded_blocks());
  return all;
}

const std::vector<Variant>& models() {
  static const std::vector<Variant> all = read_embedded(embedded_models());
  return all;
}

bool is_program_path(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".tete");
}

Variant find_variant(const std::string& name_or_path) {
  return find(variants(), "attention variant", name_or_path);
}

Variant find_amendment(const std::string& name_or_path) {
  return find(amendments(), "amendment", name_or_path);
}

Variant find_model(const std::string& name_or_path) {
  if (find_named(name_or_path, blocks()) || find_named(name_or_path, variants()))
    bad_input("'", name_or_path,
              "' is no whole model: it fills a slot of one, as in --use SLOT=", name_or_path);
  return find(models(), "model", name_or_path);
}

Variant find_text(const std::string& name_or_path) {
  std::vector<Variant> all = variants();
  for (const std::vector<Variant>* more : {&blocks(), &models()})
    all.insert(all.end(), more->begin(), more->end());
  return find(all, "text", name_or_path);
}

Program read_program(const std::string& path) {
  constexpr std::uintmax_t most = std::uintmax_t{1} << 20;
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) bad_input("there is no file '", path, "'");
  if (error) bad_input("cannot look at '", path, "': ", error.message());
  if (kind == std::filesystem::file_type::directory)
    bad_input("'", path, "' is a folder, expected a file that holds a program");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) bad_input("cannot open '", path, "': ", std::strerror(errno));
  std::string text;
  char block[4096];
  while (file.read(block, sizeof block) || file.gcount() > 0) {
    text.append(block, static_cast<size_t>(file.gcount()));
    if (text.size() > most) break;  // the reader says that it is too long
  }
  if (file.bad()) bad_input("cannot read '", path, "': ", std::strerror(errno));
  return Program::parse(text, path);
}

// The text of this name on one of these shelves, or null.
static std::shared_ptr<const Program> text_called(
    const std::string& name, std::initializer_list<const std::vector<Variant>*> shelves) {
  for (const std::vector<Variant>* shelf : shelves)
    for (const Variant& text : *shelf)
      if (text.name == name) return text.program;
  return nullptr;
}

const Library& catalogue() {
  static const Library library = [] {
    Library made;
    for (const Variant& variant : variants())
      for (const Def& def : variant.program->defs) made.names.push_back(def.word.name);
    made.find = [](const std::string& name) -> std::shared_ptr<const Program> {
      for (const Variant& variant : variants())
        if (variant.program->find(name)) return variant.program;
      return nullptr;
    };
    made.text = [](const std::string& name) {
      return text_called(name, {&variants(), &blocks(), &models()});
    };
    for (const auto* shelf : {&variants(), &blocks(), &models()})
      for (const Variant& each : *shelf) made.texts.push_back(each.name);
    made.amendment = [](const std::string& name) { return text_called(name, {&amendments()}); };
    return made;
  }();
  return library;
}

}  // namespace tete
