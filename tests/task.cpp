// Teaching tasks: their answers found again by plainer code, what of them is counted, and that a
// tenth of the prompts is never trained on.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/error_of.hpp"
#include "train/task.hpp"

using namespace tete;

namespace {

// ---- The answers, as one would find them on paper ----

std::string repeated(const std::string& prompt, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += prompt[i % prompt.size()];
  return all;
}

std::string sorted(const std::string& letters) {
  std::string all;
  for (char letter = 'a'; letter <= 'z'; ++letter)
    all.append(static_cast<size_t>(std::count(letters.begin(), letters.end(), letter)), letter);
  return all;
}

// Digit by digit from the right, with a carry.
std::string sum(std::string a, std::string b) {
  const size_t count = std::max(a.size(), b.size());
  a.insert(0, count - a.size(), '0'), b.insert(0, count - b.size(), '0');
  std::string digits;
  int carry = 0;
  for (size_t i = count; i-- > 0;) {
    const int digit = a[i] - '0' + b[i] - '0' + carry;
    digits.insert(digits.begin(), static_cast<char>('0' + digit % 10));
    carry = digit / 10;
  }
  return carry ? "1" + digits : digits;
}

// Pairs that stand side by side vanish until only what is open is left.
std::string closing(std::string brackets) {
  const std::map<char, char> closes = {{'(', ')'}, {'[', ']'}, {'{', '}'}, {'<', '>'}};
  for (size_t i = 0; i + 1 < brackets.size();) {
    const auto found = closes.find(brackets[i]);
    if (found != closes.end() && found->second == brackets[i + 1]) brackets.erase(i, 2), i = 0;
    else ++i;
  }
  std::string answer;
  for (size_t i = brackets.size(); i-- > 0;) answer += closes.at(brackets[i]);
  return answer;
}

std::string right_answer(const std::string& task, const std::string& prompt, Index context) {
  const std::string before = prompt.substr(0, prompt.size() - 1);
  if (task == "copy") return before + "\n";
  if (task == "sort") return sorted(before) + "\n";
  if (task == "reverse") return std::string(prompt.rbegin(), prompt.rend()) + "\n";
  if (task == "brackets") return closing(prompt) + "\n";
  if (task == "induction")
    return repeated(prompt, static_cast<size_t>(context) + 1).substr(prompt.size());
  REQUIRE(task == "addition");
  const size_t plus = prompt.find('+');
  return sum(prompt.substr(0, plus), before.substr(plus + 1)) + "\n";
}

// True for each letter of the answer that alone has followed the letter before it so far.
std::vector<bool> told(const std::string& prompt, const std::string& answer) {
  const std::string all = prompt + answer;
  std::map<char, std::set<char>> followers;
  std::vector<bool> counted;
  for (size_t i = 1; i < all.size(); ++i) {
    const std::set<char>& seen = followers[all[i - 1]];
    if (i >= prompt.size()) counted.push_back(seen == std::set<char>{all[i]});
    followers[all[i - 1]].insert(all[i]);
  }
  return counted;
}

// ---- Batches as text ----

std::vector<std::vector<int64_t>> rows(const Tensor& x) {
  const std::vector<int64_t> all = x.values<int64_t>();
  std::vector<std::vector<int64_t>> found;
  for (Index b = 0; b < x.size(0); ++b)
    found.emplace_back(all.begin() + b * x.size(1), all.begin() + (b + 1) * x.size(1));
  return found;
}

// Prompts, as the rows of a batch have them.
std::vector<std::string> prompts(const Task& task, const Batch& batch) {
  const Tokenizer tokenizer = TaskData::tokenizer(task);
  const auto input = rows(batch.input), target = rows(batch.target);
  std::vector<std::string> all;
  for (size_t b = 0; b < input.size(); ++b) {
    const auto first =
        std::find_if(target[b].begin(), target[b].end(), [](auto t) { return t >= 0; });
    const size_t count = task.encoder ? static_cast<size_t>(batch.lengths.values<int64_t>()[b])
                                      : static_cast<size_t>(first - target[b].begin()) + 1;
    const std::vector<int32_t> tokens(input[b].begin(),
                                      input[b].begin() + static_cast<Index>(count));
    all.push_back(tokenizer.decode(tokens));
  }
  return all;
}

}  // namespace

