#include "nn/language/check/slots.hpp"

namespace tete {

Slots::Slots(const std::shared_ptr<const Program>& text, const Slots& caller)
    : fillings_(caller.fillings_) {
  for (const UseText& use : text->uses) fillings_.try_emplace(use.slot.name, Filling{&use, text});
}

// Follows slots that are filled with slots: use Cross = Attention.
const Filling& Slots::filling(const Word& slot) const {
  const Filling* at = &fillings_.at(slot.name);
  for (size_t i = 0; fillings_.contains(at->use->filler.name); ++i) {
    if (i == fillings_.size())
      fail_at({slot.place, at->use->slot.place},
              text("the slot '", slot.name, "' is filled with itself"));
    at = &fillings_.at(at->use->filler.name);
  }
  return *at;
}

Slots::Filler Slots::filler(const Word& slot, const Library& library) const {
  const auto& [use, holder] = filling(slot);
  const Word& name = use->filler;
  if (name.name == "none")
    fail_at({slot.place, name.place}, text("the slot '", slot.name, "' is filled with none; only ",
                                           "one that stands after 'with' may be"));
  Filler filler{{}, use->with, use->start.kind == ExprKind::call ? &use->start : nullptr, true};
  if (const Def* def = holder->find(name.name)) {
    filler.callee = {def, holder};
  } else if (const auto other = library.text ? library.text(name.name) : nullptr) {
    filler.callee = {&main_def(*other), other};
  } else {
    fail_at({name.place},
            text("there is no text and no def '", name.name, "' to fill '", slot.name, "'"));
  }
  return filler;
}

std::shared_ptr<const Program> Slots::amendment(const Word& name, const Library& library) const {
  const bool is_slot = contains(name.name);
  const Word& wanted = is_slot ? filling(name).use->filler : name;
  if (is_slot && wanted.name == "none") return nullptr;
  auto found = library.amendment ? library.amendment(wanted.name) : nullptr;
  if (!found)
    fail_at({name.place}, text("there is no amending text '", wanted.name, "'",
                               is_slot ? text(", which fills '", name.name, "'") : ""));
  return found;
}

}  // namespace tete
