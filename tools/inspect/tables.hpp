// Tables: the numbers of a report in rows and columns. The page prints these, its CSV files and
// those of --tables are these: a number is taken from the tensors in one place.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "tools/inspect/report.hpp"

namespace tete {

// A word, a count, or a number; NaN where it is not defined.
using Cell = std::variant<std::string, int64_t, double>;

struct TableColumn {
  std::string name;          // "entropy"
  std::string unit = {};     // "nats"
  std::string meaning = {};  // a sentence, where the name does not say it all
  bool token = false;        // its words are tokens' texts
};

struct DataTable {
  std::string name;  // "heads"; what its file is called
  std::vector<TableColumn> columns;
  std::vector<std::vector<Cell>> rows;
  int keys = 3;  // the first cells of a row, which say what it is of

  // Puts a cell of the row where its column is; columns come in the order in which they are first
  // met. complete() fills up rows that met fewer than there are.
  void put(std::vector<Cell>& row, const TableColumn& column, Cell cell);
  void complete();
};

// The text of a token, as UTF-8; "<0xC3>" for a byte that is no character.
std::string token_text(const RunReport& run, int64_t token);

// The tables of one checkpoint that the page prints: heads, mixing, predictions, lens, values,
// changes, attribution.
std::vector<DataTable> shown_tables(const RunReport& run, const Frame& frame);

}  // namespace tete
