// tete inspect: what the heads of a trained model do with a text, as a page, and the numbers behind
// it as files.
#include "tools/inspect/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/inspect/findings.hpp"
#include "tools/inspect/page.hpp"
#include "tools/inspect/pictures.hpp"
#include "tools/inspect/table_files.hpp"
#include "tools/inspect/tables.hpp"
#include "tools/options.hpp"
#include "tools/table.hpp"

namespace tete {

namespace {

struct InspectCommand {
  InspectOptions look;
  std::string checkpoint, beside;
  std::string out, tables, pictures;
  int threads = 0;
  DeviceOptions device;
  bool json = false;
};

std::string digits(double x) {
  std::ostringstream out;
  out.precision(4);
  out << x;
  return out.str();
}

// ---- For people: which heads stand out ----

// For each measure, the head that has most of it.
void print_strongest(const Frame& frame) {
  Table table;
  for (const Findings& each : findings_of(frame)) {
    const Finding& first = each.heads.front();
    table.add({"  " + each.measure,
               text(first.site->path, "/", first.tensor, ", head ", first.picture),
               digits(first.value), each.unit});
  }
  table.print();
}

// ---- For people: what changes of values do ----

std::string told(const Estimate& e) {
  return digits(e.mean) + (std::isnan(e.deviation) ? "" : " ± " + digits(e.deviation));
}
std::string told(const Cell& cell) {
  if (const auto* number = std::get_if<double>(&cell))
    return std::isnan(*number) ? "–" : digits(*number + 0.0);
  if (const auto* count = std::get_if<int64_t>(&cell)) return std::to_string(*count);
  return std::get<std::string>(cell);
}

// "Unchanged: loss 1.2; 'b' after position 6 has probability 0.93"
std::string unchanged(const RunReport& run, const ValueChanges& c) {
  const std::string token =
      c.texts > 1 ? "the token that is asked for"
                  : text("'", token_text(run, c.token), "' after position ", c.position);
  return text("Unchanged", c.texts > 1 ? text(" (", c.texts, " texts)") : "", ": loss ",
              told(c.loss), "; ", token, " has probability ", told(c.probability));
}

// All of them, or where they are many those that change the loss or the probability most.
void print_changes(const RunReport& run, const Frame& frame) {
  constexpr size_t most = 40;
  const std::vector<DataTable> tables = shown_tables(run, frame);
  const DataTable& changes = *std::find_if(tables.begin(), tables.end(),
                                           [](const DataTable& t) { return t.name == "changes"; });
  if (changes.rows.empty()) return;
  std::cout << unchanged(run, frame.changes) << "\n";
  Table table(2);
  std::vector<std::string> names;
  for (const TableColumn& column : changes.columns) names.push_back(column.name);
  names[0] = "  " + names[0];
  table.add(names);
  auto rows = changes.rows;
  const auto effect = [](const auto& row) {
    const double loss = std::abs(std::get<double>(row[4]));
    return std::fmax(std::isnan(loss) ? 0 : loss, std::abs(std::get<double>(row[5])));
  };
  if (rows.size() > most) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const auto& a, const auto& b) { return effect(a) > effect(b); });
    rows.resize(most);
  }
  for (const auto& row : rows) {
    std::vector<std::string> words;
    for (const Cell& cell : row) words.push_back(told(cell));
    words[0] = "  " + words[0];
    table.add(words);
  }
  table.print();
  if (rows.size() < changes.rows.size())
    std::cout << "The " << most << " of " << changes.rows.size()
              << " that change loss or probability most; --tables has all.\n";
}

// The parts that add most to the logit that is asked for, or take most of it.
void print_attribution(const RunReport& run, const Attribution& a) {
  constexpr size_t most = 6;
  if (!a.refused.empty() || a.rows.empty()) return;
  std::vector<Contribution> rows = a.rows;
  std::stable_sort(rows.begin(), rows.end(), [](const Contribution& x, const Contribution& y) {
    return std::abs(x.logit.mean) > std::abs(y.logit.mean);
  });
  rows.resize(std::min(most, rows.size()));
  std::cout << "Most of the logit " << told(a.logit) << " of "
            << (a.texts > 1 ? "the token that is asked for"
                            : text("'", token_text(run, a.token), "' after position ", a.position))
            << ":\n";
  Table table;
  for (const Contribution& each : rows)
    table.add({"  " + each.path, each.head < 0 ? "" : text("head ", each.head), told(each.logit)});
  table.print();
}

