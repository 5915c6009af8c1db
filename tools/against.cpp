#include "tools/against.hpp"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "attention/against.hpp"
#include "tools/json_number.hpp"
#include "tools/uses.hpp"
#include "train/safetensors.hpp"

namespace tete {

namespace {

using Verdict = TensorReport::Verdict;
using nlohmann::ordered_json;

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::agrees:
      return "agrees";
    case Verdict::follows:
      return "follows";
    case Verdict::differs:
      break;
  }
  return "differs";
}

// Rounded to so many digits; "NaN" and "infinity".
std::string rounded_text(double x, int digits) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x < 0 ? "-infinity" : "infinity";
  return number_text(x, digits);
}
std::string short_number(double x) { return rounded_text(x, 2); }
std::string long_number(double x) { return rounded_text(x, 7); }

std::map<std::string, int> bits_of_halves(const std::string& path) {
  std::map<std::string, int> bits;
  const Safetensors file(path, Safetensors::Trust::anyone);
  for (const Safetensors::Entry& e : file.entries())
    if (e.stored == "F16" || e.stored == "BF16") bits[e.name] = e.stored == "F16" ? 11 : 8;
  return bits;
}

static void explain_not_finite(const TensorReport& t) {
  constexpr double largest_half = 65504;
  std::printf("  Theirs is not finite at %s: theirs %s, the text's %s%s.\n", t.entry.c_str(),
              long_number(t.theirs).c_str(), long_number(t.text).c_str(),
              std::abs(t.text) > largest_half ? "; float16 ends at 65504" : "");
}

class AgainstOutput {
 public:
  AgainstOutput(const Checked& program, const AgainstReport& report, const AgainstFile& o)
      : program_(program), report_(report), o_(o) {}

  void print() const {
    std::printf("%s, mask: %s, against %s, computed in %s as it looks\n\n", program_.name.c_str(),
                o_.text.mask.c_str(), o_.path.c_str(), report_.precision);
    print_table();
    for (const std::string& name : report_.unknown) print_unknown(name);
    bool is_first = true;
    for (const TensorReport& t : report_.tensors)
      if (t.verdict == Verdict::differs) explain(t, std::exchange(is_first, false));
    if (report_.agrees()) std::printf("\nAll of it agrees.\n");
  }

  ordered_json json() const {
    ordered_json all = {{"program", program_.name},
                        {"against", o_.path},
                        {"mask", o_.text.mask},
                        {"precision", report_.precision},
                        {"agrees", report_.agrees()},
                        {"first", report_.agrees() ? ordered_json() : ordered_json(first().name)},
                        {"unknown", report_.unknown}};
    for (const TensorReport& t : report_.tensors) all["tensors"].push_back(to_json(t));
    return all;
  }

 private:
  const TensorReport& first() const { return report_.tensors[report_.first]; }
  const CheckedValue& value(int i) const { return program_.values[i]; }
  std::vector<std::string> names_of(const std::vector<int>& values) const {
    std::vector<std::string> names;
    for (int i : values) names.push_back(program_.name_of(i));
    return names;
  }

  // ---- For people ----

  void print_table() const {
    int width = 8;
    for (const TensorReport& t : report_.tensors)
      width = std::max(width, static_cast<int>(t.name.size()));
    std::printf("  %-*s  difference  allowed  largest\n", width, "");
    for (const TensorReport& t : report_.tensors) {
      std::printf("  %-*s  ", width, t.name.c_str());
      // Where the shapes are not the same there is nothing to measure.
      if (t.entry.empty() && !t.shape.empty()) std::printf("%10s  %7s  %7s", "", "", "");
      else
        std::printf("%10s  %7s  %7s", short_number(shown_difference(t)).c_str(),
                    short_number(t.tolerance).c_str(), short_number(t.largest).c_str());
      if (t.verdict == Verdict::agrees) std::printf("  agrees\n");
      else if (t.verdict == Verdict::follows) std::printf("  follows from %s\n", t.cause.c_str());
      else std::printf("  DIFFERS\n");
    }
  }
  // A tensor that agrees with one of two computations is shown beside the nearer one.
  static double shown_difference(const TensorReport& t) {
    return t.verdict == Verdict::agrees ? std::min(t.difference, t.from_ours) : t.difference;
  }

