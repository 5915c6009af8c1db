// Configurations: what a run's config.json says is read back as it was, for every option of `tete
// train`; so is what people write in JSON or TOML.
#include "tools/config.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/error_of.hpp"
#include "tests/temporary_folder.hpp"
#include "tools/train_options.hpp"

using namespace tete;
using nlohmann::ordered_json;
using tete::tests::TemporaryFolder;

namespace {

// `tete train` with these words on its command line.
struct Train {
  CLI::App app;
  TrainOptions options;
  explicit Train(const std::vector<std::string>& words = {}) {
    add_train_options(app, options);
    expect_one_value_each(app);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  }
  Train& read(const TemporaryFolder& folder, const std::string& name, const std::string& contents) {
    read_config(app, folder.file(name, contents));
    return *this;
  }
};

// Options that are not of the run: those below, and those that a configuration cannot set.
bool is_kept(const CLI::Option& option) {
  return option.get_configurable() && !option.check_lname("out") &&
         !option.check_lname("threads") && !option.check_lname("device") &&
         !option.check_lname("strict-device") && !option.check_lname("json");
}

// A value that is not the option's default.
ordered_json another_value(const CLI::Option& option, const ordered_json& preset) {
  if (option.get_items_expected_max() == 0) return true;  // a flag: null until it is said
  if (option.get_type_name() == "N") return 7;
  if (option.get_type_name() == "X") return 0.1234567890123456789;
  const std::string hard = "a \"b\" #c\\d\ne='f', [g] é";
  if (preset.is_array()) return {hard, "second"};
  return hard;
}

}  // namespace

TEST_CASE("every option of tete train that is set is written, and read back equal") {
  const TemporaryFolder folder;
  Train unset;
  const ordered_json presets = configuration_of(unset.app);
  size_t kept = 0;
  for (const CLI::Option* option : unset.app.get_options()) {
    if (!is_kept(*option)) continue;
    ++kept;
    const std::string key = option->get_lnames().front();
    CAPTURE(key);
    REQUIRE(presets.contains(key));
    const ordered_json wanted = another_value(*option, presets[key]);
    std::vector<std::string> words;
    if (wanted.is_boolean()) words = {"--" + key + "=" + wanted.dump()};
    else
      for (const ordered_json& each : wanted.is_array() ? wanted : ordered_json::array({wanted}))
        words.insert(words.end(),
                     {"--" + key, each.is_string() ? each.get<std::string>() : each.dump()});
    Train said(words);
    ordered_json expected = presets;
    expected[key] = wanted;
    CHECK(configuration_of(said.app) == expected);
    Train again;
    again.read(folder, "config.json", config_json(said.app));
    CHECK(config_json(again.app) == config_json(said.app));
  }
  CHECK(kept == presets.size());
  CHECK(kept >= 40);
}

TEST_CASE("a configuration of defaults is read back equal, in every style") {
  const TemporaryFolder folder;
  for (const std::string style : {"t5", "gpt2"}) {
    CAPTURE(style);
    Train said({"--style", style});
    read_model(said.options, said.app, false);
    const ordered_json kept = configuration_of(said.app);
    CHECK(kept["tied"].is_null());
    CHECK(kept["bias"] == (style == "gpt2" ? ordered_json(true) : ordered_json()));
    CHECK(kept["layers"].is_null());
    CHECK(kept["activation"] == (style == "gpt2" ? ordered_json("gelu_erf") : ordered_json()));
    CHECK(kept["heads"].is_null());
    Train again;
    again.read(folder, "config.json", config_json(said.app));
    read_model(again.options, again.app, false);
    CHECK(config_json(again.app) == config_json(said.app));
    CHECK(again.options.bias == said.options.bias);
  }
}

TEST_CASE("flags that are off stay off, in JSON and in TOML") {
  const TemporaryFolder folder;
  for (const auto& [name, contents] :
       {std::pair{"run.json", "{\"tied\": false, \"bias\": false, \"style\": \"gpt2\"}"},
        std::pair{"run.toml", "tied = false\nbias = false\nstyle = \"gpt2\"\n"},
        std::pair{"other.toml", "untied = true\nno-bias = true\nstyle = 'gpt2'\n"}}) {
    const std::string file = name;
    CAPTURE(file);
    Train train;
    train.read(folder, name, contents);
    read_model(train.options, train.app, false);
    CHECK(train.options.tied == false);
    CHECK(train.options.bias == false);
    CHECK(configuration_of(train.app)["tied"] == false);
  }
}

