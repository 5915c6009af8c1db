// What `tete inspect` says of a change is what a C++ run with the same hook gives, to the bit.
#include "tools/inspect/changes.hpp"

#include "tests/inspect.hpp"
#include "tools/inspect/tables.hpp"
#include "tools/npy.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// A model, and what a plain run of it with a hook of one's own says.
struct Looked {
  Trained trained;
  Tensor tokens, targets;
  Index position;
  int64_t token;

  Looked(const std::string& folder, const std::string& text, Index at, int64_t asked)
      : trained(read_trained(folder)), position(at), token(asked) {
    tokens = read(text);
    std::vector<int64_t> next = tokens.values<int64_t>();
    next.erase(next.begin()), next.push_back(-1);
    targets = Tensor::of<int64_t>({1, std::ssize(next)}, next);
  }
  Tensor read(const std::string& text) const {
    const std::vector<int32_t> read = trained.tokenizer.encode(text);
    const std::vector<int64_t> numbers(read.begin(), read.end());
    return Tensor::of<int64_t>({1, std::ssize(numbers)}, numbers);
  }
  // The loss and the probability.
  std::pair<double, double> with(const std::vector<Hook>& hooks) const {
    Tensor logits;
    run_with_hooks({.params = trained.params}, hooks,
                   [&](const Forward& f) { logits = trained.model.logits(f, {.X = tokens}); });
    const Loss loss = token_loss(logits, targets);
    const Tensor row = reshape(slice(logits, 1, position, 1), {logits.size(2)});
    return {loss.sum.item() / static_cast<double>(loss.tokens),
            softmax(cast(row, Dtype::f64), 0).values()[static_cast<size_t>(token)]};
  }
  Tensor value(const std::string& text, const std::string& path) const {
    return trace({.params = trained.params}, {path},
                 [&](const Forward& f) { trained.model.logits(f, {.X = read(text)}); })
        .at(path);
  }
};

using Replace = std::function<Tensor(const std::string&, const Tensor&)>;

// x with its elements that `is_meant` changed, one by one.
Replace each_element(const std::function<bool(const std::vector<Index>&)>& is_meant,
                     const std::function<float(float, size_t)>& to) {
  return [=](const std::string&, const Tensor& x) {
    std::vector<float> values = x.values<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      std::vector<Index> at;
      Index rest = static_cast<Index>(i);
      for (int k = x.rank(); k-- > 0; rest /= x.size(k)) at.insert(at.begin(), rest % x.size(k));
      if (is_meant(at)) values[i] = to(values[i], i);
    }
    return Tensor::of<float>(x.shape(), values);
  };
}

InspectOptions looking(const std::string& folder, const std::string& text) {
  InspectOptions options;
  options.checkpoints = {folder};
  options.text = text, options.ablation = false;
  return options;
}

ValueChanges changes(const InspectOptions& options) {
  return inspect(options).runs[0].frames[0].changes;
}

const ValueChange& change_at(const ValueChanges& c, const std::string& path, Index head,
                             Index position = -1) {
  for (const ValueChange& each : c.rows)
    if (each.path == path && each.head == head && each.position == position) return each;
  FAIL("no change of ", path);
  throw;
}

void is_run(const ValueChange& told, const Looked& looked, const std::vector<Hook>& hooks) {
  const auto [loss, chance] = looked.with({});
  const auto [changed_loss, changed_chance] = looked.with(hooks);
  CHECK(told.loss.mean == changed_loss - loss);
  CHECK(told.probability.mean == changed_chance - chance);
  CHECK((changed_loss != loss || changed_chance != chance));
}

}  // namespace

