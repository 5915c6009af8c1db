#include "tools/inspect/tables.hpp"

#include <charconv>
#include <cmath>
#include <map>

#include "core/utf8.hpp"
#include "train/files.hpp"

namespace tete {

namespace {

using Row = std::vector<Cell>;

Index column_of(DataTable& table, const TableColumn& column) {
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].name == column.name) return static_cast<Index>(i);
  table.columns.push_back(column);
  return static_cast<Index>(table.columns.size()) - 1;
}

// Puts a cell where its column is; columns come in the order in which they are first met.
void put(DataTable& table, Row& row, const TableColumn& column, Cell cell) {
  const auto at = static_cast<size_t>(column_of(table, column));
  row.resize(std::max(row.size(), at + 1), undefined);
  row[at] = std::move(cell);
}

// Rows that met fewer columns than there are now.
DataTable completed(DataTable table) {
  for (Row& row : table.rows) row.resize(table.columns.size(), undefined);
  return table;
}

// "[n=5, d_X=32]"
std::string shape_text(const SiteValue& value) {
  std::string out = "[";
  for (size_t i = 0; i < value.dims.size(); ++i)
    out += text(i > 0 ? ", " : "", value.dims[i], "=", value.shape[static_cast<int>(i)]);
  return out + "]";
}

// ---- What a checkpoint shows ----

// "W", or of several axes "A[s=1]": the tensor that a measure is of.
std::string name_of_picture(const AttentionMap& map, Index picture) {
  Index outer = 1;
  for (const auto& [name, size] : map.outer) outer *= size;
  Index rest = picture / (map.values.size(0) / outer);
  std::string axes;
  for (size_t i = map.outer.size(); i-- > 0; rest /= map.outer[i].second)
    axes =
        text(map.outer[i].first, "=", rest % map.outer[i].second, axes.empty() ? "" : ", ", axes);
  return axes.empty() ? map.name : text(map.name, "[", axes, "]");
}

void add_measures(const Site& site, const AttentionMap& map, DataTable& table) {
  Index outer = 1;
  for (const auto& [name, size] : map.outer) outer *= size;
  const Index pictures = map.values.size(0);
  for (Index i = 0; i < pictures; ++i) {
    Row row{site.path, name_of_picture(map, i), i % (pictures / outer)};
    for (const HeadStatistic& s : site.heads)
      if (s.map == map.name) put(table, row, {s.name, s.unit, s.meaning}, s.values.values()[i]);
    table.rows.push_back(std::move(row));
  }
}

DataTable heads_table(const Frame& frame) {
  DataTable table{"heads", {{"site"}, {"tensor", "", "what is measured"}, {"head"}}, {}, 3};
  for (const Site& site : frame.sites) {
    for (const AttentionMap& map : site.maps)
      if (map.unmeasured.empty()) add_measures(site, map, table);
    for (Index head = 0; site.ablation && head < site.ablation.size(); ++head) {
      Row row{site.path, site.ablated, head};
      put(table, row, {"loss without it", "nats a token", ablation_meaning},
          site.ablation.values()[head]);
      table.rows.push_back(std::move(row));
    }
  }
  return completed(std::move(table));
}

double largest_entry(const Tensor& x) {
  double largest = 0;
  for (double entry : x.values()) largest = std::max(largest, std::abs(entry));
  return largest;
}

DataTable mixing_table(const Frame& frame) {
  DataTable table{"mixing",
                  {{"site"},
                   {"matrix"},
                   {"rows"},
                   {"columns"},
                   {"largest entry", "", "the largest |entry|, which is 1 in the picture"},
                   {"determinant", "", "of a square matrix"},
                   {"condition", "", "largest singular value / smallest"},
                   {"smallest eigenvalue", "", "the smallest |eigenvalue| of a square matrix"}},
                  {}};
  for (const Site& site : frame.sites)
    for (const Mixing& m : site.mixing)
      table.rows.push_back({site.path, m.name, text(m.rows, "=", m.values.size(0)),
                            text(m.columns, "=", m.values.size(1)), largest_entry(m.values),
                            m.determinant, m.condition, m.smallest_eigenvalue});
  return table;
}

