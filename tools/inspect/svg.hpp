// Svg: a picture that is drawn piece by piece, in pixels from the upper left corner.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tools/inspect/levels.hpp"
#include "tools/inspect/scale.hpp"

namespace tete {

struct Box {
  double x, y, width, height;
};

class Svg {
 public:
  enum class At { start, middle, end };  // where a word's x is

  void rect(const Box& box, const std::string& fill, const std::string& line = "none");
  void word(double x, double y, std::string_view word, At at = At::start, double size = 11,
            const std::string& colour = "#191c22");
  // Through points, x and y by turns.
  void line(const std::vector<double>& points, const std::string& colour, double width = 1,
            const std::string& fill = "none");
  // One head of a map's levels, a pixel a cell, in `colours` (one for each level below the top).
  void heat(const Box& box, const AttentionMap& map, const Levels& levels, Index head,
            const std::vector<Rgb>& colours);

  // As large as what was drawn.
  std::string text() const;

 private:
  void reach(double x, double y);
  std::string body_;
  double width_ = 0, height_ = 0;
};

// "a < b" -> "a &lt; b"
std::string markup_safe(std::string_view text);
// An image of at most 256 colours, of which the last is transparent; `cells` are colours' numbers.
std::string png(Index width, Index height, const std::vector<uint8_t>& cells,
                const std::vector<Rgb>& colours);

}  // namespace tete