// How often a token has the largest number of its row: a head that looks at its own, or copies it.
void print_circuits(const Frame& frame) {
  if (!frame.circuits.empty()) {
    std::cout << "Circuits, and for how many tokens the token itself has the most:\n";
    Table table(4);
    for (const Circuit& c : frame.circuits) {
      const std::vector<double> values = c.values.values();
      const auto k = std::ssize(c.tokens);
      int64_t own = 0;
      for (int64_t i = 0; i < k; ++i) {
        const auto row = values.begin() + i * k;
        own += std::max_element(row, row + k) - row == i;
      }
      table.add(
          {"  " + c.kind, c.path + "/" + c.tensor, text("head ", c.head), text(own, " of ", k)});
    }
    table.print();
  }
  for (const std::string& sentence : frame.without_circuit) std::cout << sentence << "\n";
}

void print(const Report& report) {
  for (const RunReport& run : report.runs) {
    const Frame& frame = run.frames.back();
    std::cout << run.name << ": " << run.description << "; step " << frame.step;
    for (const Predictions& p : frame.predictions)
      if (std::isfinite(p.loss)) std::cout << "; loss on this text " << digits(p.loss);
      else if (p.tokens.size(0) > 1) std::cout << "; no loss, as this text has no answer";
    std::cout << "\nThe most of each:" << std::endl;
    print_strongest(frame);
    print_attribution(run, frame.attribution);
    print_changes(run, frame);
    print_circuits(frame);
  }
}

// ---- For machines: a checkpoint a line ----

nlohmann::ordered_json rows_of(const DataTable& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& cells : table.rows) {
    nlohmann::ordered_json row;
    for (size_t i = 0; i < cells.size(); ++i)
      std::visit([&](const auto& value) { row[table.columns[i].name] = value; }, cells[i]);
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_json(const Report& report) {
  for (const RunReport& run : report.runs)
    for (const Frame& frame : run.frames) {
      nlohmann::ordered_json line = {{"run", run.name}, {"checkpoint", frame.step}};
      for (const DataTable& table : shown_tables(run, frame)) line[table.name] = rows_of(table);
      std::cout << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
                << "\n";
    }
}

// ---- The verb ----

// "report.html (1.2 MB)"
std::string with_size(const std::string& path) {
  std::error_code unknown;
  const auto bytes = static_cast<double>(std::filesystem::file_size(path, unknown));
  return unknown ? path : text(path, " (", digits(std::round(bytes / 1e4) / 100), " MB)");
}

int run_inspect(InspectCommand& o) {
  use_threads(o.threads);
  const DeviceInUse device(o.device);
  o.look.device = &*device;
  if (o.look.text.empty() && o.look.texts.empty()) bad_input("--text or --texts is required");
  const std::string browser = o.pictures.empty() ? "" : find_browser();
  o.look.checkpoints = {o.checkpoint};
  if (!o.beside.empty()) o.look.checkpoints.push_back(o.beside);
  Report report = inspect(o.look);
  report.title = "Inside " + o.checkpoint + (o.beside.empty() ? "" : " and " + o.beside);
  report.program = program_version();
  if (!o.out.empty()) write_page(report, o.out);
  if (!o.tables.empty()) write_tables(report, o.tables);
  if (!o.pictures.empty()) write_pictures(report, browser, o.pictures);
  for (const std::string& path : {o.out, o.look.save}) speak_beside(path);
  if (o.json) return print_json(report), 0;
  print(report);
  std::string written;
  for (const std::string& path : {o.out, o.look.save, o.tables, o.pictures})
    if (!path.empty()) written += (written.empty() ? "" : ", ") + with_size(path);
  if (!written.empty()) std::cout << "Written: " << written << std::endl;
  return 0;
}

void add_interventions(CLI::App& app, InspectOptions& o) {
  app.option_defaults()->group("Interventions");
  add_list(app, "--ablate", o.changes.ablate,
           "set to zero: decoder/0/A/O[2] is head 2 of O, [h=2, n=5] that head at position 5, [] "
           "the whole tensor; a path alone, or a glob, is each head in turn")
      ->type_name("PATH[HEAD]");
  add_list(app, "--patch", o.changes.patch,
           "replace by the value from another run, which --text-from or --from says")
      ->type_name("PATH[HEAD]");
  app.add_option("--text-from", o.changes.text_from,
                 "the text of that run, with as many tokens (default: the same text)")
      ->type_name("TEXT");
  app.add_option("--from", o.changes.from, "the model of that run (default: the same model)")
      ->type_name("CHECKPOINT");
  add_list(app, "--steer", o.changes.steer,
           "add an .npy array: of the tensor's shape, with or without its positions, and without "
           "what is picked in brackets")
      ->type_name("PATH=FILE");
  app.add_flag("--each-position", o.changes.each_position, "each position in turn, too");
  app.add_option("--token", o.asked.token,
                 "the token whose probability is told (default: the one that follows the "
                 "position, or else the likeliest)")
      ->type_name("TOKEN");
  app.add_option("--position", o.asked.position,
                 "after which position, counted from 0 (default: with --token the last one; else "
                 "the last one whose next token is known)")
      ->type_name("N")
      ->check(within<Index>(0, 1000000000));
  add_list(app, "--circuits", o.circuits,
           "QK and OV circuits of an attention's head, decoder/0/A[2], or of each: matrices over "
           "the vocabulary, or over the text's tokens where that is large")
      ->type_name("PATH[HEAD]");
}

void add_output(CLI::App& app, InspectCommand& o) {
  app.option_defaults()->group("Output");
  app.add_option("--out", o.out, "the page, one self-contained HTML file")->type_name("FILE");
  app.add_option("--save", o.look.save, "activations in full, in safetensors")->type_name("FILE");
  add_list(app, "--paths", o.look.paths,
           "which activations: decoder/*/A/W; * is any letters of one part, ** any parts; "
           "TransformerLens's names work, too (default: all)")
      ->type_name("GLOB");
  app.add_option("--layer", o.look.layer,
                 "of one attention, decoder/0/A: --save writes its inputs, parameters and "
                 "values under the names of its text, as tete run and tete check --against take "
                 "them")
      ->type_name("PATH");
  app.add_option("--tables", o.tables, "the page's numbers, in CSV")->type_name("DIR");
  app.add_option("--pictures", o.pictures, "the page's pictures, in SVG; Chromium draws them")
      ->type_name("DIR");
}

}  // namespace

