#include "tools/inspect/page.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "tools/embedded.hpp"
#include "tools/inspect/findings.hpp"
#include "tools/inspect/levels.hpp"
#include "tools/inspect/tables.hpp"
#include "train/files.hpp"

namespace tete {

namespace {

using nlohmann::ordered_json;

// [[…], […]], a list a row; what is not finite is null.
ordered_json rows_of(const Tensor& x) {
  ordered_json rows = ordered_json::array();
  const auto values = x.values();
  const auto columns = static_cast<size_t>(x.size(1));
  for (size_t i = 0; i < values.size(); i += columns)
    rows.push_back(std::vector<double>(values.begin() + i, values.begin() + i + columns));
  return rows;
}

ordered_json to_json(const DataTable& table) {
  ordered_json columns = ordered_json::array(), rows = ordered_json::array();
  for (const TableColumn& c : table.columns)
    columns.push_back(
        {{"name", c.name}, {"unit", c.unit}, {"meaning", c.meaning}, {"token", c.token}});
  for (const auto& cells : table.rows) {
    ordered_json row = ordered_json::array();
    for (const Cell& cell : cells)
      std::visit([&](const auto& value) { row.push_back(value); }, cell);
    rows.push_back(std::move(row));
  }
  return {{"name", table.name}, {"keys", table.keys}, {"columns", columns}, {"rows", rows}};
}

ordered_json to_json(const AttentionMap& map, bool causal, int bits) {
  const Levels levels = levels_of(map, causal, bits);
  const Shape& shape = map.values.shape();
  return {{"name", map.name},
          {"path", map.path},
          {"dims", {map.heads, map.rows, map.columns}},
          {"outer", map.outer},
          {"unmeasured", map.unmeasured},
          {"meaning", map.meaning},
          {"shape", {shape[0], shape[1], shape[2]}},
          {"weights", map.weights},
          {"rowTokens", map.row_tokens},
          {"columnTokens", map.column_tokens},
          {"half", levels.half},
          {"low", levels.low},
          {"high", levels.high},
          {"origin", levels.origin},
          {"step", levels.step},
          {"decimals", levels.decimals ? ordered_json(*levels.decimals) : ordered_json()},
          {"bits", levels.bits},
          {"data", base64(bytes_of(levels))}};
}

ordered_json to_json(const MapTie& tie) {
  ordered_json mixers = ordered_json::array();
  for (const AttentionMap& mixer : tie.mixers) mixers.push_back(to_json(mixer, false, 16));
  return {{"from", tie.from},
          {"to", tie.to},
          {"by", tie.by},
          {"mixers", std::move(mixers)},
          {"unknown", tie.is_unknown}};
}

std::vector<std::string> pieces_of(const RunReport& run, const std::vector<int64_t>& tokens) {
  std::vector<std::string> pieces;
  for (int64_t token : tokens) pieces.push_back(token_text(run, token));
  return pieces;
}

// Tokens and what is added to their logits, of every head and position, k of each.
ordered_json raised_in(const RunReport& run, const Site& site) {
  if (!site.raised) return {};
  std::vector<double> by = site.raised_by.values();
  for (double& x : by) x = std::round(x * 1e5) / 1e5;
  return {{"map", site.contribution_map},
          {"shape", {site.raised.size(0), site.raised.size(1), site.raised.size(2)}},
          {"tokens", pieces_of(run, site.raised.values<int64_t>())},
          {"logits", by}};
}

ordered_json to_json(const RunReport& run, const Site& site, int bits) {
  ordered_json maps = ordered_json::array(), mixing = ordered_json::array(),
               histograms = ordered_json::array(), ties = ordered_json::array();
  for (const MapTie& tie : site.ties) ties.push_back(to_json(tie));
  for (const AttentionMap& map : site.maps) maps.push_back(to_json(map, site.causal, bits));
  for (const Mixing& m : site.mixing)
    mixing.push_back({{"name", m.name},
                      {"path", m.path},
                      {"rows", m.rows},
                      {"columns", m.columns},
                      {"values", rows_of(m.values)}});
  for (const Histogram& h : site.histograms)
    histograms.push_back(
        {{"map", h.map}, {"low", h.low}, {"high", h.high}, {"counts", rows_of(h.counts)}});
  return {{"path", site.path},
          {"stack", site.stack},
          {"layer", site.layer},
          {"kind", site.kind},
          {"causal", site.causal},
          {"text", site.text},
          {"rows", site.row_sequence},
          {"columns", site.column_sequence},
          {"maps", std::move(maps)},
          {"weights", site.weights},
          {"unshown", site.unshown},
          {"ties", std::move(ties)},
          {"mixing", mixing},
          {"histograms", histograms},
          {"raised", raised_in(run, site)},
          {"ablation", site.ablation ? ordered_json(site.ablation.values()) : ordered_json()}};
}

ordered_json to_json(const Findings& findings) {
  ordered_json heads = ordered_json::array();
  for (const Finding& each : findings.heads)
    heads.push_back({{"site", each.site->path},
                     {"tensor", each.tensor},
                     {"map", each.map},
                     {"picture", each.picture},
                     {"value", each.value},
                     {"row", each.row}});
  return {{"measure", findings.measure},
          {"meaning", findings.meaning},
          {"unit", findings.unit},
          {"heads", heads}};
}

// [mean, deviation]
ordered_json to_json(const Estimate& e) { return {e.mean, e.deviation}; }

// The token that is asked for, of several texts that of the first.
std::string asked_token(const RunReport& run, int64_t token) {
  return token < 0 ? "" : token_text(run, token);
}

ordered_json to_json(const RunReport& run, const ValueChanges& c) {
  ordered_json sequences = ordered_json::array();
  for (const ValueChange& change : c.rows) sequences.push_back(change.sequence);
  return {{"texts", c.texts},
          {"token", asked_token(run, c.token)},
          {"position", c.position},
          {"loss", to_json(c.loss)},
          {"probability", to_json(c.probability)},
          {"source", to_json(c.source_probability)},
          {"sequences", sequences}};  // by row of the table
}

ordered_json to_json(const RunReport& run, const Attribution& a) {
  ordered_json slots = ordered_json::object();
  for (const Contribution& row : a.rows) slots[row.path] = row.slot;
  return {{"texts", a.texts},
          {"token", asked_token(run, a.token)},
          {"position", a.position},
          {"logit", to_json(a.logit)},
          {"slots", std::move(slots)}};
}

ordered_json to_json(const RunReport& run, const Circuit& c) {
  std::vector<std::string> tokens;
  for (int64_t token : c.tokens) tokens.push_back(token_text(run, token));
  const Index k = std::ssize(c.tokens);
  AttentionMap map;
  map.name = c.tensor, map.path = c.path;
  map.values = Tensor::of<float>({1, k, k}, c.values.values<float>());
  return {{"kind", c.kind}, {"path", c.path},   {"tensor", c.tensor},
          {"head", c.head}, {"tokens", tokens}, {"map", to_json(map, false, 16)}};
}

ordered_json to_json(const RunReport& run, const Frame& frame, int bits) {
  ordered_json sites = ordered_json::array(), tables, losses = ordered_json::array(),
               logits = ordered_json::array(), findings = ordered_json::array(),
               counted = ordered_json::array(), points = ordered_json::object();
  for (const LogitLens& lens : frame.lens)
    for (size_t i = 0; i < lens.slots.size(); ++i) points[lens.points[i]] = lens.slots[i];
  for (const Findings& each : findings_of(frame)) findings.push_back(to_json(each));
  for (const Site& site : frame.sites) sites.push_back(to_json(run, site, bits));
  for (const DataTable& table : shown_tables(run, frame)) tables[table.name] = to_json(table);
  for (const Predictions& p : frame.predictions)
    losses.push_back(p.loss), logits.push_back(p.logits), counted.push_back(p.counted);
  ordered_json circuits = ordered_json::array();
  for (const Circuit& circuit : frame.circuits) circuits.push_back(to_json(run, circuit));
  return {{"step", frame.step},
          {"changes", to_json(run, frame.changes)},
          {"attribution", to_json(run, frame.attribution)},
          {"circuits", std::move(circuits)},
          {"withoutCircuit", frame.without_circuit},
          {"losses", losses},
          {"counted", counted},
          {"points", std::move(points)},
          {"logits", logits},
          {"findings", findings},
          {"sites", std::move(sites)},
          {"tables", tables}};
}

ordered_json to_json(const VariantText& variant) {
  ordered_json lines = ordered_json::array();
  for (const TextLine& line : variant.lines)
    lines.push_back({{"code", line.code},
                     {"comment", line.comment},
                     {"formula", line.formula},
                     {"number", line.number},
                     {"values", line.values}});
  return {{"name", variant.name}, {"lines", lines}};
}

ordered_json to_json(const RunReport& run, int bits) {
  ordered_json sequences = ordered_json::array(), texts = ordered_json::array(),
               frames = ordered_json::array(), curves = ordered_json::array(),
               samples = ordered_json::array();
  for (const TokenSequence& sequence : run.sequences)
    sequences.push_back({{"name", sequence.name}, {"tokens", pieces_of(run, sequence.tokens)}});
  for (const VariantText& variant : run.texts) texts.push_back(to_json(variant));
  for (const Frame& frame : run.frames) frames.push_back(to_json(run, frame, bits));
  for (const Curve& c : run.curves)
    curves.push_back({{"name", c.name},
                      {"group", c.group},
                      {"unit", c.unit},
                      {"steps", c.steps},
                      {"values", c.values}});
  for (const WrittenSample& s : run.samples)
    samples.push_back({{"step", s.step}, {"prompt", s.prompt}, {"text", s.text}});
  return {{"name", run.name},       {"description", run.description},
          {"sequences", sequences}, {"right", pieces_of(run, run.right)},
          {"texts", texts},         {"curves", curves},
          {"samples", samples},     {"frames", std::move(frames)}};
}

size_t bytes_in(const Report& report, int bits) {
  size_t count = 0;
  for (const RunReport& run : report.runs)
    for (const Frame& frame : run.frames)
      for (const Site& site : frame.sites)
        for (const AttentionMap& map : site.maps)
          count += static_cast<size_t>(level_count(map, site.causal));
  return count * static_cast<size_t>(bits / 8) * 4 / 3;
}

// As JSON that an HTML parser cannot take for markup: it is ASCII, and what begins or ends a tag or
// a character reference is written by its number.
std::string harmless(const ordered_json& json) {
  const std::string dumped = json.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(dumped.size() + dumped.size() / 64);
  for (char c : dumped) {
    if (c == '<') out += "\\u003c";
    else if (c == '>') out += "\\u003e";
    else if (c == '&') out += "\\u0026";
    else out += c;
  }
  return out;
}

// `page` with what stands for `mark` in place of the one line that has it.
void fill(std::string& page, const std::string& mark, const std::string& with) {
  const size_t at = page.find(mark);
  page.replace(at, mark.size(), with);
}

}  // namespace

std::string page_of(const Report& report, size_t map_bytes) {
  const int bits = bytes_in(report, 16) <= map_bytes ? 16 : 8;
  ordered_json runs = ordered_json::array();
  for (const RunReport& run : report.runs) runs.push_back(to_json(run, bits));
  const ordered_json json = {{"title", report.title},     {"text", report.text},
                             {"saved", report.saved},     {"program", report.program},
                             {"refresh", report.refresh}, {"runs", std::move(runs)}};
  std::string page = page_html();
  fill(page, "{{style}}", page_style());
  fill(page, "{{script}}", page_script());
  fill(page, "{{report}}", harmless(json));  // last: it may hold anything
  return page;
}

void write_page(const Report& report, const std::string& path) {
  const std::string page = page_of(report);
  write_file(path, page.size(), [&](const Write& write) { write(page); });
}

}  // namespace tete
