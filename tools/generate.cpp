#include "tools/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.hpp"
#include "core/utf8.hpp"

namespace tete {

namespace {

// The next token: one drawn from softmax(logits / temperature) over the top_k likeliest (ties:
// the smaller token). Temperature 0: the likeliest.
int32_t draw(const std::vector<double>& logits, const Writing& o, double chance) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (!std::isfinite(logits[order[0]]))
    fail(ErrorKind::numbers, "the model's logits are not finite: its training went wrong");
  if (o.temperature == 0) return order[0];
  if (o.top_k > 0 && o.top_k < static_cast<int64_t>(order.size())) order.resize(o.top_k);
  std::vector<double> weights;
  for (int32_t token : order)
    weights.push_back(std::exp((logits[token] - logits[order[0]]) / o.temperature));
  double left = chance * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < order.size(); ++i)
    if ((left -= weights[i]) < 0) return order[i];
  return order.back();
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

// The logits of what follows a text, token by token. As long as the text fits into the context each
// token is read once; after that, and where an attention needs its whole sequence anew, all of the
// context.
template <class Model>
class Reader {
 public:
  Reader(const Model& model, Index context) : model_(model), context_(context) {}

  std::vector<double> after(const Forward& forward, const std::vector<int32_t>& tokens) {
    const Index count = static_cast<Index>(tokens.size());
    if (count > context_) keeps_ = false;
    if constexpr (requires(Decoding past) { model_.next_logits(forward, Tensor(), past); })
      if (keeps_) try {
          return model_.next_logits(forward, last(tokens, count - past_.length), past_).values();
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::input || past_.length > 0) throw;
          keeps_ = false;
        }
    return model_.last_logits(forward, last(tokens, std::min(context_, count))).values();
  }

 private:
  static Tensor last(const std::vector<int32_t>& tokens, Index count) {
    return Tensor::of<int64_t>({1, count},
                               std::vector<int64_t>(tokens.end() - count, tokens.end()));
  }
  const Model& model_;
  Index context_;
  Decoding past_;
  bool keeps_ = true;
};

// Writes what follows `tokens` until the model ends it, or its context is full.
template <class Model>
void write_answer(const Model& model, Index context, const Tensors& params,
                  const Tokenizer& tokenizer, std::vector<int32_t> tokens, const Writing& o,
                  const Show& show) {
  const Forward forward{.params = params};
  const Key key = Key(o.seed).fold("sample");
  Reader reader(model, context);
  for (int64_t i = 0; i < o.length; ++i) {
    if (static_cast<Index>(tokens.size()) > context) return;
    tokens.push_back(draw(reader.after(forward, tokens), o, uniform(key, i)));
    if (tokens.back() == end_token) return;
    show(tokenizer.piece(tokens.back()));
  }
}

// A decoder that answers one source.
struct Answering {
  const EncoderDecoder& model;
  Sequences source;

  Tensor last_logits(const Forward& forward, const Tensor& tokens) const {
    return model.last_logits(forward, source, tokens);
  }
  Tensor next_logits(const Forward& forward, const Tensor& tokens, Decoding& decoding) const {
    return model.next_logits(forward, source, tokens, decoding);
  }
};

template <class Model>
void go_on(const Model& model, Index context, const Tensors& params, const Tokenizer& tokenizer,
           const std::string& prompt, const Writing& o, const Show& show) {
  std::vector<int32_t> tokens = tokenizer.encode(prompt);
  if (tokens.empty()) tokens = beginning(tokenizer);
  const Key key = Key(o.seed).fold("sample");
  const Forward forward{.params = params};
  Reader reader(model, context);
  WholeCharacters whole;
  for (int64_t i = 0; i < o.length; ++i) {
    const std::vector<double> logits = reader.after(forward, tokens);
    tokens.push_back(draw(logits, o, uniform(key, i)));
    if (static_cast<Index>(tokens.size()) > 2 * context)
      tokens.erase(tokens.begin(), tokens.end() - context);
    show(whole.add(tokenizer.piece(tokens.back())));
  }
  show(whole.rest());
}

}  // namespace

void continue_prompt(const LanguageModel& model, const Tensors& params, const Tokenizer& tokenizer,
                     const std::string& prompt, const Writing& o, const Show& show) {
  go_on(model, model.config().context, params, tokenizer, prompt, o, show);
}

void continue_prompt(const Model& model, Index context, const Tensors& params,
                     const Tokenizer& tokenizer, const std::string& prompt, const Writing& o,
                     const Show& show) {
  go_on(model, context, params, tokenizer, prompt, o, show);
}

void answer(const LanguageModel& model, const Tensors& params, const Tokenizer& tokenizer,
            const std::string& prompt, const Writing& writing, const Show& show) {
  write_answer(model, model.config().context, params, tokenizer, tokenizer.encode(prompt), writing,
               show);
}

void answer(const Model& model, Index context, const Tensors& params, const Tokenizer& tokenizer,
            const std::string& prompt, const Writing& writing, const Show& show) {
  write_answer(model, context, params, tokenizer, tokenizer.encode(prompt), writing, show);
}

void answer(const EncoderDecoder& model, const Tensors& params, const Tokenizer& tokenizer,
            const std::string& prompt, const Writing& writing, const Show& show) {
  const std::vector<int32_t> encoded = tokenizer.encode(prompt);
  const auto length = static_cast<Index>(encoded.size());
  const Forward forward{.params = params};
  const Tensor source =
      Tensor::of<int64_t>({1, length}, std::vector<int64_t>(encoded.begin(), encoded.end()));
  const Answering answering{model,
                            model.encode(forward, source, Tensor::of<int64_t>({1}, {length}))};
  write_answer(answering, model.config().context, params, tokenizer, {end_token}, writing, show);
}

}  // namespace tete
