// Slots: names of a text that stand for another text, until something fills them (R22).
#pragma once
#include <map>

#include "nn/language/check/draft.hpp"

namespace tete {

struct Filling {
  const UseText* use = nullptr;
  std::shared_ptr<const Program> text = {};  // that holds `use`
};

// The slots that a text's calls name, and their fillings.
class Slots {
 public:
  Slots() = default;
  // Those of `text`: as the caller fills them, or else as the text's own `use` says.
  Slots(const std::shared_ptr<const Program>& text, const Slots& caller);

  bool contains(const std::string& slot) const { return fillings_.contains(slot); }
  // The def that a call of the slot calls, and how.
  struct Filler {
    Callee callee = {};
    std::vector<Word> with = {};  // its amending texts, in their order
    const ExprText* start = nullptr;
    bool is_slot = false;
  };
  Filler filler(const Word& slot, const Library& library) const;
  // The text that a name after `with` means, of a slot or of the library; null if the slot is
  // filled with none.
  std::shared_ptr<const Program> amendment(const Word& name, const Library& library) const;

 private:
  const Filling& filling(const Word& slot) const;

  std::map<std::string, Filling> fillings_;
};

}  // namespace tete
