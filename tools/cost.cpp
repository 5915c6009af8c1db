// tete cost: parameters, multiplies and memory of a text, by name and in numbers; or of a model.
#include "tools/cost.hpp"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/config.hpp"
#include "tools/model_options.hpp"
#include "tools/table.hpp"
#include "tools/tensors.hpp"
#include "tools/uses.hpp"
#include "train/machine.hpp"

namespace tete {

using nlohmann::ordered_json;

// ---- What is asked for ----

void add_cost_request(CLI::App& app, CostRequest& o) {
  app.add_option("NAME|FILE", o.target, "a variant (tete list), or a file in the notation")
      ->required();
  add_amendments(app, o.with, o.dim);
  add_uses(app, o.use);
}

static Counting counting_of(const CostRequest& o) {
  return o.as == "mesh" ? Counting::mesh : Counting::pairs;
}

CostedText costed(const CostRequest& o) {
  const auto program = load_text(o.target, o.with, o.use);
  SizesByName given;
  for (const std::string& setting : o.dim) set_dim(given, setting);
  const CostOptions options{.causal = o.mask == "causal", .counting = counting_of(o)};
  SizeTable sizes = paper_sizes(program, given);
  Cost cost = cost_of(*program, sizes, options);
  return {program, std::move(sizes), options, std::move(cost)};
}

constexpr Index mesh_batch = 128;  // of Narang et al. 2021

// ---- As JSON ----

static std::string dims_of(const Checked& program, const CheckedValue& value) {
  const auto name_of = [&](int dim) { return program.dimensions[dim].name; };
  return value.name + "[" + list_of(value.dims, name_of) + "]";
}

static ordered_json to_json(const Count& count) {
  return {{"formula", count.formula.text()},
          {"multiplies", count.multiplies},
          {"naive", count.naive},
          {"visible", count.visible}};
}

static ordered_json sizes_to_json(CostedText& text) {
  ordered_json sizes = ordered_json::object();
  for (size_t i = 0; i < text.program->dimensions.size(); ++i)
    if (const auto size = text.sizes.find(static_cast<int>(i)))  // a def inside may have its own
      sizes[text.program->dimensions[i].name] = *size;
  return sizes;
}

static ordered_json to_json(CostedText& text, const std::optional<Cost>& multi_head) {
  const Checked& program = *text.program;
  const Cost& cost = text.cost;
  ordered_json json = {
      {"program", program.name},
      {"sizes", sizes_to_json(text)},
      {"parameters", cost.parameters},
      {"fixed_parameters", cost.fixed_parameters},
      {"parameter_formula", cost.parameter_formula.text()},
      {"multiplies", cost.total.multiplies},
      {"formula", cost.total.formula.text()},
      {"naive", cost.total.naive},
      {"visible", cost.visible_known ? ordered_json(cost.total.visible) : ordered_json()},
      {"once", cost.once},
      {"activation_bytes", cost.bytes},
      {"tiled_activation_bytes", cost.tiled_bytes},
      {"tiles", cost.whole_because.empty()}};
  if (text.options.counting == Counting::mesh) json["batch_multiplies"] = cost.of_batch(mesh_batch);
  for (const StatementCost& statement : cost.statements) {
    const CheckedValue& value = program.values[statement.value];
    ordered_json line = {{"name", value.name}, {"statement", dims_of(program, value)}};
    line.update(to_json(statement.count));
    line["once"] = statement.once;
    line["bytes"] = statement.bytes;
    line["tile"] = statement.tile;
    for (const InnerCost& inner : statement.inside) {
      line["inside"].push_back({{"name", inner.name}});
      line["inside"].back().update(to_json(inner.count));
    }
    json["statements"].push_back(line);
  }
  json["parameter_sizes"] = ordered_json::array();
  for (const ParameterCost& made : cost.parameter_sizes) {
    json["parameter_sizes"].push_back({{"name", made.name},
                                       {"formula", made.formula.text()},
                                       {"size", made.size},
                                       {"fixed", made.fixed},
                                       {"per_stack", made.per_stack}});
  }
  if (multi_head)
    json["multi_head"] = {{"parameters", multi_head->parameters},
                          {"multiplies", multi_head->total.multiplies}};
  return json;
}

// ---- For people ----

static void print_statements(const CostedText& text) {
  const Checked& program = *text.program;
  const bool masked =
      text.cost.visible_known && text.cost.total.visible != text.cost.total.multiplies;
  const auto numbers = [&](const Count& count) {
    std::vector<std::string> words{count.formula.empty() ? "" : count.formula.text(),
                                   count.formula.empty() ? "" : grouped(count.multiplies)};
    if (masked) words.push_back(count.formula.empty() ? "" : grouped(count.visible));
    return words;
  };
  Table table;
  std::vector<std::string> head{"statement", "multiplies", ""};
  if (masked) head.push_back("visible");
  table.add(head);
  const auto row = [&](std::string name, const Count& count) {
    std::vector<std::string> line{std::move(name)};
    for (std::string& word : numbers(count)) line.push_back(std::move(word));
    return line;
  };
  for (const StatementCost& statement : text.cost.statements) {
    const bool has_inside = !statement.inside.empty();
    std::vector<std::string> line = row(dims_of(program, program.values[statement.value]),
                                        has_inside ? Count() : statement.count);
    if (statement.once && !statement.count.formula.empty()) line[1] += " (once a batch)";
    table.add(line);
    for (const InnerCost& inner : statement.inside) table.add(row("  " + inner.name, inner.count));
  }
  std::vector<std::string> total{"total", "", grouped(text.cost.total.multiplies)};
  if (masked) total.push_back(grouped(text.cost.total.visible));
  table.add(total);
  table.print();
}

static void print_parameters(const CostedText& text) {
  Table table;
  table.add({"parameter", "numbers", ""});
  for (const ParameterCost& made : text.cost.parameter_sizes) {
    const char* const remark = made.fixed ? " (fixed)" : made.per_stack ? " (once a stack)" : "";
    const Checked& program = *text.program;
    table.add({made.value < 0 ? made.name : dims_of(program, program.values[made.value]),
               made.formula.text() + remark, grouped(made.size)});
  }
  table.add({"total", "", grouped(text.cost.parameters)});
  table.print();
}

static std::string times(Index a, Index b) {
  return number_text(static_cast<double>(a) / static_cast<double>(b), 4);
}

static void print_totals(const CostedText& text, const std::optional<Cost>& multi_head) {
  const Cost& cost = text.cost;
  std::printf("parameters   %s", grouped(cost.parameters).c_str());
  if (cost.fixed_parameters > 0)
    std::printf(", and %s that are not learned", grouped(cost.fixed_parameters).c_str());
  std::printf("\nmultiplies   %s a sequence, forward", grouped(cost.total.multiplies).c_str());
  if (cost.once > 0) std::printf("; %s of them once a batch", grouped(cost.once).c_str());
  if (text.options.counting == Counting::mesh)
    std::printf("\n             %s a batch of 128, as Mesh-TensorFlow counts",
                grouped(cost.of_batch(mesh_batch)).c_str());
  if (!cost.visible_known)
    std::printf("\n             (too many pairs to count what the text's own mask leaves)");
  if (cost.total.naive != cost.total.multiplies)
    std::printf("\n             %s if each einsum were one loop",
                grouped(cost.total.naive).c_str());
  if (multi_head && multi_head->parameters > 0 && multi_head->total.multiplies > 0)
    std::printf("\n             %s times multi-head's parameters, %s times its multiplies",
                times(cost.parameters, multi_head->parameters).c_str(),
                times(cost.total.multiplies, multi_head->total.multiplies).c_str());
  std::printf("\nactivations  %s made of one sequence, in f32", size_text(cost.bytes).c_str());
  if (cost.tiled_bytes != cost.bytes)
    std::printf("; %s in tiles of %d queries", size_text(cost.tiled_bytes).c_str(),
                static_cast<int>(cost.tile_queries));
  if (!cost.whole_because.empty())
    std::printf("\n             not in tiles: %s: %s", line_of(cost.whole_because[0]).c_str(),
                cost.whole_reason.c_str());
  std::puts("");
}

static void print(CostedText& text, const std::optional<Cost>& multi_head) {
  std::string sizes;
  for (size_t i = 0; i < text.program->dimensions.size(); ++i) {
    const std::string& name = text.program->dimensions[i].name;
    const auto size = text.sizes.find(static_cast<int>(i));
    if (size && name.find('.') == std::string::npos)
      sizes += tete::text(sizes.empty() ? "" : " ", name, "=", *size);
  }
  std::printf("%s with %s\n\n", text.program->name.c_str(), sizes.c_str());
  print_statements(text);
  if (!text.cost.parameter_sizes.empty()) print_parameters(text);
  print_totals(text, multi_head);
}

// ---- A whole model ----

struct CostVerbOptions {
  CostRequest request;
  ModelOptions shape;
  std::string task = "text";
  std::optional<Index> vocabulary;
  bool model = false, json = false;
};

static std::vector<std::string> shape_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (option->get_group() == "Model" && option->count() > 0)
      names.push_back("--" + option->get_lnames().front());
  return names;
}

