#include "nn/language/check/slots.hpp"

#include <algorithm>

namespace tete {

Slots::Slots(const std::shared_ptr<const Program>& text,
             const std::vector<std::shared_ptr<const Program>>& caller)
    : text_(text), calls_(std::make_shared<Calls>()) {
  for (const auto& said : caller)
    for (const UseText& use : said->uses)
      fillings_.push_back({&use, text, caller.front().get(), 0});
  for (const UseText& use : text->uses) fillings_.push_back({&use, text, text.get(), 0});
}

Slots::Slots(const std::shared_ptr<const Program>& text, const CallSite& site, const Slots& caller)
    : Slots(caller) {
  text_ = text;
  const bool is_known = std::any_of(fillings_.begin(), fillings_.end(),
                                    [&](const Filling& f) { return f.said_in == text.get(); });
  if (is_known) return;
  for (const UseText& use : text->uses)
    fillings_.push_back({&use, text, text.get(), site.path.size()});
}

bool Slots::contains(const std::string& slot) const {
  return std::any_of(fillings_.begin(), fillings_.end(), [&](const Filling& f) {
    return f.use->slot.name == slot && !f.use->filler.name.empty();
  });
}

// ---- Places -----------------------------------------------------------------------------------

namespace {

// True if the statements from `depth` on have these names, with others between them or not.
bool leads_through(const std::vector<Word>& names, const CallSite& site, size_t depth) {
  size_t at = 0;
  for (size_t i = depth; i < site.path.size() && at < names.size(); ++i)
    at += site.path[i] == names[at].name;
  return at == names.size();
}

bool has_number(const UseText& use, Index number) {
  return std::any_of(use.numbers.begin(), use.numbers.end(),
                     [&](const NumberText& n) { return n.value == number; });
}

// Notes that the repetition which a use is about is not as the others.
void decide(const Filling& filling, const CallSite& site) {
  if (!filling.use->numbers.empty()) site.turn->decides = true;
}

// A number says more than a path, a long path more than a short one.
std::pair<bool, size_t> precision(const UseText& use) {
  return {!use.numbers.empty(), use.path.size()};
}

std::string shown(const CallSite& site) {
  std::string path;
  for (const std::string& name : site.path) path += (path.empty() ? "" : ".") + name;
  return "'" + path + "'";
}

}  // namespace

// A text numbers its own repetitions only, not one that it is in.
bool Slots::fits(const Filling& filling, const CallSite& site) const {
  const UseText& use = *filling.use;
  if (!leads_through(use.path, site, filling.depth)) return false;
  calls_->led.insert(&use);
  const bool is_counted = site.turn && site.turn->depth >= filling.depth;
  if (use.numbers.empty() || is_counted) calls_->met.insert(&use);
  if (use.numbers.empty()) return true;
  return is_counted && has_number(use, site.turn->number);
}

const Filling& Slots::best(const Word& slot, const CallSite& site) const {
  const Filling* best = nullptr;
  const Filling* other = nullptr;  // as good
  for (const Filling& f : fillings_) {
    if (f.use->slot.name != slot.name || f.use->filler.name.empty() || !fits(f, site)) continue;
    if (best && (f.said_in != best->said_in || precision(*f.use) < precision(*best->use))) continue;
    other = best && precision(*f.use) == precision(*best->use) ? best : nullptr;
    best = &f;
  }
  if (!best) {
    std::vector<Place> places{slot.place};
    for (const Filling& f : fillings_)
      if (f.use->slot.name == slot.name) places.push_back(f.use->slot.place);
    fail_at(places, "nothing fills the slot '", slot.name, "' of ", shown(site),
            "; a use without a place would");
  }
  if (other)
    fail_at({best->use->slot.place, other->use->slot.place}, "the slot '", slot.name, "' of ",
            shown(site), " is filled twice, by '", written(*other->use), " = ",
            filling_of(*other->use), "' and '", written(*best->use), " = ", filling_of(*best->use),
            "'");
  decide(*best, site);
  return *best;
}

// ---- What fills them ----------------------------------------------------------------------------

// Follows slots that are filled with slots: use Cross = Attention.
const Filling& Slots::filling(const Word& slot, const CallSite& site) const {
  const Filling* at = &best(slot, site);
  for (size_t i = 0; contains(at->use->filler.name); ++i) {
    if (i == fillings_.size())
      fail_at({slot.place, at->use->slot.place}, "the slot '", slot.name,
              "' is filled with itself");
    refuse_amended(*at->use, text("'", at->use->filler.name, "' is a slot itself"));
    at = &best(at->use->filler, site);
  }
  return *at;
}

// Fails on a filling that has a `with` or a `start` where none counts.
void Slots::refuse_amended(const UseText& use, const std::string& why) {
  if (use.with.empty() && use.start.kind != ExprKind::call) return;
  fail_at({use.with.empty() ? use.filler.place : use.with[0].place},
          "no 'with' or 'start' counts here, as ", why, "; say 'use ", use.slot.name,
          " with …' in a line of its own");
}

Slots::Filler Slots::filler(const Word& slot, const CallSite& site, const Library& library) const {
  calls_->places[slot.name].insert(shown(site));
  const Filling& found = filling(slot, site);
  const UseText& use = *found.use;
  const Word& name = use.filler;
  if (name.name == "none")
    fail_at({slot.place, name.place}, "the slot '", slot.name, "' is filled with none; only ",
            "one that stands after 'with' may be");
  Filler filler{{}, use.with, {}, use.start.kind == ExprKind::call ? &use.start : nullptr, true};
  if (const Def* def = found.text->find(name.name)) {
    filler.callee = {def, found.text};
  } else if (const auto other = library.text ? library.text(name.name) : nullptr) {
    filler.callee = {&main_def(*other), other};
  } else {
    fail_at({name.place}, "there is no text and no def '", name.name, "' to fill '", slot.name, "'",
            suggestion(name.name, library.texts));
  }
  filler.after = amending(slot, site);
  return filler;
}

// Those of the inner texts come first.
std::vector<Word> Slots::amending(const Word& slot, const CallSite& site) const {
  std::vector<Word> names;
  std::ptrdiff_t own = 0;  // of one text
  const Program* text = nullptr;
  for (const Filling& f : fillings_) {
    if (f.use->slot.name != slot.name || !f.use->filler.name.empty() || !fits(f, site)) continue;
    decide(f, site);
    if (std::exchange(text, f.said_in) != f.said_in) own = 0;
    names.insert(names.begin() + own, f.use->with.begin(), f.use->with.end());
    own += std::ssize(f.use->with);
  }
  return names;
}

namespace {

// The def of a text as an amending text of its own, with those that it calls; null if there is none
// of this name.
std::shared_ptr<const Program> alone(const Program& text, const std::string& name) {
  const Def* const def = text.find(name);
  if (!def) return nullptr;
  auto program = std::make_shared<Program>(Program{text.source, {}, {*def}});
  for (size_t i = 0; i < program->defs.size(); ++i)
    for (const StatementText& s : std::vector(program->defs[i].statements)) {
      if (s.right.kind != ExprKind::call || program->find(s.right.word.name)) continue;
      if (const Def* const called = text.find(s.right.word.name)) program->defs.push_back(*called);
    }
  return program;
}

}  // namespace

// The text whose `use` has this word behind `with`, or that of its calls.
std::shared_ptr<const Program> Slots::text_of(const Word& name) const {
  for (const Filling& f : fillings_)
    for (const Word& each : f.use->with)
      if (each.place.source == name.place.source && each.place.at == name.place.at) return f.text;
  return text_;
}

std::shared_ptr<const Program> Slots::amendment(const Word& name, const CallSite& site,
                                                const Library& library) const {
  const bool is_slot = contains(name.name);
  if (is_slot) {
    calls_->places[name.name].insert(shown(site));
    const UseText& found = *filling(name, site).use;
    for (const Filling& f : fillings_)
      if ((f.use->slot.name == name.name || f.use->slot.name == found.slot.name) && fits(f, site))
        if (!f.use->with.empty() || f.use->start.kind == ExprKind::call)
          fail_at({f.use->slot.place, name.place}, "the slot '", name.name,
                  "' stands after 'with', so one amending text fills ",
                  "it, without a 'with' or 'start' of its own");
  }
  const Word& wanted = is_slot ? filling(name, site).use->filler : name;
  if (is_slot && wanted.name == "none") return nullptr;
  const auto text_around = is_slot ? filling(name, site).text : text_of(name);
  auto found = alone(*text_around, wanted.name);
  if (!found && library.amendment) found = library.amendment(wanted.name);
  if (!found)
    fail_at({name.place}, "there is no amending text '", wanted.name, "'",
            is_slot ? text(", which fills '", name.name, "'") : "");
  return found;
}

// ---- All of them --------------------------------------------------------------------------------

std::vector<std::vector<NumberText>> Slots::numbered() const {
  std::map<Index, std::pair<std::vector<const UseText*>, NumberText>> uses;  // by number
  for (const Filling& f : fillings_)
    for (const NumberText& number : f.use->numbers) {
      const auto at = uses.try_emplace(number.value, std::vector<const UseText*>{}, number).first;
      at->second.first.push_back(f.use);
    }
  std::map<std::vector<const UseText*>, std::vector<NumberText>> groups;
  for (const auto& [value, of] : uses) groups[of.first].push_back(of.second);
  std::vector<std::vector<NumberText>> all;
  for (const auto& [of, numbers] : groups) all.push_back(numbers);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a[0].value < b[0].value; });
  return all;
}

void Slots::refuse_unused(const Program& said, const std::string& of) const {
  for (const UseText& use : said.uses) {
    if (calls_->met.contains(&use)) continue;
    const auto called = calls_->places.find(use.slot.name);
    const std::vector<std::string> slots = keys_of(calls_->places);
    if (called == calls_->places.end())
      fail_at({use.slot.place}, "'", of, "' has no slot '", use.slot.name, "'",
              suggestion(use.slot.name, slots),
              slots.empty() ? "; it has no slots" : "; its slots are " + list_of(slots));
    const std::string places = list_of(called->second, {}, " and ");
    if (!calls_->led.contains(&use))
      fail_at({use.path[0].place}, "'", written(use), "' is nowhere in '", of, "': '",
              use.slot.name, "' stands in ", places);
    fail_at({use.numbers[0].place}, "'", use.slot.name, "' of ", places,
            " is in no call that is repeated, so it has no number");
  }
}

}  // namespace tete
