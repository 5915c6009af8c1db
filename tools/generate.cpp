#include "tools/generate.hpp"

#include <algorithm>
#include <cmath>

#include "core/random.hpp"
#include "core/utf8.hpp"
#include "tools/samples.hpp"
#include "train/stop.hpp"

namespace tete {

namespace {

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
Text beginning(const Tokenizer& tokenizer) {
  try {
    return tokenizer.encode("\n");
  } catch (const Error&) {
    return {0};
  }
}

// The tokens of a prompt, and the places of its blanks that are still open.
struct Form {
  Text tokens;
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
  Text tokens = writer.tokenizer.encode(prompt);
  if (tokens.empty()) tokens = beginning(writer.tokenizer);
  Samples samples(writer, o, tokens);
  std::vector<WholeCharacters> whole(samples.count());
  for (int64_t i = 0; i < o.length && !StopSignals::requested(); ++i) {
    samples.write_next();
    for (size_t s = 0; s < samples.count(); ++s)
      show(s, whole[s].add(writer.tokenizer.piece(samples.newest(s))));
  }
  for (size_t s = 0; s < samples.count(); ++s) show(s, whole[s].rest());
}

void answer(const Writer& writer, const std::string& prompt, const Writing& o, const Show& show) {
  Text tokens = writer.tokenizer.encode(prompt);
  ModelInputs source;
  if (writer.model.kind() == ModelKind::encoder_decoder) {
    source.M = as_tensor({&tokens, 1}, std::ssize(tokens));
    source.lengths = Tensor::of<int64_t>({1}, {std::ssize(tokens)});
    tokens = {end_token};
  }
  Samples samples(writer, o, tokens, source);
  for (int64_t i = 0; i < o.length && !StopSignals::requested(); ++i) {
    if (samples.length() > writer.context || samples.have_ended()) return;
    samples.write_next();
    for (size_t s = 0; s < samples.count(); ++s) {
      if (samples.newest(s) == end_token) samples.end(s);
      if (!samples.has_ended(s)) show(s, writer.tokenizer.piece(samples.newest(s)));
    }
  }
}

// The logits at each open blank, without that of the mask, which is the last token.
static std::vector<std::vector<double>> logits_of_blanks(const Writer& writer, const Form& form) {
  const Tensor X = as_tensor({&form.tokens, 1}, std::ssize(form.tokens));
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
