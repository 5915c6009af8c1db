#include "tools/inspect/table_files.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "tools/inspect/tables.hpp"
#include "train/files.hpp"

namespace tete {

namespace {

using Row = std::vector<Cell>;

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
    for (const auto& [column, cell] : origin) to->put(row, column, cell);
    for (size_t i = 0; i < cells.size(); ++i) to->put(row, from.columns[i], cells[i]);
    to->rows.push_back(std::move(row));
  }
}

}  // namespace

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
  for (DataTable& table : all) {
    if (table.rows.empty()) continue;
    table.complete();
    const std::string lines = csv(table);
    replace_file(folder, table.name + ".csv", lines.size(),
                 [&](const Write& write) { write(lines); });
  }
}

}  // namespace tete