DataTable predictions_table(const RunReport& run, const Frame& frame) {
  DataTable table{"predictions",
                  {{"sequence"},
                   {"position"},
                   {"token", "", "", true},
                   {"next", "", "the token that does follow", true},
                   {"its probability"}},
                  {}};
  for (const Predictions& p : frame.predictions) {
    const TokenSequence& sequence = run.sequences.at(static_cast<size_t>(p.sequence));
    const auto tokens = p.tokens.values<int64_t>(), next = p.next.values<int64_t>();
    const auto chances = p.probabilities.values(), chance = p.next_probability.values();
    const auto n = static_cast<size_t>(p.tokens.size(0)), k = static_cast<size_t>(p.tokens.size(1));
    for (size_t i = 0; i < n; ++i) {
      Row row{sequence.name, static_cast<int64_t>(i), token_text(run, sequence.tokens.at(i)),
              next[i] < 0 ? "" : token_text(run, next[i]), chance[i]};
      for (size_t j = 0; j < k; ++j) {
        put(table, row, {text("likeliest ", j + 1), "", "", true},
            token_text(run, tokens[i * k + j]));
        put(table, row, {text("probability ", j + 1)}, chances[i * k + j]);
      }
      table.rows.push_back(std::move(row));
    }
  }
  return completed(std::move(table));
}

DataTable lens_table(const RunReport& run, const Frame& frame) {
  DataTable table{"lens",
                  {{"sequence"},
                   {"point"},
                   {"position"},
                   {"token", "", "", true},
                   {"likeliest", "", "", true},
                   {"probability"},
                   {"next's probability", "", "of the token that does follow"}},
                  {}};
  for (const LogitLens& lens : frame.lens) {
    const TokenSequence& sequence = run.sequences.at(static_cast<size_t>(lens.sequence));
    const auto tokens = lens.tokens.values<int64_t>();
    const auto chances = lens.probabilities.values(), next = lens.next_probability.values();
    const auto n = static_cast<size_t>(lens.tokens.size(1));
    for (size_t i = 0; i < tokens.size(); ++i)
      table.rows.push_back({sequence.name, lens.points.at(i / n), static_cast<int64_t>(i % n),
                            token_text(run, sequence.tokens.at(i % n)), token_text(run, tokens[i]),
                            chances[i], next[i]});
  }
  return table;
}

// Which of a value's heads or positions were changed.
Cell cell_of_part(Index at) { return at < 0 ? Cell("all") : Cell(at); }

DataTable changes_table(const Frame& frame) {
  DataTable table{"changes",
                  {{"change"},
                   {"tensor"},
                   {"head"},
                   {"position"},
                   {"Δ loss", "nats a token", "what the loss gains by the change"},
                   {"Δ probability", "", "what the probability of the token gains by the change"}},
                  {},
                  4};
  const ValueChanges& c = frame.changes;
  for (const ValueChange& change : c.rows) {
    Row row{change.kind + (change.with.empty() ? "" : " " + change.with),
            change.path + change.part,
            cell_of_part(change.head),
            cell_of_part(change.position),
            change.loss.mean,
            change.probability.mean};
    if (change.kind == "patch")
      put(table, row, {"of the way", "", "Δ probability / (the probability in the source − here)"},
          change.probability.mean / (c.source_probability.mean - c.probability.mean));
    if (c.texts > 1) {
      put(table, row, {"deviation of Δ loss", "nats a token", "the sample's, over texts"},
          change.loss.deviation);
      put(table, row, {"deviation of Δ probability", "", "the sample's, over texts"},
          change.probability.deviation);
      put(table, row, {"texts", "", "that have this position"}, change.texts);
    }
    table.rows.push_back(std::move(row));
  }
  return completed(std::move(table));
}

DataTable attribution_table(const Frame& frame) {
  DataTable table{
      "attribution",
      {{"part"},
       {"head"},
       {"adds", "", "to the logit of the token, with the last norm's divisor as it is"}},
      {},
      2};
  const Attribution& a = frame.attribution;
  for (const Contribution& each : a.rows) {
    Row row{each.path, each.head < 0 ? Cell("") : Cell(each.head), each.logit.mean};
    if (a.texts > 1)
      put(table, row, {"deviation", "", "the sample's, over texts"}, each.logit.deviation);
    table.rows.push_back(std::move(row));
  }
  return completed(std::move(table));
}

