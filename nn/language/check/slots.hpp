// Slots: names of a text that stand for another text, until something fills them (R22).
#pragma once
#include <map>

#include "nn/language/check/draft.hpp"

namespace tete {

// One repetition of a call, or all those that no use is about.
struct Turn {
  Index number = -1;     // -1: all others
  size_t depth = 0;      // of calls around the one that is repeated
  bool tied = false;     // it shares its parameters with the others
  bool decides = false;  // a use with this number says something in it
};

// The place of a call: the statements whose calls lead to it, and its own; and the innermost
// repetition around it, or null.
struct CallSite {
  std::vector<std::string> path;
  Turn* turn = nullptr;
};

struct Filling {
  const UseText* use = nullptr;
  std::shared_ptr<const Program> text = {};  // its defs may fill the slot
  const Program* said_in = nullptr;          // that text, or the caller's uses
  size_t depth = 0;                          // of calls around it: its places begin there
};

// The slots that calls name, and who fills them: the caller, then each text on the way to the call,
// the outermost first.
class Slots {
 public:
  // Those of a whole text, as the caller or else its own `use` fills them.
  Slots(const std::shared_ptr<const Program>& text,
        const std::vector<std::shared_ptr<const Program>>& caller);
  // Those of a text that `site` calls.
  Slots(const std::shared_ptr<const Program>& text, const CallSite& site, const Slots& caller);

  bool contains(const std::string& slot) const;
  // The def that a call of the slot calls, and how.
  struct Filler {
    Callee callee = {};
    std::vector<Word> with = {};   // its amending texts, in their order
    std::vector<Word> after = {};  // those that amend it after the call's own
    const ExprText* start = nullptr;
    bool is_slot = false;
  };
  Filler filler(const Word& slot, const CallSite& site, const Library& library) const;
  // The text that a name after `with` means: a def of the text that says it, a slot, or a text of
  // the library; null if the slot is filled with none.
  std::shared_ptr<const Program> amendment(const Word& name, const CallSite& site,
                                           const Library& library) const;
  // The numbers that uses are about, those together that the same uses are about.
  std::vector<std::vector<NumberText>> numbered() const;
  // Fails on a use of `text` that is about no call.
  void refuse_unused(const Program& text, const std::string& of) const;

 private:
  const Filling& filling(const Word& slot, const CallSite& site) const;
  const Filling& best(const Word& slot, const CallSite& site) const;
  std::vector<Word> amending(const Word& slot, const CallSite& site) const;
  bool fits(const Filling& filling, const CallSite& site) const;
  std::shared_ptr<const Program> text_of(const Word& name) const;
  static void refuse_amended(const UseText& use, const std::string& why);

  std::shared_ptr<const Program> text_;  // that calls the slots
  std::vector<Filling> fillings_;
  // The slots that calls named. All texts of a check write them down together.
  struct Calls {
    std::map<std::string, std::set<std::string>> places = {};  // by slot
    std::set<const UseText*> led = {};                         // uses whose path leads to a call
    std::set<const UseText*> met = {};  // and whose numbers, too, may be those of one
  };
  std::shared_ptr<Calls> calls_;
};

}  // namespace tete
