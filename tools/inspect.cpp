// tete inspect: what the heads of a trained model do with a text, as a page, and the numbers behind
// it as files.
#include "tools/inspect/inspect.hpp"
#include "core/devices.hpp"

#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/inspect/findings.hpp"
#include "tools/inspect/page.hpp"
#include "tools/inspect/pictures.hpp"
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
  std::string device = "cpu";
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

void print(const Report& report) {
  for (const RunReport& run : report.runs) {
    const Frame& frame = run.frames.back();
    std::cout << run.name << ": " << run.description << "; step " << frame.step;
    for (const Predictions& p : frame.predictions)
      if (std::isfinite(p.loss)) std::cout << "; loss on this text " << digits(p.loss);
      else if (p.tokens.size(0) > 1) std::cout << "; no loss, as this text has no answer";
    std::cout << "\nThe most of each:" << std::endl;
    print_strongest(frame);
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
  o.look.device = &find_device(o.device);
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

}  // namespace

Run inspect_verb(CLI::App& app) {
  auto o = std::make_shared<InspectCommand>();
  app.add_option("CHECKPOINT", o->checkpoint, "a checkpoint, or a run's folder: its newest one")
      ->required();
  app.add_option("--text", o->look.text, "what the model reads")->type_name("TEXT")->required();
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
  app.option_defaults()->group("Output");
  app.add_option("--out", o->out, "the page, one self-contained HTML file")->type_name("FILE");
  app.add_option("--save", o->look.save, "activations in full, in safetensors")->type_name("FILE");
  add_list(app, "--paths", o->look.paths,
           "which activations: decoder/*/A/W; * is any letters of one part, ** any parts; "
           "TransformerLens's names work, too (default: all)")
      ->type_name("GLOB");
  app.add_option("--layer", o->look.layer,
                 "of one attention, decoder/0/A: --save writes its inputs, parameters and "
                 "values under the names of its text, as tete run and tete check --against take "
                 "them")
      ->type_name("PATH");
  app.add_option("--tables", o->tables, "the page's numbers, in CSV")->type_name("DIR");
  app.add_option("--pictures", o->pictures, "the page's pictures, in SVG; Chromium draws them")
      ->type_name("DIR");
  app.option_defaults()->group("Run");
  add_threads(app, o->threads);
  add_device(app, o->device);
  app.add_flag("--json", o->json, "the page's tables, one JSON object a checkpoint");
  app.footer(
      "Examples:\n"
      "  tete inspect runs/book --text \"It was the\" --out report.html\n"
      "  tete inspect runs/mine --beside runs/theirs --text \"It was\" --out both.html\n"
      "  tete inspect runs/book --text \"It was\" --paths '**/W' --save acts.safetensors\n"
      "  tete inspect runs/book --text \"It was\" --layer decoder/0/A --save layer.safetensors\n"
      "  tete run talking_heads --tensors layer.safetensors --mask causal --out again.safetensors");
  return [o] { return run_inspect(*o); };
}

}  // namespace tete
