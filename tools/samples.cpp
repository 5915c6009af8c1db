#include "tools/samples.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.hpp"
#include "tools/einsum/rehearsal.hpp"

namespace tete {

// Tokens are taken from the likeliest on, and few are, so that a heap does what would be sorted in
// vain.
int32_t draw(const std::vector<double>& logits, const Writing& o, double chance) {
  const double most = *std::max_element(logits.begin(), logits.end());
  const auto is_nan = [](double x) { return std::isnan(x); };
  if (!std::isfinite(most) || std::any_of(logits.begin(), logits.end(), is_nan))
    fail(ErrorKind::numbers, "the model's logits are not finite: its training went wrong");
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto less_likely = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] < logits[b] : a > b;
  };
  if (o.top_k > 0 && o.top_k < std::ssize(order)) {
    const auto more_likely = [&](int32_t a, int32_t b) { return less_likely(b, a); };
    std::nth_element(order.begin(), order.begin() + o.top_k, order.end(), more_likely);
    order.resize(o.top_k);
  }
  std::make_heap(order.begin(), order.end(), less_likely);
  if (o.temperature == 0) return order[0];
  const auto weight = [&](int32_t token) {
    return std::exp((logits[token] - most) / o.temperature);
  };
  double left = 0;
  for (int32_t token : order) left += weight(token);
  left *= chance;
  for (auto end = order.end();; --end) {
    std::pop_heap(order.begin(), end, less_likely);
    if ((left -= weight(end[-1])) < 0 || end == order.begin() + 1) return end[-1];
  }
}

bool is_sure(const std::vector<double>& logits, const Writing& o, double chance, int32_t token) {
  double largest = 0;
  for (double logit : logits)
    if (std::isfinite(logit)) largest = std::max(largest, std::abs(logit));
  const double rounding = 4e-6 * largest;  // three times the most that models of 4 layers have
  for (int32_t other = 0; other < std::ssize(logits); ++other)
    if (other != token && std::abs(logits[other] - logits[token]) <= 2 * rounding) return false;
  if (o.temperature == 0) return true;
  // A cumulated chance p moves by at most p (1 - p) times what two logits move apart, and so does
  // one that comes to lie at `chance`.
  const double apart = 2 * rounding / o.temperature;
  const double moved = apart * (chance * (1 - chance) + apart);
  return draw(logits, o, std::max(0.0, chance - moved)) == token &&
         draw(logits, o, chance + moved) == token;
}

Tensor as_tensor(std::span<const Text> texts, Index count) {
  std::vector<int64_t> last;
  for (const Text& text : texts) last.insert(last.end(), text.end() - count, text.end());
  return Tensor::of<int64_t>({std::ssize(texts), count}, last);
}

static Tensor repeated(const Tensor& x, Index samples) {
  return x ? broadcast(x, {samples, x.size(1)}) : x;
}

static void append_rows(const Tensor& Y, Logits& all) {
  const std::vector<double> values = Y.values();
  for (auto row = values.begin(); row != values.end(); row += Y.size(1))
    all.emplace_back(row, row + Y.size(1));
}

Logits Reader::after(const std::vector<Text>& texts) {
  if (std::ssize(texts[0]) > writer_.context) keeps_ = false;
  if (keeps_) try {
      return length() == 0 ? beginning(texts) : next(texts);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input || length() > 0) throw;
      keeps_ = false;
    }
  return anew(texts);
}

void Reader::repeat_source(Index samples) {
  inputs_.M = repeated(source_.M, samples);
  if (source_.lengths) inputs_.lengths = broadcast(source_.lengths, {samples});
}

Logits Reader::beginning(const std::vector<Text>& texts) {
  const Logits of_one = next({&texts[0], 1});
  past_.repeat(std::ssize(texts));
  repeat_source(std::ssize(texts));
  return Logits(texts.size(), of_one[0]);
}

Logits Reader::next(std::span<const Text> texts) {
  inputs_.X = as_tensor(texts, std::ssize(texts[0]) - length());
  Logits all;
  append_rows(writer_.model.next_logits(forward_, inputs_, past_), all);
  return all;
}

// Reads so many texts at once that products are fast.
Logits Reader::anew(std::span<const Text> texts) {
  constexpr Index enough_tokens = 1024;
  const Index count = std::min(writer_.context, std::ssize(texts[0]));
  const auto together = static_cast<size_t>(std::max<Index>(1, enough_tokens / count));
  Logits all;
  for (size_t from = 0; from < texts.size(); from += together) {
    const auto some = texts.subspan(from, std::min(together, texts.size() - from));
    inputs_.X = as_tensor(some, count);
    repeat_source(std::ssize(some));
    append_rows(writer_.model.last_logits(forward_, inputs_), all);
  }
  return all;
}

bool Samples::have_ended() const { return std::count(ended_.begin(), ended_.end(), false) == 0; }

void Samples::write_next() {
  const Logits logits = reader_.after(texts_);
  for (size_t i = 0; i < count(); ++i) {
    Text& text = texts_[i];
    text.push_back(ended_[i] ? 0 : choose(i, logits[i]));
    if (std::ssize(text) > 2 * writer_.context)
      text.erase(text.begin(), text.end() - writer_.context);
  }
  ++written_;
}

int32_t Samples::choose(size_t i, const std::vector<double>& logits) {
  const double chance = uniform(Key(o_.seed + i).fold("sample"), written_);
  const int32_t token = draw(logits, o_, chance);
  if (count() == 1 || is_sure(logits, o_, chance, token)) return token;
  return draw(alone(i), o_, chance);
}

// The logits of a sample that is read as it is alone: its beginning, then token by token.
std::vector<double> Samples::alone(size_t i) {
  if (!reader_.keeps()) return reader_.after({texts_[i]})[0];
  Reader& reader = alone_.try_emplace(i, writer_, source_).first->second;
  const Text& text = texts_[i];
  Logits logits;
  for (Index read = std::max(begun_, reader.length() + 1); read <= std::ssize(text); ++read)
    logits = reader.after({Text(text.begin(), text.begin() + read)});
  return logits[0];
}

size_t bytes_of_samples(const Writer& writer, int64_t samples, int64_t tokens) {
  Rehearsal rehearsal;
  Tensors params;
  for (const Tensor& value : writer.params) params.push_back(rehearsal.like(value));
  rehearsal.reset_peak();
  const size_t of_params = rehearsal.peak_bytes();
  const Index longest = std::max<Index>(3, std::min(tokens, writer.context));
  ModelInputs inputs;
  if (writer.model.kind() == ModelKind::encoder_decoder)
    inputs.M = Tensor::zeros({1, writer.context}, Dtype::i64);
  Decoding past;
  try {
    const auto read = [&](Index batch, Index count) {
      inputs.X = Tensor::zeros({batch, count}, Dtype::i64);
      writer.model.next_logits({.params = params}, inputs, past);
    };
    read(1, longest - 2);
    past.repeat(samples);
    inputs.M = repeated(inputs.M, samples);
    read(samples, 1);  // from here on each sample has its own past
    rehearsal.reset_peak();
    read(samples, 1);
  } catch (const Error&) {
    return 0;
  }
  return rehearsal.peak_bytes() - of_params;
}

}  // namespace tete
