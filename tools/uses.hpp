// Slots of a text that the command line fills (R22): --use, and files that it names.
#pragma once
#include <functional>

#include "tools/model.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tete {

// Slots filled by a caller, in the notation's words, and the texts of the files that it names.
struct SlotUses {
  std::vector<SlotUse> said = {};
  std::vector<ProgramText> files = {};
  // Texts that a checkpoint has, for files that are gone.
  std::vector<ProgramText> kept = {};
};

// `setting` with each file that it names replaced: "Attention=mine.tete with biases". A name with
// '=', ',' or " with " is that of a file if there is one: `is_file` says so.
using FileName = std::function<std::string(const std::string& path)>;
using IsFile = std::function<bool(const std::string& path)>;
bool is_file(const std::string& path);
std::string with_files(const std::string& setting, const FileName& name,
                       const IsFile& is_file = tete::is_file);

// The name or the file in "t5_bias", or in "self=t5_bias", for some attention only.
std::string without_site(const std::string& setting);

// Adds "decoder.Attention[3]=NAME|FILE", said about `text`. A file gets a name that no other text
// has.
void add_use(SlotUses& uses, const SlotUse& setting, const Program& text);
// The same for --with: NAME|FILE amends all attention, self=, encoder=, decoder= or cross= some.
void add_amending_use(SlotUses& uses, const std::string& setting, const Program& text);

// True if the text itself says what fills a slot of this name.
bool has_slot(const Program& text, const std::string& name);

// That of `texts` which a name or a file means, or nullptr; a file that is there means itself.
const ProgramText* kept_text(std::span<const ProgramText> texts, const std::string& name,
                             const std::string& name_or_path);

// "talking_heads", of talking_heads.tete.
std::string name_of_source(const Source& source);

// Both in the form that check() takes.
std::vector<Program> programs_of(const std::vector<SlotUse>& uses);
Library library_of(const std::vector<ProgramText>& texts);

// A text of the catalogue or a file, amended by --with and filled by --use. A text that has slots
// is amended in its attention.
std::shared_ptr<const Checked> load_text(const std::string& name_or_path,
                                         const std::vector<std::string>& with,
                                         const std::vector<std::string>& use);

CLI::Option* add_uses(CLI::App& app, std::vector<std::string>& use);

}  // namespace tete
