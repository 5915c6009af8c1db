// A checkpoint is not trusted in what it says of itself: a field of another type than its own is
// refused in one sentence that names the file, wherever it stands.
#include "tools/trained.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "tests/error_of.hpp"
#include "tests/temporary_folder.hpp"

using namespace tete;
using nlohmann::ordered_json;
using tete::tests::TemporaryFolder;

namespace {

ModelSettings tiny_settings() {
  ModelSettings s;
  read_model_text(s, find_model("encoder_decoder"), {{"decoder.Attention[0]=talking_heads"}},
                  {"self=dropout"});
  s.dims["d_k"] = 2;
  s.layers = 1, s.heads = 2, s.d_model = 4, s.context = 4;
  return s;
}

// The parameters of a checkpoint, with other metadata.
struct Forged {
  TemporaryFolder folder;
  RunState state;
  NamedTensors tensors;

  Forged() {
    const ModelSettings s = tiny_settings();
    const Model model = make_model(s, 256);
    const Tensors values = model.params().initial_values(Key(1));
    for (size_t i = 0; i < values.size(); ++i)
      tensors.push_back({"param/" + model.params().specs()[i].name, values[i]});
    state.config = ordered_json{{"task", "reverse"}, {"model", to_json(s)}}.dump();
    state.tokenizer = "bytes";
  }
  std::string with(const Metadata& metadata) const {
    write_safetensors(folder / "x", metadata, tensors);
    return folder / "x";
  }
  // Reads the file that has this in its metadata; what is said of it.
  std::string refusal(const std::string& key, const std::string& value) const {
    Metadata metadata = to_metadata(state);
    metadata[key] = value;
    const std::string path = with(metadata), said = error_of([&] { read_trained(path); });
    CHECK(said.find(path) != std::string::npos);
    return said;
  }
};

// The paths of a value and of all that it holds.
void paths_in(const ordered_json& value, const ordered_json::json_pointer& path,
              std::vector<ordered_json::json_pointer>& paths) {
  paths.push_back(path);
  if (!value.is_structured()) return;
  for (const auto& [key, held] : value.items())
    paths_in(held, value.is_array() ? path / std::stoul(key) : path / key, paths);
}

}  // namespace

TEST_SUITE("trained") {
  TEST_CASE("every field of another type in a checkpoint's configuration is refused") {
    const Forged forged;
    CHECK(read_trained(forged.with(to_metadata(forged.state))).task != nullptr);
    const ordered_json config = ordered_json::parse(forged.state.config);
    std::vector<ordered_json::json_pointer> paths;
    paths_in(config, ordered_json::json_pointer(), paths);
    CHECK(paths.size() >= 30);
    const std::set<std::string> left_to_text = {"layers", "heads", "d_model"};
    int tried = 0;
    for (const char* wrong : {"5", "1.5", "true", "null", "\"x\"", "[]", "[1]", "{\"x\": 1}"}) {
      for (const auto& path : paths) {
        const ordered_json value = ordered_json::parse(wrong);
        const ordered_json& right = config[path];
        const bool both_integers = value.is_number_integer() && right.is_number_integer();
        // A size that is left to the text, and a list without sites, are no other types.
        if (both_integers || (value.type() == right.type() && !value.is_object()) ||
            (value.is_null() && !path.empty() && left_to_text.contains(path.back())))
          continue;
        CAPTURE(path.to_string());
        CAPTURE(wrong);
        ordered_json other = config;
        other[path] = value;
        const std::string said = forged.refusal("config", other.dump());
        CHECK(said != "no error");
        CHECK(said.find('\n') == std::string::npos);
        ++tried;
      }
    }
    CHECK(tried > 200);
    CHECK(forged.refusal("config", "{") != "no error");
    CHECK(forged.refusal("config", "") != "no error");
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    CHECK(forged.refusal("config", "{\"model\": " + deep + "}") != "no error");
    CHECK(forged.refusal("config", "{\"task\": " + deep + ", \"model\": {}}") != "no error");
  }

  TEST_CASE("and so is the rest of its metadata") {
    const Forged forged;
    for (const auto& [name, right] : to_metadata(forged.state)) {
      const std::string key = name;
      const bool is_number = !right.empty() && right.find_first_not_of("-0123456789") == right.npos;
      const bool is_read = is_number || key == "format" || key == "tokenizer" || key == "best_loss";
      if (!is_read) continue;
      for (const char* wrong : {"", "x", "1.5.", "{}", "-7"}) {
        if (key == "best_loss" && std::string(wrong) == "-7") continue;
        CAPTURE(key);
        CAPTURE(wrong);
        CHECK(forged.refusal(key, wrong) != "no error");
      }
      Metadata without = to_metadata(forged.state);
      without.erase(key);
      const std::string path = forged.with(without);
      CHECK(error_of([&] { read_trained(path); }).find("'" + key + "'") != std::string::npos);
    }
    for (const char* wrong : {"nan", "-nan"})
      CHECK(forged.refusal("best_loss", wrong) != "no error");
    for (const char* wrong : {"characters", "characters ", "characters 61 61", "characters 61  62",
                              "characters 110000", "characters d800", "characters61", "bytes "})
      CHECK(forged.refusal("tokenizer", wrong) != "no error");
  }
}
