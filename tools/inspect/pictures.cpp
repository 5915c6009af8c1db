#include "tools/inspect/pictures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops.hpp"
#include "tools/inspect/head_pictures.hpp"
#include "tools/inspect/range.hpp"
#include "train/files.hpp"

namespace tete {

namespace {

// ---- Mixing ----

void draw_matrix(Svg& svg, const Mixing& m, double x, double y, double side) {
  const auto values = m.values.values();
  const Index columns = m.values.size(1);
  const double cell = side / static_cast<double>(std::max(m.values.size(0), columns));
  double largest = 1e-300;
  for (double value : values) largest = std::max(largest, std::abs(value));
  const Range range{-1, 1, false};
  for (Index i = 0; i < m.values.size(); ++i)
    svg.rect({x + static_cast<double>(i % columns) * cell,
              y + static_cast<double>(i / columns) * cell, cell, cell},
             hex(range.colour(values[i] / largest)));
}

std::string mixing_picture(const Frame& frame) {
  Svg svg;
  const double side = 120;
  double x = 100;
  size_t most = 0;
  for (const Site& site : frame.sites) {
    if (site.mixing.empty()) continue;
    svg.word(x, 20, site.path);
    for (size_t i = 0; i < site.mixing.size(); ++i) {
      const double y = 30 + static_cast<double>(i) * (side + 12);
      if (x == 100) svg.word(12, y + side / 2, site.mixing[i].name, Svg::At::start, 14);
      draw_matrix(svg, site.mixing[i], x, y, side);
    }
    most = std::max(most, site.mixing.size());
    x += side + 14;
  }
  if (most == 0) return "";
  draw_scale(svg, {-1, 1, false}, 100, 30 + static_cast<double>(most) * (side + 12) + 4, 160);
  return svg.text();
}

// ---- Plots ----

// A box with axes; what is drawn in it is given in its own units.
struct Plot {
  Box box;
  double left, right, bottom, top;
  double x(double at) const {
    return box.x + (at - left) / (right > left ? right - left : 1) * box.width;
  }
  double y(double at) const {
    return box.y + box.height - (at - bottom) / (top > bottom ? top - bottom : 1) * box.height;
  }
  void axes(Svg& svg, const std::string& title, const std::string& unit) const {
    svg.word(box.x, box.y - 8, title, Svg::At::start, 12);
    svg.line({box.x, box.y + box.height, box.x + box.width, box.y + box.height}, faint);
    svg.word(box.x, box.y + box.height + 15, digits(left, "%.6g"), Svg::At::start, 11, faint);
    svg.word(box.x + box.width, box.y + box.height + 15, digits(right, "%.6g"), Svg::At::end, 11,
             faint);
    svg.word(box.x + box.width / 2, box.y + box.height + 15, unit, Svg::At::middle, 11, faint);
  }
  void tick(Svg& svg, double at, const std::string& label) const {
    svg.line({box.x, y(at), box.x + box.width, y(at)}, edge, 0.7);
    svg.word(box.x - 6, y(at) + 4, label, Svg::At::end, 11, faint);
  }
};

// A stair over the bins, as high as the logarithm of a count.
std::vector<double> stair(const Plot& plot, const Histogram& h, const std::vector<double>& counts) {
  std::vector<double> points;
  const double width = (h.high - h.low) / static_cast<double>(counts.size());
  for (size_t bin = 0; bin < counts.size(); ++bin)
    for (size_t end : {bin, bin + 1}) {
      points.push_back(plot.x(h.low + width * static_cast<double>(end)));
      points.push_back(plot.y(std::log10(counts[bin] + 1)));
    }
  return points;
}

void draw_histogram(Svg& svg, const Site& site, const Histogram& h, double x) {
  const auto counts = h.counts.values();
  const auto bins = static_cast<size_t>(h.counts.size(1)), heads = counts.size() / bins;
  std::vector<double> all(bins);
  for (size_t i = 0; i < counts.size(); ++i) all[i % bins] += counts[i];
  const double most = *std::max_element(all.begin(), all.end());
  const double tens = std::max(1.0, std::ceil(std::log10(std::max(1.0, most))));
  const Plot plot{{x, 36, 260, 150}, h.low, h.high, 0, std::log10(std::pow(10, tens) + 1)};
  plot.tick(svg, 0, "0");
  for (double ten = 1; ten <= tens; ++ten)
    plot.tick(svg, std::log10(std::pow(10, ten) + 1), digits(std::pow(10, ten), "%.0f"));
  std::vector<double> area = stair(plot, h, all);
  area.insert(area.end(), {plot.x(h.high), plot.y(0), plot.x(h.low), plot.y(0)});
  svg.line(area, faint, 1, edge);
  for (size_t head = 0; head < heads; ++head)
    svg.line(stair(plot, h,
                   {counts.begin() + static_cast<Index>(head * bins),
                    counts.begin() + static_cast<Index>((head + 1) * bins)}),
             head_colour(head));
  plot.axes(svg, site.path + "/" + h.map, "value");
}

std::string histograms_picture(const Frame& frame) {
  Svg svg;
  double x = 60;
  for (const Site& site : frame.sites)
    for (const Histogram& h : site.histograms) {
      draw_histogram(svg, site, h, x);
      x += 330;
    }
  return x > 60 ? svg.text() : "";
}

std::string ablation_picture(const Frame& frame) {
  Svg svg;
  double largest = 1e-300, y = 16;
  for (const Site& site : frame.sites)
    if (site.ablation)
      for (double change : site.ablation.values())
        if (std::isfinite(change)) largest = std::max(largest, std::abs(change));
  const Range range{-largest, largest, false};
  for (const Site& site : frame.sites) {
    if (!site.ablation) continue;
    svg.word(12, y + 20, site.path);
    const auto changes = site.ablation.values();
    for (size_t head = 0; head < changes.size(); ++head) {
      const Rgb fill =
          std::isfinite(changes[head]) ? range.colour(changes[head]) : Rgb{255, 255, 255};
      const Box box{140 + 70 * static_cast<double>(head), y, 66, 30};
      svg.rect(box, hex(fill));
      svg.word(box.x + 33, y + 19, digits(changes[head]), Svg::At::middle, 11, ink_on(fill));
    }
    y += 34;
  }
  if (y == 16) return "";
  draw_scale(svg, range, 140, y + 8, 200);
  return svg.text();
}

std::string curves_picture(const Report& report, const std::string& group) {
  std::vector<std::pair<std::string, const Curve*>> curves;
  for (const RunReport& run : report.runs)
    for (const Curve& curve : run.curves)
      if (curve.group == group)
        curves.emplace_back(report.runs.size() > 1 ? run.name + ": " + curve.name : curve.name,
                            &curve);
  double low = std::numeric_limits<double>::infinity(), high = -low, first = low, last = -low;
  for (const auto& [name, curve] : curves)
    for (size_t i = 0; i < curve->steps.size(); ++i) {
      if (!std::isfinite(curve->values[i])) continue;
      low = std::min(low, curve->values[i]), high = std::max(high, curve->values[i]);
      first = std::min(first, curve->steps[i]), last = std::max(last, curve->steps[i]);
    }
  if (!(low <= high)) return "";
  Svg svg;
  const Plot plot{{70, 36, 520, 240}, first, last, low, high};
  for (int i = 0; i <= 4; ++i)
    plot.tick(svg, low + (high - low) * i / 4, digits(low + (high - low) * i / 4));
  plot.axes(svg, group, "step");
  for (size_t c = 0; c < curves.size(); ++c) {
    std::vector<double> points;
    for (size_t i = 0; i < curves[c].second->steps.size(); ++i)
      if (std::isfinite(curves[c].second->values[i])) {
        points.push_back(plot.x(curves[c].second->steps[i]));
        points.push_back(plot.y(curves[c].second->values[i]));
      }
    svg.line(points, head_colour(c), 1.6);
    svg.word(80, 320 + 16 * static_cast<double>(c), curves[c].first, Svg::At::start, 11,
             head_colour(c));
  }
  return svg.text();
}

// ---- Files ----

// "decoder/3/self" -> "decoder-3-self"
std::string file_name(std::string path) {
  std::replace_if(
      path.begin(), path.end(), [](char c) { return c == '/' || c == ' '; }, '-');
  return path;
}

void write(const std::string& folder, const std::string& name, const std::string& picture) {
  if (picture.empty()) return;
  replace_file(folder, name + ".svg", picture.size(), [&](const Write& write) { write(picture); });
}

void write_frame(const RunReport& run, const Frame& frame, const std::string& folder) {
  const std::string step = std::to_string(frame.step) + "-";
  for (const Site& site : frame.sites) {
    const std::string place = file_name(site.path);
    for (const AttentionMap& map : site.maps)
      write(folder, step + place + "-" + map.name, map_picture(run, site, map));
    write(folder, step + "tokens-" + place, tokens_picture(run, site));
    write(folder, step + "talk-" + place, talk_picture(site));
  }
  write(folder, step + "mixing", mixing_picture(frame));
  write(folder, step + "histograms", histograms_picture(frame));
  write(folder, step + "ablation", ablation_picture(frame));
  write(folder, step + "lens", lens_picture(run, frame));
}

// ---- The second run less the first ----

Tensor change_of(const Tensor& b, const Tensor& a) {
  return a && b && a.shape() == b.shape() ? Tensor::of<float>(b.shape(), (b - a).values<float>())
                                          : Tensor();
}

template <class Named>
const Named* same_name(const std::vector<Named>& all, const Named& one) {
  for (const Named& other : all)
    if (other.name == one.name) return &other;
  return nullptr;
}

// Maps, mixing matrices and the effects of heads, where both have them in one shape. What is left
// of weights is no weight.
Frame difference_of(const Frame& a, const Frame& b) {
  Frame out;
  out.step = b.step;
  for (const Site& to : b.sites) {
    const auto from = std::find_if(a.sites.begin(), a.sites.end(),
                                   [&](const Site& site) { return site.path == to.path; });
    if (from == a.sites.end()) continue;
    Site site = to;
    site.maps.clear(), site.mixing.clear(), site.histograms.clear();
    for (AttentionMap map : to.maps)
      if (const AttentionMap* was = same_name(from->maps, map))
        if ((map.values = change_of(map.values, was->values)))
          map.weights = false, site.maps.push_back(std::move(map));
    for (Mixing matrix : to.mixing)
      if (const Mixing* was = same_name(from->mixing, matrix))
        if ((matrix.values = change_of(matrix.values, was->values)))
          site.mixing.push_back(std::move(matrix));
    site.ablation = change_of(to.ablation, from->ablation);
    out.sites.push_back(std::move(site));
  }
  return out;
}

}  // namespace

void write_pictures(const Report& report, const std::string& folder) {
  make_folder(folder);
  const bool two = report.runs.size() > 1;
  std::vector<std::string> groups;
  for (size_t r = 0; r < report.runs.size(); ++r) {
    const RunReport& run = report.runs[r];
    const std::string own = two ? folder + "/" + std::to_string(r + 1) : folder;
    make_folder(own);
    for (const Frame& frame : run.frames) write_frame(run, frame, own);
    for (const Curve& curve : run.curves)
      if (std::find(groups.begin(), groups.end(), curve.group) == groups.end())
        groups.push_back(curve.group);
  }
  if (two && !report.runs[0].frames.empty() && !report.runs[1].frames.empty()) {
    make_folder(folder + "/difference");
    write_frame(report.runs[1],
                difference_of(report.runs[0].frames.back(), report.runs[1].frames.back()),
                folder + "/difference");
  }
  for (const std::string& group : groups)
    write(folder, "curves-" + file_name(group), curves_picture(report, group));
}

}  // namespace tete