// The model that `tete train` would build from these options, at --context tokens.
static CostedText costed_model(CostVerbOptions& o, CLI::App& app) {
  const Task* task = chosen_task(o.task);
  if (o.task == masked_task)
    bad_input("--task mlm is for an encoder, which is a text of its own: tete cost bert");
  if (task)
    apply_config(app, text("--task ", task->name),
                 text(task->sizes, "\ncontext = ", task->context, "\n"));
  for (const Variant& model : models())
    if (model.name == o.request.target)
      bad_input("--model makes a model around attention, but '", model.name,
                "' is a model itself: tete cost ", model.name);
  ModelOptions& m = o.shape;
  m.attention = o.request.target, m.with = o.request.with, m.dim = o.request.dim;
  m.use = o.request.use;
  read_model(m, app, task && task->encoder);
  const Index vocabulary = o.vocabulary.value_or(task ? TaskData::tokenizer(*task).size() : 256);
  if (vocabulary < 1) bad_input("--vocabulary ", vocabulary, ": expected at least 1");
  const Model model = make_model(m.model, vocabulary);
  const CostOptions options{.counting = counting_of(o.request)};
  SizeTable sizes = sizes_at(model, m.model.context);
  Cost cost = cost_of(model.program(), sizes, options);
  return {model.shared_program(), std::move(sizes), options, std::move(cost)};
}

