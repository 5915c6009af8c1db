#include "train/task.hpp"

#include <algorithm>

#include "train/checksum.hpp"
#include "train/dice.hpp"

namespace tete {

namespace {

constexpr const char* alphabet = "abcdefghijklmnopqrstuvwxyz";

std::string letters(Dice& dice, Index count) {
  std::string drawn(static_cast<size_t>(count), ' ');
  for (char& letter : drawn) letter = alphabet[dice.below(26)];
  return drawn;
}

// A string of 1 … as many letters as leave room for a mark and the string again.
std::string letters_to_repeat(Key key, Index context) {
  Dice dice(key);
  const Index count = dice.between(1, (context - 1) / 2);
  return letters(dice, count);
}

Exercise copy(Key key, Index context) {
  const std::string string = letters_to_repeat(key, context);
  return {string + ">", string + "\n"};
}

Exercise sort(Key key, Index context) {
  const std::string string = letters_to_repeat(key, context);
  std::string sorted = string;
  std::sort(sorted.begin(), sorted.end());
  return {string + ">", sorted + "\n"};
}

std::string reversed(const std::string& prompt) {
  return std::string(prompt.rbegin(), prompt.rend()) + "\n";
}

// Strings of 1 … context - 1 letters: each side is as long as the context.
Exercise reverse(Key key, Index context) {
  Dice dice(key);
  const Index count = dice.between(1, context - 1);
  const std::string string = letters(dice, count);
  return {string, reversed(string)};
}

// Numbers of 1 … d digits, where 3 d + 3 tokens fit: two numbers, two signs, and a digit more.
Exercise addition(Key key, Index context) {
  Dice dice(key);
  const Index longest = std::min<Index>(12, (context - 3) / 3);
  const auto number = [&] {
    Index least = 1;
    for (Index digits = dice.between(1, longest); digits > 1; --digits) least *= 10;
    return dice.between(least == 1 ? 0 : least, 10 * least - 1);
  };
  const Index a = number(), b = number();
  return {text(a, "+", b, "="), text(a + b, "\n")};
}

// A letter is counted where the one before it tells it: that one stood there before, and was
// followed by this one each time.
std::vector<bool> told_by_the_letter_before(const std::string& all, size_t from) {
  std::vector<bool> told;
  for (size_t i = from; i < all.size(); ++i) {
    bool before = false, same = true;
    for (size_t j = 1; j < i; ++j)
      if (all[j - 1] == all[i - 1]) before = true, same = same && all[j] == all[i];
    told.push_back(before && same);
  }
  return told;
}

std::vector<bool> told_letters(const std::string& line) {
  return told_by_the_letter_before(line, 0);
}

std::vector<bool> from_on(const std::string& line, size_t first) {
  std::vector<bool> asked(line.size());
  for (size_t i = first; i < line.size(); ++i) asked[i] = true;
  return asked;
}

std::vector<bool> after_the_mark(const std::string& line) {
  const size_t mark = line.find_first_of(">=");
  return from_on(line, mark == std::string::npos ? line.size() : mark + 1);
}

// Where a prompt ends cannot be seen: the answer may be all that closes what is open.
std::vector<bool> closing_at_the_end(const std::string& line) {
  return from_on(line, line.find_last_of("([{<") + 1);
}

// How soon the string repeats is drawn, too: else a head could just look back by a fixed distance.
Exercise induction(Key key, Index context) {
  Dice dice(key);
  const Index period = dice.between(std::max<Index>(2, context / 4), context / 2);
  const std::string string = letters(dice, period);
  std::string all = string;
  while (static_cast<Index>(all.size()) <= context) all += all[all.size() - string.size()];
  return {string, all.substr(string.size()), told_by_the_letter_before(all, string.size())};
}

// A walk of 1 … context / 2 brackets, half of which open; then what closes them.
Exercise brackets(Key key, Index context) {
  constexpr std::string_view opening = "([{<", closing = ")]}>";
  Dice dice(key);
  std::string prompt, open;  // `open`: what would close, the innermost last
  for (Index left = dice.between(1, context / 2); left > 0; --left) {
    if (open.empty() || dice.below(2) == 0) {
      const auto kind = static_cast<size_t>(dice.below(4));
      prompt += opening[kind], open += closing[kind];
    } else {
      prompt += open.back(), open.pop_back();
    }
  }
  return {prompt, std::string(open.rbegin(), open.rend()) + "\n"};
}

bool is_held_out(const std::string& prompt, const Tokenizer& tokenizer) {
  const std::vector<int32_t> tokens = tokenizer.encode(prompt);
  const std::vector<int64_t> wide(tokens.begin(), tokens.end());
  return checksum(wide.data(), wide.size() * sizeof(int64_t)) % 10 == 0;
}

}  // namespace

const char* const task_training =
    "batch = 64\noptimizer = \"adam\"\nschedule = \"cosine\"\n"
    "learning-rate = 0.003\nlast-rate = 0.0001\nwarmup = 50\neval-every = 100\neval-samples = 1000";

const std::vector<Task>& tasks() {
  static const std::vector<Task> table = {
      {"copy", "letters, and after the mark > the same again", alphabet, ">", false, 3,
       "layers = 2\nd-model = 64", 24, 1500, copy, after_the_mark},
      {"reverse", "an encoder reads letters, and a decoder writes them from the end", alphabet, "",
       true, 2, "layers = 1\nd-model = 64", 12, 1500, reverse, nullptr, reversed},
      {"sort", "letters, and after the mark > the same in the order of the alphabet", alphabet, ">",
       false, 3, "layers = 2\nd-model = 64", 16, 3000, sort, after_the_mark},
      {"addition", "decimal numbers, 12+7=19", "+0123456789", "=", false, 6,
       "layers = 2\nd-model = 64", 9, 3000, addition, after_the_mark},
      {"induction", "a random string that repeats: what follows a letter followed it before",
       alphabet, "", false, 8, "layers = 2\nd-model = 64", 48, 1000, induction, told_letters},
      {"brackets", "what closes the brackets that are open, the innermost first", "()[]{}<>", "",
       false, 6, "layers = 2\nd-model = 64", 24, 1500, brackets, closing_at_the_end},
  };
  return table;
}

const Task* find_task(std::string_view name) { return find_named(name, tasks()); }

// ---- Exercises as numbers -----------------------------------------------------------------------

TaskData::TaskData(const Task& task, Index context)
    : task_(task),
      tokenizer_(tokenizer(task)),
      context_(context),
      fingerprint_(text(task.name, " 1 ", context)) {
  if (context < task.least_context)
    bad_input("the task ", task.name, " needs a context of at least ", task.least_context,
              " tokens, got ", context);
}

Tokenizer TaskData::tokenizer(const Task& task) {
  return Tokenizer::characters(text("\n", task.letters, task.mark));
}

// Drawn again until it is of the part that is asked for, and asks for something.
Exercise TaskData::exercise(bool held_out, Key key) const {
  for (uint64_t attempt = 0;; ++attempt) {
    Exercise drawn = task_.draw(key.fold(attempt), context_);
    if (drawn.counted.empty()) drawn.counted.assign(drawn.answer.size(), true);
    const bool asks = std::count(drawn.counted.begin(), drawn.counted.end(), true) > 0;
    if (asks && is_held_out(drawn.prompt, tokenizer_) == held_out) return drawn;
  }
}

Exercise TaskData::validation_exercise(Key key, Index number) const {
  return exercise(true, key.fold(number));
}

Batch TaskData::draw(bool held_out, Key key, Index first, Index count) const {
  std::vector<int64_t> input(count * context_, 0), target(count * context_, -1), lengths;
  for (Index i = 0; i < count; ++i) {
    const Exercise drawn = exercise(held_out, key.fold(first + i));
    const std::vector<int32_t> prompt = tokenizer_.encode(drawn.prompt),
                               answer = tokenizer_.encode(drawn.answer);
    const auto inputs = std::copy(prompt.begin(), prompt.end(), input.begin() + i * context_);
    auto targets = target.begin() + i * context_;
    if (!task_.encoder) {  // the last of the prompt is what the first of the answer follows
      std::copy(answer.begin(), answer.end() - 1, inputs);
      targets += static_cast<Index>(prompt.size()) - 1;
    }
    for (size_t j = 0; j < answer.size(); ++j)
      targets[static_cast<Index>(j)] = drawn.counted[j] ? answer[j] : -1;
    lengths.push_back(static_cast<int64_t>(prompt.size()));
  }
  const Shape shape = {count, context_};
  Batch batch{Tensor::of<int64_t>(shape, input), Tensor::of<int64_t>(shape, target), first};
  if (task_.encoder) batch.lengths = Tensor::of<int64_t>({count}, lengths);
  return batch;
}

Batch TaskData::batch(Key key, Index first, Index count) const {
  return draw(false, key, first, count);
}

Batch TaskData::validation_batch(Key key, Index first, Index count) const {
  return draw(true, key, first, count);
}

}  // namespace tete