TEST_SUITE("changes of values") {
  TEST_CASE("without a head, with another text's, or with a vector more: a run with that hook") {
    struct Row {
      std::string model, path;  // [b, n, d_v, heads]
      Index heads;
    };
    for (const Row& row : {Row{"talking_heads", "decoder/1/A/O", 3}, Row{"gpt2", "Z/0/A/O", 3}}) {
      CAPTURE(row.model);
      const TemporaryFolder folder;
      write_run(folder / "run",
                row.model == "gpt2" ? settings_of_text("gpt2") : settings_of(row.model));
      // "abcab": the last token, as it is expected at the position before.
      const Looked looked(folder / "run", "abcab", 3, 3);
      InspectOptions options = looking(folder / "run", "abcab");
      const std::string glob = row.path.substr(0, row.path.find('/')) + "/*/A/O";
      const Tensor vector = noise({looked.value("abcab", row.path).size(2)}, 5, Dtype::f32);
      write_npy(folder / "vector.npy", vector);
      options.changes.ablate = {glob};
      options.changes.patch = {row.path + "[1]"}, options.changes.text_from = "cbacb";
      options.changes.steer = {row.path + "[2]=" + folder / "vector.npy"};
      const ValueChanges made = changes(options);
      CHECK(made.position == 3);
      CHECK(made.token == 3);
      CHECK(made.loss.mean == looked.with({}).first);
      CHECK(made.probability.mean == looked.with({}).second);
      REQUIRE(made.rows.size() == 2 * static_cast<size_t>(row.heads) + 2);
      const auto of_head = [](Index head) {
        return [head](const std::vector<Index>& at) { return at[3] == head; };
      };
      for (Index head = 0; head < row.heads; ++head)
        is_run(change_at(made, row.path, head), looked,
               {{row.path, each_element(of_head(head), [](float, size_t) { return 0.0F; })}});
      const std::vector<float> source = looked.value("cbacb", row.path).values<float>(),
                               added = vector.values<float>();
      is_run(made.rows[made.rows.size() - 2], looked,
             {{row.path, each_element(of_head(1), [&](float, size_t i) { return source[i]; })}});
      is_run(made.rows.back(), looked,
             {{row.path, each_element(of_head(2), [&](float x, size_t i) {
                 return x + added[i / static_cast<size_t>(row.heads) % added.size()];
               })}});
    }
  }

  TEST_CASE("talking heads' tensors have heads of several kinds, and each its own axis") {
    const TemporaryFolder folder;
    ModelSettings s = settings_of("talking_heads");
    s.dims["h_k"] = 2, s.dims["h_v"] = 4;
    write_run(folder / "run", s);
    const Looked looked(folder / "run", "abcab", 3, 3);
    InspectOptions options = looking(folder / "run", "abcab");
    options.changes.ablate = {"decoder/0/A/J", "decoder/0/A/L[h=2, n=3]", "decoder/0/A/U",
                              "decoder/0/A/P_w[h_v=1]", "decoder/0/A/W[]"};
    const ValueChanges made = changes(options);
    REQUIRE(made.rows.size() == 2 + 1 + 4 + 1 + 1);
    const auto zero = [](float, size_t) { return 0.0F; };
    const auto is = [&](const ValueChange& told,
                        const std::function<bool(const std::vector<Index>&)>& f) {
      CAPTURE(told.path);
      is_run(told, looked, {{told.path, each_element(f, zero)}});
    };
    is(made.rows[1], [](const auto& at) { return at[3] == 1; });
    is(made.rows[2], [](const auto& at) { return at[3] == 2 && at[1] == 3; });
    CHECK(made.rows[2].head == 2);
    CHECK(made.rows[2].position == 3);
    is(made.rows[6], [](const auto& at) { return at[3] == 3; });
    is(made.rows[7], [](const auto& at) { return at[1] == 1; });
    is(made.rows[8], [](const auto&) { return true; });
  }

  TEST_CASE("position by position") {
    const TemporaryFolder folder;
    write_run(folder / "run", settings_of("talking_heads"));
    const Looked looked(folder / "run", "abcab", 4, 9);
    InspectOptions options = looking(folder / "run", "abcab");
    options.changes.ablate = {"decoder/1/A/O[1]", "decoder/0/Y"};
    options.changes.each_position = true;
    options.asked = {.token = "h", .position = {}};
    const ValueChanges made = changes(options);
    CHECK(made.position == 4);
    REQUIRE(made.rows.size() == 10);
    is_run(change_at(made, "decoder/1/A/O", 1, 2), looked,
           {{"decoder/1/A/O", each_element([](const auto& at) { return at[3] == 1 && at[1] == 2; },
                                           [](float, size_t) { return 0.0F; })}});
    is_run(change_at(made, "decoder/0/Y", -1, 4), looked,
           {{"decoder/0/Y", each_element([](const auto& at) { return at[1] == 4; },
                                         [](float, size_t) { return 0.0F; })}});
  }

  TEST_CASE("patched with all of another run the model is that run") {
    const TemporaryFolder folder;
    write_run(folder / "run", settings_of("talking_heads"));
    write_run(folder / "other", settings_of("talking_heads"), Tokenizer::characters(letters), 10);
    InspectOptions options = looking(folder / "run", "abcab");
    options.changes.patch = {"Y[]"}, options.changes.from = folder / "other";
    const ValueChanges made = changes(options);
    const Looked other(folder / "other", "abcab", 3, 3);
    CHECK(made.source_loss.mean == other.with({}).first);
    CHECK(made.rows[0].loss.mean == other.with({}).first - made.loss.mean);
    CHECK(made.rows[0].probability.mean == other.with({}).second - made.probability.mean);
    const RunReport run = inspect(options).runs[0];
    const std::vector<DataTable> all = shown_tables(run, run.frames[0]);
    const DataTable& table = *std::find_if(
        all.begin(), all.end(), [](const DataTable& each) { return each.name == "changes"; });
    CHECK(table.columns.back().name == "of the way");
    CHECK(close(std::get<double>(table.rows[0].back()), 1));
  }

  TEST_CASE(
      "over several texts: the mean, the sample's deviation, and those that have the position") {
    const TemporaryFolder folder;
    write_run(folder / "run", settings_of("talking_heads"));
    InspectOptions options = looking(folder / "run", "");
    options.texts = folder.file("texts.txt", "abcab\n\ncab\r\n\r\nbbb");
    options.changes.ablate = {"decoder/0/A/O[0]"};
    options.changes.each_position = true;
    const Report report = inspect(options);
    CHECK(report.text == "abcab");
    const ValueChanges& made = report.runs[0].frames[0].changes;
    CHECK(made.texts == 3);
    REQUIRE(made.rows.size() == 5);
    CHECK(made.rows[2].texts == 3);
    CHECK(made.rows[3].texts == 1);
    CHECK(std::isnan(made.rows[3].loss.deviation));
    std::vector<double> alone;
    options.texts = "";
    for (const char* text : {"abcab", "cab", "bbb"}) {
      options.text = text;
      alone.push_back(change_at(changes(options), "decoder/0/A/O", 0, 1).probability.mean);
    }
    const double mean = (alone[0] + alone[1] + alone[2]) / 3;
    double squares = 0;
    for (double x : alone) squares += (x - mean) * (x - mean);
    CHECK(close(made.rows[1].probability.mean, mean, 1e-12));
    CHECK(close(made.rows[1].probability.deviation, std::sqrt(squares / 2), 1e-12));
  }

  TEST_CASE("an encoder's source, its decoder's answer, and blanks") {
    const TemporaryFolder folder;
    write_run(folder / "t5", settings_of_text("t5"));
    InspectOptions options = looking(folder / "t5", "abcd");
    options.answer = "dcb";
    options.changes.ablate = {"decoder/*/D/O", "encoder/0/A/O[1]"};
    options.changes.patch = {"encoder/1/Y"}, options.changes.text_from = "bbbb";
    options.changes.each_position = true;
    const ValueChanges made = changes(options);
    CHECK(made.sequence == 1);
    CHECK(made.position == 2);  // what follows it is the answer's last letter, and not its end
    CHECK(made.token == 3);
    CHECK(change_at(made, "decoder/1/D/O", 2, 3).sequence == 1);
    CHECK(change_at(made, "encoder/0/A/O", 1, 3).sequence == 0);
    CHECK(change_at(made, "encoder/1/Y", -1, 0).loss.mean != 0);

    write_run(folder / "bert", settings_of_text("bert"), Tokenizer::characters(letters), 0, 1);
    options = looking(folder / "bert", "ab_d");
    options.changes.ablate = {"Z/0/A/O"};
    CHECK(changes(options).position == 2);
    CHECK(changes(options).rows.size() == 3);
  }

  TEST_CASE("what is not there, and what does not fit, is told in a sentence") {
    const TemporaryFolder folder;
    write_run(folder / "run", settings_of("talking_heads"));
    write_run(folder / "gpt2", settings_of_text("gpt2"));
    write_npy(folder / "five.npy", noise({5}, 1, Dtype::f32));
    const std::string file = folder / "five.npy";
    const auto error = [&](const auto& change) {
      InspectOptions options = looking(folder / "run", "abcab");
      change(options);
      return error_of([&] { inspect(options); });
    };
    const auto ablating = [&](const std::string& part) {
      return error([&](InspectOptions& o) { o.changes.ablate = {part}; });
    };
    CHECK(ablating("decoder/0/A/o") ==
          "nothing in this model is at 'decoder/0/A/o'; did you mean 'decoder/0/A/O'?");
    CHECK(ablating("decoder/0/A/O[3]") ==
          "--ablate decoder/0/A/O[3]: O[n, d_v, h_v] has h_v=3, so the last is 2");
    CHECK(ablating("decoder/0/A/O[n=5]") ==
          "--ablate decoder/0/A/O[n=5]: O[n, d_v, h_v] has n=5, so the last is 4");
    CHECK(ablating("decoder/0/A/O[h=1]") ==
          "--ablate decoder/0/A/O[h=1]: O[n, d_v, h_v] has no axis 'h'; there are n, d_v, h_v");
    CHECK(ablating("decoder/0/Y[1]") ==
          "--ablate decoder/0/Y[1]: Y[n, d_X] has no axis of heads; name one of its own, as in "
          "[n=1]");
    CHECK(ablating("decoder/0/A/O[h_v=1, 2]") ==
          "--ablate decoder/0/A/O[h_v=1, 2]: 'h_v' is there twice");
    CHECK(ablating("decoder/0/A/O[one]") ==
          "--ablate decoder/0/A/O[one]: in brackets stand a head's number or axis=number, as in "
          "[2] or [h=2, n=5], not 'one'");
    CHECK(ablating("decoder/0/A/O[1") ==
          "--ablate decoder/0/A/O[1: expected a path, or a path and a part, as in O[2]");
    const auto steering = [&](const std::string& part) {
      return error([&](InspectOptions& o) { o.changes.steer = {part}; });
    };
    CHECK(steering("decoder/0/Y=" + file) == "--steer decoder/0/Y: expected [d_X=12] or [n=5, " +
                                                 ("d_X=12], but " + file + " has [5]"));
    CHECK(steering("decoder/0/A/O[1]=" + file) ==
          "--steer decoder/0/A/O[1]: expected [d_v=4] or [n=5, d_v=4], but " + file + " has [5]");
    CHECK(steering("decoder/0/Y").starts_with("--steer decoder/0/Y: expected PATH=FILE"));
    CHECK(steering("decoder/0/Y=nowhere.npy").find("nowhere.npy") != std::string::npos);
    const float infinite = std::numeric_limits<float>::infinity();
    for (float x : {std::nanf(""), infinite, -infinite}) {
      write_npy(folder / "bad.npy", Tensor::full({12}, x));
      CHECK(steering("decoder/0/Y=" + folder / "bad.npy") ==
            "--steer decoder/0/Y: expected numbers, but " + folder / "bad.npy" +
                " has one that is infinite or NaN");
    }
    write_npy(folder / "large.npy", Tensor::full({12}, 3e38F));
    InspectOptions large = looking(folder / "run", "abcab");
    large.changes.steer = {"decoder/1/Y=" + folder / "large.npy"};
    CHECK(error_of(ErrorKind::numbers, [&] { inspect(large); }) ==
          "--steer decoder/1/Y=" + folder / "large.npy" +
              ": the logits of --text are not finite after that");
    const auto patching = [&](const std::string& part, const std::string& from,
                              std::optional<std::string> text) {
      return error([&](InspectOptions& o) {
        o.changes.patch = {part}, o.changes.from = from, o.changes.text_from = text;
      });
    };
    CHECK(patching("decoder/0/Y", "", {}) ==
          "--patch takes values of another run: expected --text-from TEXT or --from CHECKPOINT");
    CHECK(patching("decoder/0/Y", "", "abc") ==
          "--text-from has 3 tokens, but --text has 5: a patch is of the same positions");
    CHECK(patching("decoder/0/Y", "", "ABCAB").starts_with("--text-from: "));
    write_run(folder / "digits", settings_of("talking_heads"), Tokenizer::characters("0123"));
    CHECK(patching("decoder/0/Y", folder / "digits", {})
              .starts_with("--from " + folder / "digits" + ": --text: "));
    CHECK(patching("decoder/0/Y", folder / "gpt2", {}) ==
          "--from " + folder / "gpt2" +
              ": nothing in this model is at 'decoder/0/Y'; there are A, A.P, A.X, A.Y, B, E, "
              "N, N.X, N.Y, N.beta, N.gamma, T, Y, Z");
    CHECK(error([](InspectOptions& o) { o.changes.text_from = "x"; }) ==
          "--text-from says what --patch takes its values from, but there is no --patch PATH");
    const auto asking = [&](const AskedToken& asked) {
      return error(
          [&](InspectOptions& o) { o.asked = asked, o.changes.ablate = {"decoder/0/A/O"}; });
    };
    CHECK(asking({.token = "ab", .position = {}}) ==
          "--token: expected one token of the model, but 'ab' is 2 tokens");
    CHECK(asking({.token = "A", .position = {}}).starts_with("--token: "));
    CHECK(asking({.token = {}, .position = 5}) ==
          "--position 5: --text has 5 positions, counted from 0");
    CHECK(error([&](InspectOptions& o) {
            o.texts = folder.file("long.txt", "ab\nabcdefghijklmnopq\n");
            o.changes.ablate = {"decoder/0/A/O"};
          }) == folder / "long.txt" + ":2 has 17 tokens, but the model reads at most 16");
    CHECK(error([&](InspectOptions& o) {
            o.text = "", o.texts = folder.file("bad.txt", "\nab\xff\n");
          }).starts_with(folder / "bad.txt" + ":2: the text is not UTF-8"));
    CHECK(error([&](InspectOptions& o) {
            o.texts = folder.file("none.txt", "\n\r\n");
          }).ends_with("none.txt has no line with a text"));
  }
}
