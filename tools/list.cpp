// tete list: the attention variants by family, with their papers, parameters, and where they fit;
// or the texts of models and of the blocks that fill their slots.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "attention/attention.hpp"
#include "tools/options.hpp"

namespace tete {

static constexpr const char* families[] = {"dot product", "talking heads", "synthesizers",
                                           "long range", "scores"};

// Families that are not in the list come last.
static size_t rank_of(const std::string& family) {
  return static_cast<size_t>(std::find(std::begin(families), std::end(families), family) -
                             families);
}

// The family that the text states below its opening line, as "# Family: long range"; or "other".
static std::string family_of(const Variant& variant) {
  const std::string &text = variant.program->source->text, mark = "\n# Family: ";
  const size_t at = text.find(mark);
  if (at == std::string::npos) return "other";
  const size_t from = at + mark.size(), end = text.find('\n', from);
  const std::string line = text.substr(from, end - from);
  return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

// The texts by family, each by name.
static std::vector<const Variant*> by_family(const std::vector<Variant>& texts) {
  std::vector<const Variant*> all;
  for (const Variant& text : texts) all.push_back(&text);
  const auto key = [](const Variant* v) {
    const std::string family = family_of(*v);
    return std::tuple(rank_of(family), family, v->name);
  };
  std::sort(all.begin(), all.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
  return all;
}

struct ParameterLine {
  std::string name;
  std::vector<std::string> dims;
};

static std::vector<ParameterLine> parameters_of(const Checked& program) {
  std::vector<ParameterLine> lines;
  for (const CheckedParameter& parameter : program.parameters) {
    ParameterLine line{parameter.name, {}};
    for (int dim : program.values[parameter.value].dims)
      line.dims.push_back(program.dimensions[dim].name);
    lines.push_back(std::move(line));
  }
  return lines;
}

// "P_q[d_X, d_k, h]"
static std::string as_written(const ParameterLine& line) {
  return line.name + "[" + list_of(line.dims) + "]";
}

// Those of the catalogue's amendments that the text takes: it has the tensors that they change.
static std::vector<std::string> amendments_of(const Variant& variant) {
  std::vector<std::string> names;
  for (const Variant& amendment : amendments()) try {
      load_attention(*variant.program, {*amendment.program});
      names.push_back(amendment.name);
    } catch (const Error&) {  // it says which tensor is not there
    }
  return names;
}

static void print(const Variant& variant, const Checked& program) {
  std::cout << variant.name << "\n    " << variant.paper << "\n    "
            << (is_causal(program) ? "causal" : "not causal")
            << (attends_across(program) ? "; cross-attention" : "; self-attention only") << "\n";
  std::string line = "   ";
  for (const ParameterLine& parameter : parameters_of(program)) {
    const std::string word = as_written(parameter);
    if (line.size() + 1 + word.size() > 80) std::cout << std::exchange(line, "   ") << "\n";
    line += " " + word;
  }
  std::cout << (line == "   " ? "    (no parameters)" : line) << "\n";
  std::string with;
  for (const std::string& name : amendments_of(variant)) with += " " + name;
  if (!with.empty()) std::cout << "    --with" << with << "\n";
}

static nlohmann::ordered_json as_json(const Variant& variant, const Checked& program) {
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
  for (const ParameterLine& line : parameters_of(program))
    parameters.push_back({{"name", line.name}, {"dims", line.dims}});
  return {{"name", variant.name},
          {"family", family_of(variant)},
          {"paper", variant.paper},
          {"inputs", program.input_names},
          {"parameters", parameters},
          {"self_only", program.self_only},
          {"cross_attention", attends_across(program)},
          {"takes_mask", program.takes_mask},
          {"causal", is_causal(program)},
          {"amendments", amendments_of(variant)},
          {"text", variant.program->source->text}};
}

static int list(bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string family;
  for (const Variant* variant : by_family(variants())) {
    const auto program = load_attention(*variant->program);
    if (json) {
      all.push_back(as_json(*variant, *program));
      continue;
    }
    if (const std::string next = family_of(*variant); next != family)
      std::cout << (family.empty() ? "" : "\n") << "== " << (family = next) << "\n";
    print(*variant, *program);
  }
  if (json) std::cout << all.dump(2) << "\n";
  return 0;
}

// The slots of a text and what fills them, as it says.
static std::vector<std::string> slots_of(const Program& program) {
  std::vector<std::string> lines;
  for (const UseText& use : program.uses) {
    const bool fills = !use.filler.name.empty();
    lines.push_back(written(use) + (fills ? " = " : " ") + filling_of(use));
  }
  return lines;
}

static int list_texts(const std::vector<Variant>& texts, bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string family;
  for (const Variant* each : by_family(texts)) {
    const Variant& text = *each;
    const std::vector<std::string> slots = slots_of(*text.program);
    if (const std::string next = family_of(text); !json && next != family)
      std::cout << (family.empty() ? "" : "\n") << "== " << (family = next) << "\n";
    if (json)
      all.push_back({{"name", text.name},
                     {"family", family_of(text)},
                     {"paper", text.paper},
                     {"slots", slots},
                     {"text", text.program->source->text}});
    else std::cout << text.name << "\n    " << text.paper << "\n";
    for (const std::string& slot : slots)
      if (!json) std::cout << "    " << slot << "\n";
  }
  if (json) std::cout << all.dump(2) << "\n";
  return 0;
}

Run list_verb(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  auto of_models = std::make_shared<bool>(false), of_blocks = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "as JSON, with the texts");
  app.add_flag("--models", *of_models, "the models, with their slots");
  app.add_flag("--blocks", *of_blocks, "the texts that fill models' slots, but attention");
  app.footer(
      "Example:\n"
      "  tete list --json | python3 -m json.tool\n"
      "  tete list --models\n"
      "Each is a file of attention/variants, nn/models or nn/blocks; tete train and check\n"
      "take a file of yours wherever they take a name.");
  return [=] {
    std::vector<Variant> texts;
    if (*of_models) texts = models();
    if (*of_blocks) texts.insert(texts.end(), blocks().begin(), blocks().end());
    return texts.empty() ? list(*json) : list_texts(texts, *json);
  };
}

}  // namespace tete