Run inspect_verb(CLI::App& app) {
  auto o = std::make_shared<InspectCommand>();
  app.add_option("CHECKPOINT", o->checkpoint, "a checkpoint, or a run's folder: its newest one")
      ->required();
  app.add_option("--text", o->look.text, "what the model reads")->type_name("TEXT");
  app.add_option("--texts", o->look.texts,
                 "a file of texts, one per line: interventions are averaged over them, with "
                 "deviations; without --text the page shows the first")
      ->type_name("FILE");
  app.add_option("--answer", o->look.answer,
                 "for an encoder-decoder: what the decoder reads (default: its own answer)")
      ->type_name("TEXT");
  app.add_option("--beside", o->beside,
                 "compare with another checkpoint or run, side by side, with the difference")
      ->type_name("CHECKPOINT");
  app.add_flag("--all-steps", o->look.all_steps,
               "every checkpoint of the folder; the page has a slider");
  app.add_flag("!--no-ablation", o->look.ablation,
               "leave out the loss without each head, which takes one forward pass per head");
  add_interventions(app, o->look);
  add_output(app, *o);
  app.option_defaults()->group("Run");
  add_threads(app, o->threads);
  add_device(app, o->device);
  app.add_flag("--json", o->json, "the page's tables, one JSON object a checkpoint");
  app.footer(
      "Examples:\n"
      "  tete inspect runs/book --text \"It was the\" --out report.html\n"
      "  tete inspect runs/mine --beside runs/theirs --text \"It was\" --out both.html\n"
      "  tete inspect runs/book --text \"It was the\" --ablate 'decoder/*/A/O'\n"
      "  tete inspect runs/book --text \"It was\" --patch decoder/0/Y --text-from \"He was\"\n"
      "  tete inspect runs/book --text \"It was\" --paths '**/W' --save acts.safetensors\n"
      "  tete inspect runs/book --text \"It was\" --layer decoder/0/A --save layer.safetensors\n"
      "  tete run talking_heads --tensors layer.safetensors --mask causal --out again.safetensors");
  return [o] { return run_inspect(*o); };
}

}  // namespace tete