TEST_CASE("TOML: a '#' in a string is no comment, and nothing after it is lost") {
  const TemporaryFolder folder;
  Train train;
  train.read(folder, "run.toml",
             "# sizes\ntext = [\"a #1.txt\", 'b,c', \"d\\\\\\\"'e\", 'f\\\"']  # four\nattention = "
             "\"it's #1\"\nlayers = 3\n"
             "d_model = 16 # narrow\n[dim]\nh_k = 4\nh_v = 2\n");
  CHECK(train.options.text == std::vector<std::string>{"a #1.txt", "b,c", "d\\\"'e", "f\\\""});
  CHECK(train.options.attention == "it's #1");
  CHECK(train.options.model.layers == 3);
  CHECK(train.options.model.d_model == 16);
  CHECK(train.options.dim == std::vector<std::string>{"h_k=4", "h_v=2"});
}

TEST_CASE("what the command line says wins over a configuration") {
  const TemporaryFolder folder;
  Train train({"--layers", "2", "--untied", "--with", "rotary"});
  train.read(folder, "run.json",
             "{\"layers\": 5, \"heads\": 3, \"tied\": true, \"with\": [\"t5_bias\"], \"dim\": "
             "{\"h_k\": 4}, \"clip\": null}");
  CHECK(train.options.model.layers == 2);
  CHECK(train.options.model.heads == 3);
  CHECK(train.options.tied == false);
  CHECK(train.options.with == std::vector<std::string>{"rotary"});
  CHECK(train.options.dim == std::vector<std::string>{"h_k=4"});
  CHECK_FALSE(train.options.clip);
}

TEST_CASE(
    "files that a configuration names are looked for beside it, and kept by their whole path") {
  const TemporaryFolder folder;
  folder.file("mine.txt", "text");
  folder.file("mine.tete", "def");
  Train train;
  train.read(folder, "run.json",
             "{\"text\": [\"mine.txt\", \"nobody.txt\"], \"attention-layer\": [\"0=mine.tete\"]}");
  const ordered_json kept = configuration_of(train.app);
  CHECK(kept["text"] == ordered_json{folder / "mine.txt", "nobody.txt"});
  CHECK(kept["attention-layer"] == ordered_json{"0=" + folder / "mine.tete"});
}

