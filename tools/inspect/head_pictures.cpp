#include "tools/inspect/head_pictures.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/utf8.hpp"
#include "tools/inspect/range.hpp"
#include "tools/inspect/tables.hpp"

namespace tete {

namespace {

// ---- Tokens ----

// Also what is of private use or no character at all.
bool is_unseen(char32_t code) {
  return is_invisible(code) || (code >= 0xE000 && code <= 0xF8FF) || (code & 0xFFFE) == 0xFFFE;
}

// A mark that would sit on its neighbour.
bool is_mark(char32_t code) {
  return (code >= 0x300 && code <= 0x36F) || (code >= 0x483 && code <= 0x489) ||
         (code >= 0x591 && code <= 0x5C7) || (code >= 0x610 && code <= 0x61A) ||
         (code >= 0x64B && code <= 0x65F) || (code >= 0x1AB0 && code <= 0x1AFF) ||
         (code >= 0x1DC0 && code <= 0x1DFF) || (code >= 0x20D0 && code <= 0x20FF) ||
         (code >= 0xFE00 && code <= 0xFE0F) || (code >= 0xFE20 && code <= 0xFE2F);
}

std::vector<std::string> words_of(const RunReport& run, int sequence) {
  std::vector<std::string> words;
  for (int64_t token : run.sequences.at(static_cast<size_t>(sequence)).tokens)
    words.push_back(visible(token_text(run, token)));
  return words;
}

size_t letters(const std::string& word) {
  return static_cast<size_t>(
      std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

size_t longest(const std::vector<std::string>& words) {
  size_t most = 1;
  for (const std::string& word : words) most = std::max(most, letters(word));
  return most;
}

// ---- Maps ----

// A map's values in 8 bits, and their colours.
struct Heat {
  Levels levels;
  Range range;
  std::vector<Rgb> colours;

  Heat(const Site& site, const AttentionMap& map)
      : levels(levels_of(map, site.causal, 8)),
        range{levels.low, map.weights ? std::max(levels.high, 1e-30) : levels.high, true} {
    for (int level = 0; level < levels.top(); ++level)
      colours.push_back(range.colour(levels.origin + level * levels.step));
    colours.push_back({255, 255, 255});  // for what is hidden
  }
  void draw(Svg& svg, const Box& box, const AttentionMap& map, Index head) const {
    svg.heat(box, map, levels, head, colours);
    svg.rect(box, "none", edge);
  }
};

// What stands at the axes of a map whose cells have that size: tokens, or every so many a number.
void draw_axes(Svg& svg, const RunReport& run, const Site& site, const AttentionMap& map,
               const Box& box) {
  const Index rows = map.values.size(1), columns = map.values.size(2);
  const double cell = box.width / static_cast<double>(columns);
  const auto every = std::max<Index>(1, static_cast<Index>(std::ceil(10 / cell)));
  std::vector<std::string> left, top;
  if (map.row_tokens && every == 1) left = words_of(run, site.row_sequence);
  if (map.column_tokens && every == 1) top = words_of(run, site.column_sequence);
  const auto word = [](const std::vector<std::string>& words, Index i) {
    return words.empty() || longest(words) > 3 ? std::to_string(i) : words[i];
  };
  for (Index i = 0; i < rows; i += every)
    svg.word(box.x - 3, box.y + (static_cast<double>(i) + 0.5) * cell + 3, word(left, i),
             Svg::At::end, 9, faint);
  const Index step = longest(top) > 1 || top.empty() ? std::max(every, columns / 8 + 1) : every;
  for (Index j = 0; j < columns; j += step)
    svg.word(box.x + (static_cast<double>(j) + 0.5) * cell, box.y - 4, word(top, j),
             Svg::At::middle, 9, faint);
}

// ---- Lines between tokens ----

// The weights of a site, or else what stands last in its text.
const AttentionMap* looked_at(const Site& site) {
  for (const AttentionMap& map : site.maps)
    if (map.weights) return &map;
  return site.maps.empty() ? nullptr : &site.maps.back();
}

// A colour on paper, through which the paper is seen.
std::string faded(const std::string& colour, double share) {
  const auto number = std::stoul(colour.substr(1), nullptr, 16);
  const Rgb paper = colour_at(Scale::amount, 0);
  Rgb out{};
  for (size_t i = 0; i < 3; ++i) {
    const auto full = static_cast<double>(number >> (16 - 8 * i) & 255);
    out[i] = static_cast<uint8_t>(std::lround(paper[i] + share * (full - paper[i])));
  }
  return hex(out);
}

// Row by column of one head.
struct Line {
  Index row, column;
  double share;  // of the largest weight of the picture
};

// The strongest of each row, the weakest first; the others would only be grey.
std::vector<Line> lines_of(const AttentionMap& map, Index head, double largest) {
  constexpr size_t most = 8;
  const Index n = map.values.size(1), m = map.values.size(2);
  const auto values = map.values.values();
  const auto weaker = [](const Line& a, const Line& b) { return a.share < b.share; };
  std::vector<Line> all;
  for (Index i = 0; i < n; ++i) {
    std::vector<Line> row;
    for (Index j = 0; j < m; ++j) {
      const double value = values[(head * n + i) * m + j];
      if (std::isfinite(value) && std::abs(value) > 0.04 * largest)
        row.push_back({i, j, std::abs(value) / largest});
    }
    std::sort(row.begin(), row.end(), weaker);
    if (row.size() > most) row.erase(row.begin(), row.end() - most);
    all.insert(all.end(), row.begin(), row.end());
  }
  std::stable_sort(all.begin(), all.end(), weaker);
  return all;
}

double largest_finite(const Tensor& x) {
  double largest = 1e-300;
  for (double value : x.values())
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

// ---- What heads say to each other ----

// Weights [heads of `from`][heads of `to`].
struct Mix {
  const Mixing* matrix = nullptr;
  bool turned = false;  // its rows are the heads of `to`
  double at(Index from, Index to) const {
    const Index columns = matrix->values.size(1);
    const auto place = turned ? to * columns + from : from * columns + to;
    return matrix->values.values()[place];
  }
};

// A product has no path: it is no step of the text.
Mix mix_between(const Site& site, const AttentionMap& from, const AttentionMap& to) {
  for (const Mixing& m : site.mixing) {
    if (m.path.empty()) continue;
    const Index rows = m.values.size(0), columns = m.values.size(1);
    const Index a = from.values.size(0), b = to.values.size(0);
    if (m.rows == from.heads && m.columns == to.heads && rows == a && columns == b)
      return {&m, false};
    if (m.columns == from.heads && m.rows == to.heads && columns == a && rows == b)
      return {&m, true};
  }
  return {};
}

struct Point {
  double x, y;
};

void draw_wire(Svg& svg, const Point& a, const Point& b, double value, double largest) {
  const double share = std::abs(value) / largest;
  const Range sign{-1, 1, false};
  std::vector<double> points;
  constexpr int parts = 16;
  for (int i = 0; i <= parts; ++i) {
    const double t = static_cast<double>(i) / parts;
    points.push_back(a.x + t * (b.x - a.x));
    points.push_back(a.y + t * t * (3 - 2 * t) * (b.y - a.y));  // level at both ends
  }
  svg.line(points,
           faded(hex(sign.colour(std::copysign(0.5 + 0.3 * share, value))), 0.12 + 0.88 * share),
           0.4 + 5 * share);
}

void draw_wires(Svg& svg, const Mix& mix, const std::vector<Point>& from,
                const std::vector<Point>& to) {
  struct Wire {
    size_t from, to;
    double value;
  };
  std::vector<Wire> wires;
  for (size_t a = 0; a < from.size(); ++a)
    for (size_t b = 0; b < to.size(); ++b)
      wires.push_back({a, b, mix.at(static_cast<Index>(a), static_cast<Index>(b))});
  std::stable_sort(wires.begin(), wires.end(), [](const Wire& a, const Wire& b) {
    return std::abs(a.value) < std::abs(b.value);
  });
  const double largest = largest_finite(mix.matrix->values);
  for (const Wire& wire : wires)
    if (std::isfinite(wire.value))
      draw_wire(svg, from[wire.from], to[wire.to], wire.value, largest);
}

}  // namespace

std::string visible(std::string_view token) {
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const Character c = read_character(token, at);
    if (c.length == 0) return out + printable(token.substr(at));
    if (at == 0 && is_mark(c.code)) out += "◌";
    if (c.code == ' ') out += "␣";
    else if (c.code == '\n') out += "⏎";
    else if (c.code == '\t') out += "⇥";
    else if (c.code == 0xA0) out += "⍽";
    else if (is_unseen(c.code) && !(c.code == 0x200D && at > 0)) out += code_point(c.code);
    else out += token.substr(at, static_cast<size_t>(c.length));
    at += static_cast<size_t>(c.length);
  }
  return out.empty() ? "∎" : out;
}

std::string map_picture(const RunReport& run, const Site& site, const AttentionMap& map) {
  const Heat heat(site, map);
  const Index heads = map.values.size(0);
  const auto rows = static_cast<double>(map.values.size(1)),
             columns = static_cast<double>(map.values.size(2));
  const double side = std::clamp(11 * std::max(rows, columns), 200.0, 480.0);
  const Index across = std::min<Index>(heads, side > 240 ? 2 : 4);
  const double width = side * std::min(1.0, columns / rows), cell = width / columns,
               tall = cell * rows, left = 34, gap = 40;
  Svg svg;
  svg.word(12, 22, map.path, Svg::At::start, 14);
  for (Index head = 0; head < heads; ++head) {
    const Box box{left + static_cast<double>(head % across) * (width + gap),
                  64 + static_cast<double>(head / across) * (tall + 50), width, tall};
    svg.word(box.x, box.y - 17, text("head ", head), Svg::At::start, 11, faint);
    heat.draw(svg, box, map, head);
    draw_axes(svg, run, site, map, box);
  }
  draw_scale(svg, heat.range, left,
             54 + static_cast<double>((heads + across - 1) / across) * (tall + 50), 200);
  return svg.text();
}

std::string tokens_picture(const RunReport& run, const Site& site) {
  const AttentionMap* map = looked_at(site);
  if (!map || !map->row_tokens || !map->column_tokens) return "";
  const auto rows = words_of(run, site.row_sequence), columns = words_of(run, site.column_sequence);
  const Index heads = map->values.size(0), across = std::min<Index>(heads, 4);
  constexpr double line = 15, between = 120, gap = 34;
  const auto room = [](const std::vector<std::string>& words) {
    return 10 + 7 * static_cast<double>(std::min<size_t>(longest(words), 12));
  };
  const double left = room(rows), width = left + between + room(columns),
               height = line * static_cast<double>(std::max(rows.size(), columns.size()));
  const double largest = largest_finite(map->values);
  Svg svg;
  svg.word(12, 22, text(map->path, ": from each token on the left to what it attends to"),
           Svg::At::start, 14);
  for (Index head = 0; head < heads; ++head) {
    const double x = 12 + static_cast<double>(head % across) * (width + gap),
                 y = 62 + static_cast<double>(head / across) * (height + 44);
    const std::string colour = head_colour(static_cast<size_t>(head));
    svg.word(x + left, y - 14, text("head ", head), Svg::At::start, 11, colour);
    for (const Line& l : lines_of(*map, head, largest))
      svg.line({x + left, y + line * static_cast<double>(l.row), x + left + between,
                y + line * static_cast<double>(l.column)},
               faded(colour, 0.08 + 0.92 * l.share), 0.5 + 1.7 * l.share);
    for (size_t i = 0; i < rows.size(); ++i)
      svg.word(x + left - 4, y + line * static_cast<double>(i) + 4, rows[i], Svg::At::end);
    for (size_t j = 0; j < columns.size(); ++j)
      svg.word(x + left + between + 4, y + line * static_cast<double>(j) + 4, columns[j]);
  }
  return svg.text();
}

std::string talk_picture(const Site& site) {
  if (site.maps.empty()) return "";
  Index most = 1;
  for (const AttentionMap& map : site.maps) most = std::max(most, map.values.size(0));
  const double face = std::clamp(std::floor(560.0 / static_cast<double>(most)) - 8, 22.0, 112.0);
  constexpr double gap = 8, between = 200, top = 74;
  Svg svg;
  svg.word(12, 22, site.path, Svg::At::start, 14);
  const auto corner = [&](size_t i, Index head) {
    const Index heads = site.maps[i].values.size(0);
    return Point{
        40 + static_cast<double>(i) * (face + between),
        top + (static_cast<double>(head) + static_cast<double>(most - heads) / 2) * (face + gap)};
  };
  const auto sides = [&](size_t i, double across) {
    std::vector<Point> points;
    for (Index head = 0; head < site.maps[i].values.size(0); ++head)
      points.push_back({corner(i, head).x + across, corner(i, head).y + face / 2});
    return points;
  };
  for (size_t i = 1; i < site.maps.size(); ++i) {
    const auto from = sides(i - 1, face), to = sides(i, 0);
    const Mix mix = mix_between(site, site.maps[i - 1], site.maps[i]);
    const double middle = from[0].x + between / 2;
    if (mix.matrix) {
      svg.word(middle, 46, mix.matrix->name, Svg::At::middle, 13);
      draw_wires(svg, mix, from, to);
    } else if (from.size() == to.size()) {
      if (site.maps[i].weights) svg.word(middle, 46, "softmax", Svg::At::middle, 11, faint);
      for (size_t head = 0; head < from.size(); ++head)
        svg.line({from[head].x, from[head].y, to[head].x, to[head].y}, edge);
    }
  }
  for (size_t i = 0; i < site.maps.size(); ++i) {
    const AttentionMap& map = site.maps[i];
    const Heat heat(site, map);
    svg.word(corner(i, 0).x + face / 2, 46, map.name, Svg::At::middle, 14);
    svg.word(corner(i, 0).x + face / 2, 62,
             map.heads.empty() ? "one head" : text(map.heads, "=", map.values.size(0)),
             Svg::At::middle, 11, faint);
    for (Index head = 0; head < map.values.size(0); ++head) {
      const Point at = corner(i, head);
      heat.draw(svg, {at.x, at.y, face, face}, map, head);
      if (i == 0)
        svg.word(at.x - 7, at.y + face / 2 + 4, std::to_string(head), Svg::At::end, 11, faint);
    }
  }
  return svg.text();
}

std::string lens_picture(const RunReport& run, const Frame& frame) {
  constexpr double left = 162, height = 26;
  Svg svg;
  double y = 20;
  for (const LogitLens& lens : frame.lens) {
    const auto words = words_of(run, lens.sequence);
    const auto tokens = lens.tokens.values<int64_t>();
    const auto chances = lens.probabilities.values();
    const auto& own = run.sequences[lens.sequence].tokens;
    const size_t n = words.size();
    std::vector<std::string> likeliest;
    for (int64_t token : tokens) likeliest.push_back(visible(token_text(run, token)));
    const double width = 14 + 8 * static_cast<double>(std::max(longest(words), longest(likeliest)));
    for (size_t p = lens.points.size(); p-- > 0; y += height) {
      svg.word(12, y + 17, lens.points[p]);
      for (size_t i = 0; i < n; ++i) {
        const Box box{left + width * static_cast<double>(i), y, width - 1, height - 1};
        const Rgb fill = colour_at(Scale::amount, chances[p * n + i] * 0.85);
        svg.rect(box, hex(fill));
        svg.word(box.x + box.width / 2, y + 17, likeliest[p * n + i], Svg::At::middle, 12,
                 ink_on(fill));
        if (i + 1 < n && tokens[p * n + i] == own[i + 1])
          svg.line({box.x + 4, y + 21, box.x + box.width - 4, y + 21}, ink_on(fill), 1.5);
      }
    }
    for (size_t i = 0; i < n; ++i)
      svg.word(left + width * (static_cast<double>(i) + 0.5), y + 16, words[i], Svg::At::middle, 12,
               faint);
    y += 44;
  }
  return y > 20 ? svg.text() : "";
}

}  // namespace tete