DataTable values_table(const Frame& frame) {
  DataTable table{
      "values",
      {{"site"}, {"name"}, {"path"}, {"shape"}, {"mean"}, {"deviation"}, {"smallest"}, {"largest"}},
      {}};
  for (const Site& site : frame.sites)
    for (const SiteValue& v : site.values)
      table.rows.push_back(
          {site.path, v.name, v.path, shape_text(v), v.mean, v.deviation, v.smallest, v.largest});
  return table;
}

// ---- What the page draws ----

DataTable matrices_table(const Frame& frame) {
  DataTable table{"matrices", {{"site"}, {"matrix"}, {"row"}, {"column"}, {"value"}}, {}, 4};
  for (const Site& site : frame.sites)
    for (const Mixing& m : site.mixing) {
      const auto values = m.values.values();
      const Index columns = m.values.size(1);
      for (Index i = 0; i < m.values.size(); ++i)
        table.rows.push_back({site.path, m.name, i / columns, i % columns, values[i]});
    }
  return table;
}

DataTable circuits_table(const RunReport& run, const Frame& frame) {
  DataTable table{"circuits",
                  {{"site"},
                   {"circuit"},
                   {"tensor"},
                   {"head"},
                   {"row", "", "the query's token; of OV the token that is looked at", true},
                   {"column", "", "the key's token; of OV the token whose logit it is", true},
                   {"value"}},
                  {},
                  6};
  for (const Circuit& c : frame.circuits) {
    const auto values = c.values.values();
    const size_t k = c.tokens.size();
    for (size_t i = 0; i < values.size(); ++i)
      table.rows.push_back({c.path, c.kind, c.tensor, c.head, token_text(run, c.tokens[i / k]),
                            token_text(run, c.tokens[i % k]), values[i]});
  }
  return table;
}

DataTable histograms_table(const Frame& frame) {
  DataTable table{"histograms", {{"site"}, {"map"}, {"head"}, {"from"}, {"to"}, {"count"}}, {}};
  for (const Site& site : frame.sites)
    for (const Histogram& h : site.histograms) {
      const auto counts = h.counts.values<int64_t>();
      const Index bins = h.counts.size(1);
      const double width = (h.high - h.low) / static_cast<double>(bins);
      for (Index i = 0; i < h.counts.size(); ++i) {
        const double from = h.low + width * static_cast<double>(i % bins);
        table.rows.push_back({site.path, h.map, i / bins, from, from + width, counts[i]});
      }
    }
  return table;
}

DataTable curves_table(const RunReport& run) {
  DataTable table{"curves", {{"group"}, {"curve"}, {"unit"}, {"step"}, {"value"}}, {}};
  for (const Curve& curve : run.curves)
    for (size_t i = 0; i < curve.steps.size(); ++i)
      table.rows.push_back({curve.group, curve.name, curve.unit, curve.steps[i], curve.values[i]});
  return table;
}

DataTable texts_table(const RunReport& run) {
  DataTable table{"texts", {{"text"}, {"line"}, {"code"}, {"formula"}, {"number"}}, {}};
  for (const VariantText& variant : run.texts)
    for (size_t i = 0; i < variant.lines.size(); ++i)
      table.rows.push_back({variant.name, static_cast<int64_t>(i + 1), variant.lines[i].code,
                            variant.lines[i].formula, variant.lines[i].number});
  return table;
}

DataTable samples_table(const RunReport& run) {
  DataTable table{"samples", {{"step"}, {"prompt"}, {"text"}}, {}};
  for (const WrittenSample& s : run.samples) table.rows.push_back({s.step, s.prompt, s.text});
  return table;
}

// ---- CSV ----

std::string csv_text(const Cell& cell) {
  if (const auto* count = std::get_if<int64_t>(&cell)) return std::to_string(*count);
  if (const auto* number = std::get_if<double>(&cell)) {
    if (std::isnan(*number)) return "";
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, *number).ptr};
  }
  std::string out = "\"";
  for (char c : std::get<std::string>(cell))
    out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string csv(const DataTable& table) {
  std::string out;
  for (const TableColumn& column : table.columns)
    out += (&column == table.columns.data() ? "" : ",") + csv_text(column.name);
  out += "\n";
  for (const Row& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) out += (i > 0 ? "," : "") + csv_text(row[i]);
    out += "\n";
  }
  return out;
}

