#include "tools/inspect/svg.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/utf8.hpp"

namespace tete {

namespace {

// "12", "3.5"
std::string number(double x) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.2f", x);
  std::string out = digits;
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

std::string box_text(const Box& b) {
  return "x=\"" + number(b.x) + "\" y=\"" + number(b.y) + "\" width=\"" + number(b.width) +
         "\" height=\"" + number(b.height) + "\"";
}

// ---- PNG: chunks of "length, name, data, checksum" ----

std::string big_endian(uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
          static_cast<char>(n)};
}

uint32_t crc32(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
  }
  return ~crc;
}

std::string chunk(const std::string& name, const std::string& data) {
  return big_endian(static_cast<uint32_t>(data.size())) + name + data +
         big_endian(crc32(name + data));
}

// zlib's form of bytes that are not compressed: blocks of up to 65535 and Adler's checksum.
std::string stored(const std::string& bytes) {
  std::string out = "\x78\x01";
  for (size_t at = 0; at < bytes.size(); at += 65535) {
    const size_t count = std::min<size_t>(65535, bytes.size() - at);
    out += at + count == bytes.size() ? '\1' : '\0';
    for (size_t n : {count, ~count}) {
      out += static_cast<char>(n);
      out += static_cast<char>(n >> 8);
    }
    out.append(bytes, at, count);
  }
  uint32_t a = 1, b = 0;
  for (unsigned char byte : bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return out + big_endian(b << 16 | a);
}

}  // namespace

std::string markup_safe(std::string_view text) {
  std::string out;
  for (char c : printable(text)) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string png(Index width, Index height, const std::vector<uint8_t>& cells,
                const std::vector<Rgb>& colours) {
  std::string rows, palette, opacity(colours.size(), '\xFF');
  for (Index y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(cells.begin() + y * width, cells.begin() + (y + 1) * width);
  }
  for (const Rgb& colour : colours) palette.append(colour.begin(), colour.end());
  opacity.back() = '\0';
  const std::string eight_bits_of_a_palette("\x08\x03\0\0\0", 5);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big_endian(static_cast<uint32_t>(width)) +
                           big_endian(static_cast<uint32_t>(height)) + eight_bits_of_a_palette) +
         chunk("PLTE", palette) + chunk("tRNS", opacity) + chunk("IDAT", stored(rows)) +
         chunk("IEND", "");
}

void Svg::reach(double x, double y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

void Svg::rect(const Box& box, const std::string& fill, const std::string& line) {
  body_ += "<rect " + box_text(box) + " fill=\"" + fill + "\" stroke=\"" + line + "\"/>\n";
  reach(box.x + box.width, box.y + box.height);
}

void Svg::word(double x, double y, std::string_view word, At at, double size,
               const std::string& colour) {
  static const char* const anchors[] = {"start", "middle", "end"};
  body_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" font-size=\"" + number(size) +
           "\" fill=\"" + colour + "\" text-anchor=\"" + anchors[static_cast<int>(at)] + "\">" +
           markup_safe(word) + "</text>\n";
  const double length = 0.62 * size * static_cast<double>(word.size());
  reach(x + (at == At::start ? length : at == At::middle ? length / 2 : 0), y + 4);
}

void Svg::line(const std::vector<double>& points, const std::string& colour, double width,
               const std::string& fill) {
  body_ += "<path fill=\"" + fill + "\" stroke=\"" + colour + "\" stroke-width=\"" + number(width) +
           "\" d=\"";
  for (size_t i = 0; i + 1 < points.size(); i += 2) {
    body_ += (i > 0 ? "L" : "M") + number(points[i]) + " " + number(points[i + 1]);
    reach(points[i], points[i + 1]);
  }
  body_ += "\"/>\n";
}

void Svg::heat(const Box& box, const AttentionMap& map, const Levels& levels, Index head,
               const std::vector<Rgb>& colours) {
  const Index rows = map.values.size(1), columns = map.values.size(2);
  std::vector<uint8_t> cells(static_cast<size_t>(rows * columns),
                             static_cast<uint8_t>(levels.top()));
  const Index seen = static_cast<Index>(levels.levels.size()) / map.values.size(0);
  size_t at = static_cast<size_t>(head * seen);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < (levels.half ? i + 1 : columns); ++j)
      cells[i * columns + j] = static_cast<uint8_t>(levels.levels[at++]);
  body_ += "<image " + box_text(box) +
           " preserveAspectRatio=\"none\" image-rendering=\"pixelated\" href=\"data:image/"
           "png;base64," +
           base64(png(columns, rows, cells, colours)) + "\"/>\n";
  reach(box.x + box.width, box.y + box.height);
}

std::string Svg::text() const {
  const std::string width = number(width_ + 12), height = number(height_ + 12);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
         "\" viewBox=\"0 0 " + width + " " + height +
         "\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n<rect width=\"" + width +
         "\" height=\"" + height + "\" fill=\"#fdfcf9\"/>\n" + body_ + "</svg>\n";
}

}  // namespace tete