// ---- The verb ----

static int cost(CostVerbOptions& o, CLI::App& app) {
  const std::string masks[] = {"causal", "none"};
  if (o.request.mask != masks[0] && o.request.mask != masks[1])
    bad_input("--mask ", o.request.mask, ": expected causal or none",
              suggestion(o.request.mask, masks));
  const std::string ways[] = {"pairs", "mesh"};
  if (o.request.as != ways[0] && o.request.as != ways[1])
    bad_input("--as ", o.request.as, ": expected pairs or mesh", suggestion(o.request.as, ways));
  if (const std::vector<std::string> given = shape_options(app); !o.model && !given.empty())
    bad_input(given[0], " shapes a whole model, which --model asks for; sizes of the text alone ",
              "are set by --dim, as in --dim h=8");
  CostedText text = o.model ? costed_model(o, app) : costed(o.request);
  const std::optional<Cost> multi_head = multi_head_cost(
      *text.program, text.sizes, {.dtype = text.options.dtype, .counting = text.options.counting});
  if (o.json) std::cout << to_json(text, multi_head).dump(2) << "\n";
  else print(text, multi_head);
  return 0;
}

Run cost_verb(CLI::App& app) {
  auto o = std::make_shared<CostVerbOptions>();
  add_cost_request(app, o->request);
  app.add_option("--mask", o->request.mask, "causal: count the visible pairs beside all pairs")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option(
         "--as", o->request.as,
         "mesh: as Narang et al. 2021 count, a look-up is a product with all rows, and what is "
         "no einsum is free, as are convolutions; with the sum for a batch of 128")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--json", o->json, "as JSON; parameters and multiplies are whole numbers");
  app.add_flag("--model", o->model,
               "the whole model that tete train makes of these options, on one sequence of "
               "--context tokens");
  app.option_defaults()->group("Model");
  app.add_option("--task", o->task,
                 "what it learns (tete train --help): a task has a vocabulary and sizes of its "
                 "own; reverse "
                 "has an encoder and a decoder, each on --context tokens")
      ->type_name("NAME")
      ->capture_default_str();
  add_shape_options(app, o->shape);
  app.add_option("--vocabulary", o->vocabulary, "vocabulary size (default: 256, or the task's)")
      ->type_name("N");
  app.footer(
      "Sizes are those of a T5-base layer where neither --dim nor the text says others:\n"
      "n = m = 512 and 768 wide, h = 12; a model reads 512 tokens, and its decoder 114 of\n"
      "another sequence, of v = 32128 token types. An einsum counts each pair of its cheapest\n"
      "order as the product of all names, a product of two tensors its result, anything\n"
      "else nothing.\n\n"
      "Examples:\n"
      "  tete cost talking_heads --dim h=24\n"
      "  tete cost mine.tete --dim n=1 --mask causal --json\n"
      "  tete cost vanilla --as mesh\n"
      "  tete cost talking_heads --model --layers 12 --d-model 768 --heads 12\n"
      "  tete cost multi_head --model --task reverse --attention-cross talking_heads");
  return [o, &app] { return cost(*o, app); };
}

}  // namespace tete
