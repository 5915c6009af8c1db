#include "tools/uses.hpp"

#include <algorithm>
#include <filesystem>

#include "tools/options.hpp"

namespace tete {

// ---- Files --------------------------------------------------------------------------------------

namespace {

// The place at which a word of a setting ends and the next begins.
struct WordEnd {
  size_t end, next;
};

WordEnd end_of_word(const std::string& setting, size_t at, size_t starts) {
  static constexpr std::string_view signs[] = {"=", ",", " with "};
  WordEnd first{starts, starts};
  for (const std::string_view sign : signs)
    if (const size_t found = setting.find(sign, at); found < first.end)
      first = {found, std::min(found + sign.size(), starts)};
  return first;
}

std::string without_spaces(const std::string& part) {
  const size_t first = part.find_first_not_of(' ');
  return first == part.npos ? "" : part.substr(first, part.find_last_not_of(' ') + 1 - first);
}

}  // namespace

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::string with_files(const std::string& setting, const FileName& name, const IsFile& is_file) {
  const size_t starts = std::min(setting.find(" start "), setting.size());  // 1/8 is no file there
  const auto word_to = [&](size_t at, size_t end) {
    return without_spaces(setting.substr(at, end - at));
  };
  std::string all;
  for (size_t at = 0; at < starts;) {
    WordEnd here = end_of_word(setting, at, starts);
    // A file may have such a sign in its name.
    for (WordEnd later = here; later.end < starts;) {
      later = end_of_word(setting, later.next, starts);
      const std::string word = word_to(at, later.end);
      if (is_program_path(word) && is_file(word)) here = later;
    }
    const std::string word = word_to(at, here.end), part = setting.substr(at, here.end - at);
    const size_t first = part.find_first_not_of(' ');
    all += !is_program_path(word)
               ? part
               : part.substr(0, first) + name(word) + part.substr(first + word.size());
    all += setting.substr(here.end, here.next - here.end);
    at = here.next;
  }
  return all + setting.substr(starts);
}

bool has_slot(const Program& text, const std::string& name) {
  return std::any_of(text.uses.begin(), text.uses.end(),
                     [&](const UseText& use) { return use.slot.name == name; });
}

namespace {

// A name of the notation from that of a file: "mine-2.tete" is mine_2.
std::string name_from(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) > 127)
      c = '_';
  const bool has_letter = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  return has_letter ? name : "_" + name;
}

bool is_taken(const std::string& name, const SlotUses& uses, const Program& text) {
  const auto is_of_file = [&](const ProgramText& file) { return file.name == name; };
  return name == "none" || catalogue().text(name) || catalogue().amendment(name) ||
         text.find(name) || has_slot(text, name) ||
         std::any_of(uses.files.begin(), uses.files.end(), is_of_file);
}

std::string name_of_file(SlotUses& uses, const std::string& path, const Program& text) {
  for (const ProgramText& file : uses.files)
    if (file.place == path) return file.name;
  std::string name = name_from(path);
  while (is_taken(name, uses, text)) name += "_";
  const ProgramText* const kept = kept_text(uses.kept, name, path);
  uses.files.push_back({name, path, kept ? kept->text : read_program(path).source->text});
  return name;
}

}  // namespace

const ProgramText* kept_text(std::span<const ProgramText> texts, const std::string& name,
                             const std::string& name_or_path) {
  return is_program_path(name_or_path) && is_file(name_or_path) ? nullptr : find_named(name, texts);
}

// ---- What is said -------------------------------------------------------------------------------

std::string without_site(const std::string& setting) {
  for (const std::string sites : {"self=", "encoder=", "decoder=", "cross="})
    if (setting.starts_with(sites)) return setting.substr(sites.size());
  return setting;
}

void add_use(SlotUses& uses, const SlotUse& setting, const Program& text) {
  std::string said = with_files(
      setting.said, [&](const std::string& path) { return name_of_file(uses, path, text); });
  Program::parse_uses(said, setting.option);  // its own mistakes first
  uses.said.push_back({std::move(said), setting.option});
}

void add_amending_use(SlotUses& uses, const std::string& setting, const Program& text) {
  const std::string name = without_site(setting);
  const std::string site = setting.substr(0, setting.size() - name.size());
  if (!is_program_path(name)) find_amendment(name);  // fails with the nearest name
  const auto amend = [&](const std::string& slot) {
    add_use(uses, {slot + " with " + name, "--with " + setting}, text);
  };
  if (site == "encoder=" || site == "decoder=")
    return amend(site.substr(0, site.size() - 1) + ".Attention");
  if (site != "cross=") amend("Attention");
  if (site == "cross=" || (site.empty() && has_slot(text, "Cross"))) amend("Cross");
}

std::string name_of_source(const Source& source) {
  return source.name.substr(0, source.name.rfind(".tete"));
}

std::vector<Program> programs_of(const std::vector<SlotUse>& uses) {
  std::vector<Program> programs;
  for (const SlotUse& use : uses) programs.push_back(Program::parse_uses(use.said, use.option));
  return programs;
}

Library library_of(const std::vector<ProgramText>& texts) {
  const auto among = [texts](const Library::Find& otherwise) {
    return [texts, otherwise](const std::string& name) {
      for (const ProgramText& text : texts)
        if (text.name == name)
          return std::make_shared<const Program>(Program::parse(text.text, text.place));
      return otherwise(name);
    };
  };
  Library library = catalogue();
  library.text = among(library.text);
  library.amendment = among(library.amendment);
  library.find = [find = library.find, text = library.text](const std::string& def) {
    const auto found = find(def);
    return found ? text(name_of_source(*found->source)) : found;
  };
  return library;
}

std::shared_ptr<const Checked> load_text(const std::string& name_or_path,
                                         const std::vector<std::string>& with,
                                         const std::vector<std::string>& use) {
  const Variant text = find_text(name_or_path);
  SlotUses uses;
  for (const std::string& setting : use) add_use(uses, {setting}, *text.program);
  std::vector<Program> amendments;
  for (const std::string& setting : with)
    if (!text.program->uses.empty()) add_amending_use(uses, setting, *text.program);
    else amendments.push_back(*find_amendment(setting).program);
  return std::make_shared<const Checked>(
      check(*text.program, amendments, library_of(uses.files), programs_of(uses.said)));
}

CLI::Option* add_uses(CLI::App& app, std::vector<std::string>& use) {
  return add_list(app, "--use", use,
                  "fill a slot of a model's text, before any other option: FeedForward=NAME, of "
                  "some layers and stacks only "
                  "FeedForward[3, 7]=NAME, decoder.Attention=NAME with NAME")
      ->type_name("SLOT=NAME|FILE");
}

}  // namespace tete