TEST_SUITE("task") {
  TEST_CASE("every task's answers are right, fit, and are functions of the key") {
    for (const Task& task : tasks())
      for (const Index context :
           {task.least_context, task.least_context + 1, Index{24}, Index{61}}) {
        CAPTURE(task.name);
        CAPTURE(context);
        std::set<std::string> different;
        for (uint64_t i = 0; i < 300; ++i) {
          const Exercise drawn = task.draw(Key(1).fold(i), context);
          CAPTURE(drawn.prompt);
          CHECK(drawn.answer == right_answer(task.name, drawn.prompt, context));
          REQUIRE((task.answer != nullptr) == task.encoder);
          if (task.answer) CHECK(task.answer(drawn.prompt) == drawn.answer);
          CHECK(drawn.prompt.ends_with(task.mark));
          const auto in_line = static_cast<Index>(drawn.prompt.size() + drawn.answer.size()) - 1;
          if (task.encoder) CHECK(static_cast<Index>(drawn.answer.size()) <= context);
          else CHECK(in_line <= context);
          if (task.name == std::string("induction"))
            CHECK(drawn.counted == told(drawn.prompt, drawn.answer));
          else CHECK(drawn.counted.empty());
          CHECK(task.draw(Key(1).fold(i), context).prompt == drawn.prompt);
          different.insert(drawn.prompt);
        }
        CHECK(different.size() > (context > 12 ? 200 : 8));
      }
  }

  TEST_CASE("of a line with its answer, the letters that are counted are asked for") {
    for (const Task& task : tasks()) {
      CAPTURE(std::string(task.name));
      if (!task.asked) continue;
      const TaskData data(task, 24);
      for (Index i = 0; i < 50; ++i) {
        const Exercise e = data.validation_exercise(Key(1), i);
        const std::string line = e.prompt + e.answer;
        const std::vector<bool> asked = task.asked(line);
        REQUIRE(asked.size() == line.size());
        size_t counted = 0;
        for (size_t k = 0; k < e.answer.size(); ++k) {
          counted += e.counted[k];
          CHECK((asked[e.prompt.size() + k] || !e.counted[k]));
        }
        // A mark shows where the prompt ends.
        if (*task.mark != '\0')
          CHECK(static_cast<size_t>(std::count(asked.begin(), asked.end(), true)) == counted);
      }
      const auto prompt = task.asked("");
      CHECK(prompt.empty());
    }
    CHECK(find_task("brackets")->asked("([]{<>") == std::vector<bool>{0, 0, 0, 0, 0, 1});
    CHECK(find_task("copy")->asked("ab>a") == std::vector<bool>{0, 0, 0, 1});
    CHECK(find_task("addition")->asked("1+2") == std::vector<bool>{0, 0, 0});
  }

  TEST_CASE("what one letter tells, and what it does not") {
    CHECK(told("abc", "abcab") == std::vector<bool>{false, true, true, true, true});
    CHECK(told("aab", "aabaab") == std::vector<bool>{false, false, false, true, false, false});
    CHECK(closing("([]{<>") == "})");
    CHECK(sum("95", "7") == "102");
  }

  TEST_CASE("a row is a prompt and its answer; what is counted follows what stands before it") {
    for (const Task& task : tasks()) {
      CAPTURE(task.name);
      const Index context = 24;
      const TaskData data(task, context);
      const Tokenizer tokenizer = TaskData::tokenizer(task);
      CHECK(tokenizer.piece(0) == "\n");
      const Batch batch = data.batch(Key(3), 5, 40);
      CHECK(batch.first_sample == 5);
      const auto input = rows(batch.input), target = rows(batch.target);
      const std::vector<std::string> asked = prompts(task, batch);
      for (size_t b = 0; b < input.size(); ++b) {
        const std::string name = task.name, answer = right_answer(name, asked[b], context);
        const std::vector<int32_t> right = tokenizer.encode(answer);
        const size_t begins = task.encoder ? 0 : asked[b].size() - 1;
        for (size_t i = 0; i < target[b].size(); ++i) {
          CAPTURE(i);
          const bool in_answer = i >= begins && i < begins + right.size();
          if (name == "induction") {  // its prompt is not told apart from its answer here
            if (target[b][i] >= 0 && i + 1 < input[b].size())
              CHECK(target[b][i] == input[b][i + 1]);
          } else {
            CHECK(target[b][i] == (in_answer ? right[i - begins] : -1));
            if (!task.encoder && in_answer && i > begins)
              CHECK(input[b][i] == right[i - begins - 1]);
            if (i >= begins + right.size() && i >= asked[b].size()) CHECK(input[b][i] == 0);
          }
        }
      }
      CHECK(bool(batch.lengths) == task.encoder);
    }
  }

  TEST_CASE("samples are functions of key and number, and a tenth of prompts is never trained on") {
    for (const Task& task : tasks()) {
      if (task.name == std::string("induction")) continue;  // prompts cannot be read off its rows
      CAPTURE(task.name);
      std::set<std::string> trained;
      for (const Index context : {task.least_context, Index{24}}) {
        const TaskData data(task, context);
        const std::vector<std::string> all = prompts(task, data.batch(Key(1), 0, 400));
        CHECK(prompts(task, data.batch(Key(1), 7, 3)) ==
              std::vector<std::string>(all.begin() + 7, all.begin() + 10));
        CHECK(prompts(task, data.batch(Key(2), 0, 400)) != all);
        trained.insert(all.begin(), all.end());
        for (const std::string& held_out : prompts(task, data.validation_batch(Key(1), 0, 400)))
          CHECK_FALSE(trained.contains(held_out));
      }
    }
    const TaskData data(*find_task("induction"), 24);
    const auto all = rows(data.batch(Key(1), 0, 20).input);
    CHECK(rows(data.batch(Key(1), 6, 1).input)[0] == all[6]);
    CHECK(rows(data.validation_batch(Key(1), 6, 1).input)[0] != all[6]);
  }

  TEST_CASE("a task says what it is, and what it needs") {
    CHECK(find_task("text") == nullptr);
    std::set<std::string> seen;
    for (const Task& task : tasks()) {
      CAPTURE(task.name);
      CHECK(find_task(task.name) == &task);
      const Index context = task.least_context;
      CHECK(error_of([&] { TaskData(task, context - 1); }) ==
            text("the task ", task.name, " needs a context of at least ", context, " tokens, got ",
                 context - 1));
      seen.insert(TaskData(task, context).fingerprint());
      seen.insert(TaskData(task, context + 1).fingerprint());
    }
    CHECK(seen.size() == 2 * tasks().size());
  }
}
