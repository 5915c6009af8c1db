#include "tools/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.hpp"
#include "core/utf8.hpp"
#include "train/stop.hpp"

namespace tete {

namespace {

// The next token: one drawn from softmax(logits / temperature) over the top_k likeliest (ties:
// the smaller token). Temperature 0: the likeliest. Tokens are taken from the likeliest on, and few
// are, so that a heap does what would be sorted in vain.
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

// Hands on whole characters only: bytes wait until their character is complete. What is not UTF-8
// becomes U+FFFD, as a terminal would show it.
class WholeCharacters {
 public:
  std::string add(std::string_view piece) {
    waiting_ += piece;
    std::string out;
    size_t at = 0;
    while (at < waiting_.size()) {
      const Character c = read_character(waiting_, at);
      if (c.length > 0) {
        out.append(waiting_, at, c.length);
        at += c.length;
      } else if (waiting_.size() - at < 4 && may_go_on(std::string_view(waiting_).substr(at))) {
        break;
      } else {
        out += "\xEF\xBF\xBD";
        ++at;
      }
    }
    waiting_.erase(0, at);
    return out;
  }
  std::string rest() { return std::exchange(waiting_, "").empty() ? "" : "\xEF\xBF\xBD"; }

 private:
  // True if more bytes could complete it to a character.
  static bool may_go_on(std::string_view bytes) {
    const auto lead = static_cast<unsigned char>(bytes[0]);
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || bytes.size() >= length) return false;
    return std::all_of(bytes.begin() + 1, bytes.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; });
  }
  std::string waiting_;
};

// Where nothing came before, a line begins.
std::vector<int32_t> beginning(const Tokenizer& tokenizer) {
  try {
    return tokenizer.encode("\n");
  } catch (const Error&) {
    return {0};
  }
}

Tensor as_tensor(const std::vector<int32_t>& tokens, Index count) {
  return Tensor::of<int64_t>({1, count}, std::vector<int64_t>(tokens.end() - count, tokens.end()));
}

// The logits of what follows a text, token by token. As long as the text fits into the context each
// token is read once; after that, and where an attention needs its whole sequence anew, all of the
// context.
class Reader {
 public:
  // `source` is what an encoder reads.
  explicit Reader(const Writer& writer, const ModelInputs& source = {})
      : writer_(writer), inputs_(source) {}

  std::vector<double> after(const Forward& forward, const std::vector<int32_t>& tokens) {
    const Index count = static_cast<Index>(tokens.size());
    if (count > writer_.context) keeps_ = false;
    if (keeps_) try {
        inputs_.X = as_tensor(tokens, count - past_.length);
        return writer_.model.next_logits(forward, inputs_, past_).values();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::input || past_.length > 0) throw;
        keeps_ = false;
      }
    inputs_.X = as_tensor(tokens, std::min(writer_.context, count));
    return writer_.model.last_logits(forward, inputs_).values();
  }

 private:
  const Writer& writer_;
  ModelInputs inputs_;
  Decoding past_;
  bool keeps_ = true;
};

// The tokens of a prompt, and the places of its blanks that are still open.
struct Form {
  std::vector<int32_t> tokens;
  std::vector<size_t> open;
};

Form read_form(const Tokenizer& tokenizer, const std::string& prompt) {
  Form form{encode_with_blanks(tokenizer, prompt), {}};
  for (size_t at = 0; at < form.tokens.size(); ++at)
    if (form.tokens[at] == tokenizer.size()) form.open.push_back(at);
  return form;
}

}  // namespace

void continue_prompt(const Writer& writer, const std::string& prompt, const Writing& o,
                     const Show& show) {
  std::vector<int32_t> tokens = writer.tokenizer.encode(prompt);
  if (tokens.empty()) tokens = beginning(writer.tokenizer);
  const Key key = Key(o.seed).fold("sample");
  const Forward forward{.params = writer.params};
  Reader reader(writer);
  WholeCharacters whole;
  for (int64_t i = 0; i < o.length && !StopSignals::requested(); ++i) {
    const std::vector<double> logits = reader.after(forward, tokens);
    tokens.push_back(draw(logits, o, uniform(key, i)));
    if (static_cast<Index>(tokens.size()) > 2 * writer.context)
      tokens.erase(tokens.begin(), tokens.end() - writer.context);
    show(whole.add(writer.tokenizer.piece(tokens.back())));
  }
  show(whole.rest());
}

void answer(const Writer& writer, const std::string& prompt, const Writing& o, const Show& show) {
  std::vector<int32_t> tokens = writer.tokenizer.encode(prompt);
  ModelInputs source;
  if (writer.model.kind() == ModelKind::encoder_decoder) {
    const auto length = static_cast<int64_t>(tokens.size());
    source.M = as_tensor(tokens, length), source.lengths = Tensor::of<int64_t>({1}, {length});
    tokens = {end_token};
  }
  const Forward forward{.params = writer.params};
  const Key key = Key(o.seed).fold("sample");
  Reader reader(writer, source);
  for (int64_t i = 0; i < o.length && !StopSignals::requested(); ++i) {
    if (static_cast<Index>(tokens.size()) > writer.context) return;
    tokens.push_back(draw(reader.after(forward, tokens), o, uniform(key, i)));
    if (tokens.back() == end_token) return;
    show(writer.tokenizer.piece(tokens.back()));
  }
}

// The logits at each open blank, without that of the mask, which is the last token.
static std::vector<std::vector<double>> logits_of_blanks(const Writer& writer, const Form& form) {
  const Tensor X = as_tensor(form.tokens, std::ssize(form.tokens));
  const Tensor Y = writer.model.logits({.params = writer.params}, {.X = X});
  std::vector<std::vector<double>> all;
  for (size_t at : form.open)
    all.push_back(slice(slice(Y, 1, static_cast<Index>(at), 1), 2, 0, writer.tokenizer.size())
                      .values<double>());
  return all;
}

// The chance of the likeliest token.
static double certainty(const std::vector<double>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double all = 0;
  for (double logit : logits) all += std::exp(logit - most);
  return 1 / all;
}

std::string fill_blanks(const Writer& writer, const std::string& prompt, const Writing& o) {
  Form form = read_form(writer.tokenizer, prompt);
  if (form.open.empty())
    bad_input("the prompt has no blank: write ", blank, " for each token that is to be filled in");
  if (std::ssize(form.tokens) > writer.context)
    bad_input("the prompt has ", form.tokens.size(), " tokens, but the model reads at most ",
              writer.context);
  const Key key = Key(o.seed).fold("sample");
  for (uint64_t i = 0; !form.open.empty() && !StopSignals::requested(); ++i) {
    const auto all = logits_of_blanks(writer, form);
    const auto surest =
        std::max_element(all.begin(), all.end(),
                         [](const auto& a, const auto& b) { return certainty(a) < certainty(b); }) -
        all.begin();
    form.tokens[form.open[surest]] = draw(all[surest], o, uniform(key, i));
    form.open.erase(form.open.begin() + surest);
  }
  WholeCharacters whole;
  const std::string filled = whole.add(decode_with_blanks(writer.tokenizer, form.tokens));
  return filled + whole.rest();
}

}  // namespace tete
