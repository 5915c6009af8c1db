#include "tools/inspect/tables.hpp"

#include <algorithm>
#include <cmath>

#include "core/utf8.hpp"

namespace tete {

void DataTable::put(std::vector<Cell>& row, const TableColumn& column, Cell cell) {
  auto known = std::find_if(columns.begin(), columns.end(),
                            [&](const TableColumn& c) { return c.name == column.name; });
  if (known == columns.end()) known = columns.insert(known, column);
  const auto at = static_cast<size_t>(known - columns.begin());
  row.resize(std::max(row.size(), at + 1), undefined);
  row[at] = std::move(cell);
}

void DataTable::complete() {
  for (std::vector<Cell>& row : rows) row.resize(columns.size(), undefined);
}

namespace {

using Row = std::vector<Cell>;

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
      if (s.map == map.name) table.put(row, {s.name, s.unit, s.meaning}, s.values.values()[i]);
    table.rows.push_back(std::move(row));
  }
}

DataTable heads_table(const Frame& frame) {
  DataTable table{"heads", {{"site"}, {"tensor", "", "what is measured"}, {"head"}}, {}, 3};
  for (const Site& site : frame.sites) {
    for (const AttentionMap& map : site.maps)
      if (map.unmeasured.empty()) add_measures(site, map, table);
    for (Index head = 0; site.ablation && head < site.ablation.size(); ++head) {
      Row row{site.path, site.contribution, head};
      table.put(row, {"loss without it", "nats a token", ablation_meaning},
                site.ablation.values()[head]);
      table.rows.push_back(std::move(row));
    }
  }
  table.complete();
  return table;
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
                   {"largest |entry|", "", "1 in the picture"},
                   {"determinant", "", "of a square matrix"},
                   {"condition", "", "largest singular value / smallest"},
                   {"smallest |eigenvalue|", "", "of a square matrix"}},
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
        table.put(row, {text("likeliest ", j + 1), "", "", true},
                  token_text(run, tokens[i * k + j]));
        table.put(row, {text("probability ", j + 1)}, chances[i * k + j]);
      }
      table.rows.push_back(std::move(row));
    }
  }
  table.complete();
  return table;
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

// The heads or positions of a value that were changed.
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
      table.put(row, {"of the way", "", "Δ probability / (the probability in the source − here)"},
                change.probability.mean / (c.source_probability.mean - c.probability.mean));
    if (c.texts > 1) {
      table.put(row, {"deviation of Δ loss", "nats a token", "the sample's, over texts"},
                change.loss.deviation);
      table.put(row, {"deviation of Δ probability", "", "the sample's, over texts"},
                change.probability.deviation);
      table.put(row, {"texts", "", "that have this position"}, change.texts);
    }
    table.rows.push_back(std::move(row));
  }
  table.complete();
  return table;
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
      table.put(row, {"deviation", "", "the sample's, over texts"}, each.logit.deviation);
    table.rows.push_back(std::move(row));
  }
  table.complete();
  return table;
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

}  // namespace tete