TEST_CASE("mistakes in a configuration are told with its name, the key and the nearest key") {
  const TemporaryFolder folder;
  const auto refused = [&](const char* name, const std::string& contents, const std::string& says) {
    CAPTURE(contents);
    const std::string said = error_of([&] { Train().read(folder, name, contents); });
    CHECK_MESSAGE(said.starts_with(folder / name), said);
    CHECK_MESSAGE(said.find(says) != std::string::npos, said);
    CHECK_MESSAGE(said.find('\n') == std::string::npos, said);
  };
  refused("a.toml", "heads = 2\nheds = 4\n", "there is no key 'heds'; did you mean '--heads'?");
  refused("a.toml", "heads 4\n", "a.toml:1: expected KEY = VALUE, got 'heads 4'");
  refused("a.toml", "[a.b]\nheads = 4\n", "there is no key 'a.b'");
  refused("a.toml", "heads = two\n", "a.toml:1: 'heads' is two: expected a number, true, false");
  refused("a.toml", "heads = 2.5\n", "--heads: expected a whole number, got '2.5'");
  refused("a.toml", "layers = 2\nseed = 1 2\n", "a.toml:2: 'seed' is 1 2: expected a number");
  refused("a.toml", "report\n", "a.toml:1: expected KEY = VALUE, got 'report'");
  refused("a.toml", "heads =\n", "a.toml:1: 'heads' is : expected a number");
  refused("a.toml", "[dim]\nh_k = 4\nh_k = 5\n", "a.toml:3: 'h_k' is set twice");
  refused("a.toml", "dim = ['h_k=4']\n[dim]\nh_v = 5\n", "a.toml:3: 'h_v' is set twice");
  refused("a.toml", "heads = 2\nlayers = 1\nheads = 2\n", "'heads' is set twice");
  refused("a.toml", "heads = [2, 3]\n", "'heads' is [2,3]: expected a string, a number");
  refused("a.toml", "tied = 5\n", "'tied' is true or false");
  for (const std::string key : {"resume", "config", "help", "compile", "eval_iters"})
    refused("a.toml", key + " = 1\n",
            "'" + key + "' is an option of the command line, but no key of a file");
  refused("a.toml", "resum = 1\n", "there is no key 'resum'");
  refused("a.toml", "attention = \"\"\n", "--attention: expected a value, got ''");
  refused("a.toml", "layers = 2\ntext = \"a\\qb\"\n", "a.toml:2: 'text' is \"a\\qb\": expected");
  refused("a.toml", "text = \"a\nb\"\n", "a.toml:1: 'text' is \"a: expected a number");
  refused("a.toml", "text = 'a\n", "a.toml:1: 'text' is \"a: expected a number");
  refused("a.toml", std::string("steps = 3\n\0seed = 4\n", 20),
          "a.toml:2: expected text, got a byte");
  refused("a.toml", "steps = 3\ntext = [\n  'a',\n]\n", "a.toml:2: 'text' is [: expected");
  refused("a.toml", "attention = \"\"\"multi_head\"\"\"\n",
          "a.toml:1: 'attention' is \"\"\"multi_head\"\"\": expected");
  refused("a.toml", "dim = {h_k = 8}\n", "a.toml:1: 'dim' is {h_k = 8}: expected");
  refused("a.json", std::string("{\"steps\": 3}\0\0", 14), "a.json:1: expected text, got a byte");
  refused("a.json", "{\"text\": [\"a.txt\\u0000evil\"]}", "'text' has the character U+0000");
  refused("a.json", "{\"dim\": {\"h\\u0000\": 4}}", "'dim' has the character U+0000");
  refused("a.json", "{\"steps\": 12.0}", "--steps: expected a whole number, got '12.0'");
  refused("a.json", "{\"seed\": 18446744073709551616}", "--seed: expected a whole number");
  refused("a.json", "", "not JSON: parse error at line 1, column 1");
  refused("a.json", "{\"heads\": 2,\n \"layers\" 3}", "not JSON: parse error at line 2");
  refused("a.json", "[1]", "expected options in braces");
  refused("a.json", "{\"heds\": 4}", "there is no key 'heds'; did you mean '--heads'?");
  refused("a.json", "{\"heds\": null}", "there is no key 'heds'; did you mean '--heads'?");
  refused("a.json", "{\"heads\": 2, \"heads\": 3}", "'heads' is set twice");
  refused("a.json", "{\"d-model\": 2, \"d_model\": 3}", "'d_model' is set twice");
  refused("a.json", R"({"dim": {"h_k": 2, "h_k": 3}})", "'h_k' is set twice");
  refused("a.json", "{\"heads\": \"two\"}", "--heads: expected a whole number, got 'two'");
  refused("a.json", "{\"heads\": [[2]]}", "'heads' is [[2]]: expected a string, a number");
  refused("a.json", "{\"tied\": 1}", "'tied' is true or false");
  refused("a.json", "{\"text\": [\"\"]}", "--text: expected a value, got ''");
}

TEST_CASE("mistakes in a configuration are short however long a key or a value is") {
  const TemporaryFolder folder;
  std::string vast;
  while (vast.size() < (1 << 20)) vast += "é";
  for (const std::string& contents :
       {"{\"" + vast + "\": 1}", "{\"heads\": \"" + vast + "\"}", "{\"dropout\": \"" + vast + "\"}",
        "{\"heads\": [[\"" + vast + "\"]]}", "{\"text\": \"" + vast + "\\u0000\"}"}) {
    const std::string said = error_of([&] { Train().read(folder, "a.json", contents); });
    CHECK_MESSAGE(said.size() < 400, said.substr(0, 1000));
    CHECK_MESSAGE(said.find("é…") != std::string::npos, said.substr(0, 1000));
  }
}

TEST_CASE("what the catalogue knows by its name is no file, whatever lies beside") {
  const TemporaryFolder folder;
  for (const char* name : {"talking_heads", "t5_bias", "0=talking_heads", "self=rotary"})
    folder.file(name, "x");
  Train train;
  train.read(folder, "run.json",
             "{\"attention\": \"talking_heads\", \"with\": [\"t5_bias\", \"self=rotary\"], "
             "\"attention-layer\": [\"0=talking_heads\"]}");
  const ordered_json kept = configuration_of(train.app);
  CHECK(kept["attention"] == "talking_heads");
  CHECK(kept["with"] == ordered_json{"t5_bias", "self=rotary"});
  CHECK(kept["attention-layer"] == ordered_json::array({"0=talking_heads"}));
}

TEST_CASE("the largest seed is read back exactly") {
  const TemporaryFolder folder;
  Train said({"--seed", "18446744073709551615"});
  Train again;
  again.read(folder, "config.json", config_json(said.app));
  CHECK(again.options.loop.step.seed == 18446744073709551615u);
}

TEST_CASE("a name that is not UTF-8 cannot be kept") {
  Train train({"--text", "caf\xE9.txt"});
  CHECK(error_of([&] { config_json(train.app); }) == "--text 'caf\\xe9.txt': expected UTF-8");
}
