// The progress line.
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/utf8.hpp"
#include "train/loop.hpp"

namespace tete {

namespace {

// "0:38", "1:02:38", "3 days"
std::string duration_text(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (s >= 48 * 3600) return text(s / 86400, " days");
  const auto two = [](int64_t n) { return text(n < 10 ? "0" : "", n); };
  return s >= 3600 ? text(s / 3600, ":", two(s / 60 % 60), ":", two(s % 60))
                   : text(s / 60, ":", two(s % 60));
}

std::string fixed(double number, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, number);
  return buffer;
}

}  // namespace

std::string progress_text(const Progress& p) {
  std::string line = text("step ", p.step, "/", p.steps);
  const bool trained = !std::isnan(p.loss);  // else it makes a validation that the run owed
  if (trained) line += "  loss " + fixed(p.loss, 3);
  if (!std::isnan(p.validation_loss)) line += "  validation " + fixed(p.validation_loss, 3);
  if (!std::isnan(p.accuracy))
    line += "  right " + fixed(p.accuracy, 3) + ", whole answers " + fixed(p.exact_match, 3);
  if (!trained) return line;
  line += text("  ", std::llround(p.tokens_per_second), " tokens/s");
  if (p.step < p.steps) line += "  " + duration_text(p.seconds_left) + " left";
  return line;
}

ProgressLine::ProgressLine(std::FILE* stream)
    : stream_(stream), terminal_(isatty(fileno(stream)) == 1) {}

void ProgressLine::step(const Progress& p) {
  const bool must = p.validated || p.step == p.steps;
  if (terminal_) {
    if (!must && last_ >= 0 && p.seconds - last_ < 0.1) return;
    last_ = p.seconds;
    std::fprintf(stream_, "\r%s\x1b[K", progress_text(p).c_str());
    drawn_ = true;
  } else {
    if (!must && p.seconds < next_) return;
    next_ = p.seconds + std::clamp(p.seconds / 4, 1.0, 60.0);
    std::fprintf(stream_, "%s\n", progress_text(p).c_str());
  }
  std::fflush(stream_);
}

void ProgressLine::clear() {
  if (drawn_) std::fputs("\r\x1b[K", stream_);
  drawn_ = false;
}

void ProgressLine::saved(const std::string&, int64_t) {}

void ProgressLine::resumed(const std::string& path, int64_t step) {
  clear();
  std::fprintf(stream_, "going on from %s, step %lld\n", path.c_str(),
               static_cast<long long>(step));
}

void ProgressLine::warning(const std::string& sentence) {
  clear();
  // It may quote what a file says of itself.
  std::string line = printable(sentence);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stream_, "warning: %s\n", line.c_str());
}

void ProgressLine::done() {
  if (drawn_) std::fputc('\n', stream_);
  drawn_ = false;
  std::fflush(stream_);
}

}  // namespace tete