  void print_unknown(const std::string& name) const {
    std::vector<std::string> known;
    for (int i = 0; i < static_cast<int>(program_.values.size()); ++i)
      for (const char* prefix : {"", "grad:"}) known.push_back(prefix + program_.name_of(i));
    std::printf("  %s is not in the text and was not compared%s\n", name.c_str(),
                suggestion(name, known).c_str());
  }

  void explain(const TensorReport& t, bool is_first) const {
    const std::string sentence =
        text("'", t.name,
             is_first ? "' is where theirs first part from" : "' differs on its own, too, from",
             " the text");
    std::printf("\n%s\n", point_out(sentence, {value(t.value).place}).c_str());
    if (!t.shape.empty()) std::printf("  It %s.\n", t.shape.c_str());
    if (!t.finite) explain_not_finite(t);
    else if (!t.entry.empty() && t.difference <= t.tolerance && t.rms > t.rms_tolerance)
      std::printf(
          "  No entry is far off, but all together are: their root mean square difference is %s, "
          "where rounding explains %s.\n",
          short_number(t.rms).c_str(), short_number(t.rms_tolerance).c_str());
    else if (!t.entry.empty() && !(t.difference <= t.tolerance))
      std::printf("  The largest difference is %s, at %s: theirs %s, the text's %s.\n",
                  short_number(t.difference).c_str(), t.entry.c_str(),
                  long_number(t.theirs).c_str(), long_number(t.text).c_str());
    explain_guess(t);
    if (!t.unseen.empty())
      std::printf(
          t.unseen.size() == 1
              ? "  %s, which leads to it, is not in the file: with it the place is known.\n"
              : "  %s, which lead to it, are not in the file: with them the place is known.\n",
          list_of(names_of(t.unseen), {}, " and ").c_str());
  }

  void explain_guess(const TensorReport& t) const {
    const Guess& guess = t.guess;
    if (guess.gave_up) {
      std::printf("  Too many statements to guess from: give more of the values.\n");
      return;
    }
    if (guess.sentence.empty()) {
      if (t.shape.empty() && t.finite)
        std::printf("  It looks like no mistake that is known here.\n");
      return;
    }
    std::printf("  A guess: %s.\n", guess.sentence.c_str());
    if (guess.statement >= 0 && guess.statement != t.value)
      std::printf("%s\n", point_out(text("that is in ", program_.name_of(guess.statement)),
                                    {value(guess.statement).place})
                              .c_str());
  }

  // ---- For machines ----

  ordered_json to_json(const TensorReport& t) const {
    ordered_json json = {{"name", t.name},
                         {"verdict", name_of(t.verdict)},
                         {"difference", json_number(t.difference)},
                         {"from_inputs", json_number(t.from_ours)},
                         {"allowed", json_number(t.tolerance)},
                         {"rms", json_number(t.rms)},
                         {"rms_allowed", json_number(t.rms_tolerance)},
                         {"largest", json_number(t.largest)},
                         {"entry", t.entry},
                         {"theirs", json_number(t.theirs)},
                         {"text", json_number(t.text)}};
    if (!t.finite) json["finite"] = false;
    if (!t.shape.empty()) json["shape"] = t.shape;
    if (!t.cause.empty()) json["cause"] = t.cause;
    if (!t.unseen.empty()) json["not_given"] = names_of(t.unseen);
    if (t.guess.gave_up) json["gave_up"] = true;
    if (!t.guess.sentence.empty()) {
      json["guess"] = t.guess.sentence;
      if (t.guess.statement >= 0) {
        json["statement"] = program_.name_of(t.guess.statement);
        json["place"] = line_of(value(t.guess.statement).place);
      }
    }
    return json;
  }

  const Checked& program_;
  const AgainstReport& report_;
  const AgainstFile& o_;
};

}  // namespace

int check_against(const AgainstFile& o) {
  if (!(o.tolerance >= 0 && o.tolerance < 1))
    bad_input("--tolerance ", o.tolerance,
              ": expected a share of the largest entry, as in 0.001, or 0: what rounding explains");
  const auto program = load_text(o.target, o.text.with, o.text.use);
  const AgainstReport report = check_against(program, read_tensors(o.path),
                                             {.sizes = o.text.sizes(),
                                              .mask = read_mask(o.text.mask),
                                              .tolerance = o.tolerance,
                                              .stored_bits = bits_of_halves(o.path)});
  const AgainstOutput shown(*program, report, o);
  if (o.json) std::cout << shown.json().dump(2) << "\n";
  else shown.print();
  return report.agrees() ? 0 : static_cast<int>(ErrorKind::check);
}

}  // namespace tete