// ---- The second run less the first ----

// The differences of rows that both have, but for keys.
DataTable difference_of(const DataTable& a, const DataTable& b) {
  std::map<Row, const Row*> before;
  const auto key = [&](const Row& row) { return Row(row.begin(), row.begin() + b.keys); };
  for (const Row& row : a.rows) before[key(row)] = &row;
  DataTable out{b.name, b.columns, {}, b.keys};
  for (Row row : b.rows) {
    const auto was = before.find(key(row));
    if (was == before.end()) continue;
    for (auto i = static_cast<size_t>(b.keys); i < row.size(); ++i) {
      if (!std::holds_alternative<double>(row[i])) continue;
      const auto column = std::find_if(a.columns.begin(), a.columns.end(),
                                       [&](const auto& c) { return c.name == b.columns[i].name; });
      const auto at = static_cast<size_t>(column - a.columns.begin());
      const bool known =
          at < was->second->size() && std::holds_alternative<double>((*was->second)[at]);
      row[i] = known ? std::get<double>(row[i]) - std::get<double>((*was->second)[at]) : undefined;
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

// Appends the rows of `from`, after cells that say where they come from, to the table of that name.
void append(std::vector<DataTable>& all, const DataTable& from,
            const std::vector<std::pair<TableColumn, Cell>>& origin) {
  auto to = std::find_if(all.begin(), all.end(),
                         [&](const DataTable& table) { return table.name == from.name; });
  if (to == all.end()) to = all.insert(all.end(), DataTable{from.name, {}, {}});
  for (const Row& cells : from.rows) {
    Row row;
    for (const auto& [column, cell] : origin) put(*to, row, column, cell);
    for (size_t i = 0; i < cells.size(); ++i) put(*to, row, from.columns[i], cells[i]);
    to->rows.push_back(std::move(row));
  }
}

}  // namespace

std::string token_text(const RunReport& run, int64_t token) {
  const std::string& bytes = run.vocabulary.at(static_cast<size_t>(token));
  if (find_invalid_utf8(bytes) == std::string::npos) return bytes;
  std::string out;
  for (unsigned char byte : bytes) {
    char digits[8];
    std::snprintf(digits, sizeof digits, "<0x%02X>", byte);
    out += digits;
  }
  return out;
}

std::vector<DataTable> shown_tables(const RunReport& run, const Frame& frame) {
  return {heads_table(frame),      mixing_table(frame), predictions_table(run, frame),
          lens_table(run, frame),  values_table(frame), changes_table(frame),
          attribution_table(frame)};
}

void write_tables(const Report& report, const std::string& folder) {
  std::vector<DataTable> all;
  const auto tables_of = [](const RunReport& run, const Frame& frame) {
    std::vector<DataTable> tables = shown_tables(run, frame);
    tables.push_back(matrices_table(frame));
    tables.push_back(circuits_table(run, frame));
    return tables;
  };
  for (const RunReport& run : report.runs) {
    for (const Frame& frame : run.frames) {
      std::vector<DataTable> tables = tables_of(run, frame);
      tables.push_back(histograms_table(frame));
      for (const DataTable& table : tables)
        append(all, table, {{{"run"}, run.name}, {{"checkpoint"}, frame.step}});
    }
    for (const DataTable& table : {texts_table(run), curves_table(run), samples_table(run)})
      append(all, table, {{{"run"}, run.name}});
  }
  if (report.runs.size() == 2 && !report.runs[0].frames.empty() && !report.runs[1].frames.empty()) {
    const RunReport &first = report.runs[0], &second = report.runs[1];
    const auto a = tables_of(first, first.frames.back()),
               b = tables_of(second, second.frames.back());
    for (size_t i = 0; i < b.size(); ++i)
      append(all, difference_of(a[i], b[i]),
             {{{"run"}, second.name + " − " + first.name},
              {{"checkpoint"}, second.frames.back().step}});
  }
  make_folder(folder);
  for (const DataTable& table : all) {
    if (table.rows.empty()) continue;
    const std::string lines = csv(completed(table));
    replace_file(folder, table.name + ".csv", lines.size(),
                 [&](const Write& write) { write(lines); });
  }
}

}  // namespace tete
