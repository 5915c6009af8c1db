// Checkpoints: what was written comes back, what was damaged does not, and a run that was stopped
// ends with the bytes of one that was not.
#include "train/checkpoint.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/error_of.hpp"
#include "tests/temporary_folder.hpp"
#include "train/checksum.hpp"
#include "train/loop.hpp"

using namespace tete;
using tete::tests::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

bool has(const std::string& sentence, const std::string& words) {
  if (sentence.find(words) != std::string::npos) return true;
  MESSAGE("in: " << sentence);
  return false;
}

int files_in(const TemporaryFolder& folder) {
  const fs::directory_iterator all(folder.path);
  return static_cast<int>(std::distance(fs::begin(all), fs::end(all)));
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string little_endian(uint64_t n) { return {reinterpret_cast<const char*>(&n), 8}; }
std::string file_of(const std::string& header, const std::string& data = "") {
  return little_endian(header.size()) + header + data;
}

// "" if the file is taken, else what was said.
std::string refusal(const std::string& path, Safetensors::Trust trust = Safetensors::Trust::ours) {
  try {
    Safetensors(path, trust).verify();
    return "";
  } catch (const Error& error) {
    CHECK_MESSAGE(error.kind() == ErrorKind::input, error.what());
    CHECK(std::string(error.what()).find(path) != std::string::npos);
    return error.what();
  }
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  const std::vector<double> x = a.values(), y = b.values();
  return x.empty() || std::memcmp(x.data(), y.data(), 8 * x.size()) == 0;
}

NamedTensors some_tensors() {
  return {{"param/b", random_normal({3, 5}, Key(1))},
          {"param/a", permute(random_normal({4, 3, 2}, Key(2)), {2, 0, 1})},
          {"optimizer/double", random_normal({7}, Key(3), Dtype::f64)},
          {"ids", arange(9)},
          {"scalar", Tensor::scalar(2.5)},
          {"nothing", Tensor::zeros({0, 3})}};
}

// ---- A run of a very small model
// -----------------------------------------------------------------

struct Tiny {
  ParamList params;
  ParamId E, P, fixed;
  Objective objective{params, [this](const Forward& f, const Batch& b) { return loss(f, b); }};
  Index width = 130;  // so that Adafactor factors
  double poison_from = 1e9;

  explicit Tiny(Index vocabulary) {
    using K = InitializerKind;
    E = params.declare({"E", {"v", "d"}, {vocabulary, width}, {K::normal, 0.1}});
    P = params.declare({.name = "P",
                        .dims = {"d", "k"},
                        .shape = {width, width},
                        .init = {K::normal, 0.05},
                        .layout = {1, 0}});
    fixed = params.declare(
        {.name = "fixed", .dims = {"d"}, .shape = {width}, .init = {K::ones}, .fixed = true});
  }
  Tiny(const Tiny&) = delete;

  LossSum loss(const Forward& f, const Batch& batch) const {
    const Index b = batch.input.size(0), n = batch.input.size(1);
    Tensor X = gather("[v] d, b n -> b n d", f[E], batch.input);
    if (f.training) X = dropout(X, f.dropout, f.key, f.first_sample * n * width);
    Tensor H = mul("b n d, d", einsum("b n d, d k -> b n k", X, f[P]), f[fixed]);
    if (f.training && f.first_sample >= poison_from) H = H * std::nan("");
    if (f.watch) f.watch("H", H);
    const Tensor logits =
        reshape(einsum("b n d, v d -> b n v", tanh(H), f[E]), {b * n, f[E].size(0)});
    return {sum(cross_entropy(logits, reshape(batch.target, {b * n}))), b * n};
  }
};

std::string tiny_text() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "how much wood would a woodchuck chuck? ";
  return text;
}

struct StopAt : Reporter {
  int64_t at;
  std::vector<std::string> warnings, saved_paths;
  explicit StopAt(int64_t step) : at(step) {}
  void step(const Progress& p) override {
    if (p.step == at) StopSignals::request();
  }
  void saved(const std::string& path, int64_t) override { saved_paths.push_back(path); }
  void warning(const std::string& sentence) override { warnings.push_back(sentence); }
};

struct TinyRun {
  Tokenizer tokenizer = Tokenizer::characters(tiny_text());
  TextData data{Tokens(tiny_text(), tokenizer), 8};
  Tiny model{tokenizer.size()};
  LoopOptions options;

  TinyRun() {
    options.step = {.batch = 4, .shards = 2, .clip = 1, .dropout = 0.3, .seed = 11};
    options.schedule = schedule_of("inverse_sqrt", 20);
    options.log_every = 3, options.validate_every = 4, options.save_every = 6;
    options.validation_samples = 8, options.validation_batch = 4;
    options.config = R"({"layers": 1})";
  }
  // A stop is requested in the batch of a validation, or in what is written with it, that has this
  // number, from 1.
  void stop_in(int batch, int writing) {
    model.objective.loss = [this, batch, seen = 0](const Forward& f, const Batch& b) mutable {
      if (!f.training && ++seen == batch) StopSignals::request();
      return model.loss(f, b);
    };
    options.write = [writing, seen = 0](const Tensors&) mutable {
      if (++seen == writing) StopSignals::request();
      return std::vector<WrittenText>{{"how", StopSignals::requested() ? "" : " much"}};
    };
  }
  LoopResult go(const std::string& optimizer, Reporter& reporter) {
    Tensors values = model.params.initial_values(Key(options.step.seed).fold("init"));
    const auto rule = find_optimizer(optimizer).make(model.params.specs(), Dtype::f32, cpu());
    return train(model.objective, values, *rule, data, tokenizer, options, reporter);
  }
};

// Lines of a log without what the clock says.
std::vector<std::string> timeless_log(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    nlohmann::ordered_json one = nlohmann::ordered_json::parse(line);
    for (const char* key : {"time_s", "wall", "tok_per_s", "ms_step", "rss_mb"}) one.erase(key);
    lines.push_back(one.dump());
  }
  return lines;
}

}  // namespace

TEST_SUITE("checkpoint") {
  TEST_CASE("XXH64 has its published values") {
    CHECK(hexadecimal(checksum("")) == "ef46db3751d8e999");
    CHECK(hexadecimal(checksum("abc")) == "44bc2cf5ad770999");
    CHECK(
        hexadecimal(checksum("Call me Ishmael. Some years ago--never mind how long precisely-")) ==
        "02a2e85470d6fd96");
    std::string all;
    for (int i = 0; i < 100; ++i) all += static_cast<char>(i * i);
    for (size_t length = 1; length <= all.size(); ++length) {
      Checksum parts;
      for (size_t at = 0; at < all.size(); at += length)
        parts.add(all.data() + at, std::min(length, all.size() - at));
      CHECK(parts.value() == checksum(all));
    }
  }

  TEST_CASE("what was written comes back, and the same contents are the same bytes") {
    const TemporaryFolder folder;
    const Metadata metadata = {{"text", "line\n\"quoted\" \xC3\xA9"}, {"empty", ""}};
    NamedTensors tensors = some_tensors();
    write_safetensors(folder / "a", metadata, tensors);
    std::reverse(tensors.begin(), tensors.end());
    write_safetensors(folder / "b", metadata, tensors);
    CHECK(read_file(folder / "a") == read_file(folder / "b"));
    CHECK(files_in(folder) == 2);

    for (const auto trust : {Safetensors::Trust::ours, Safetensors::Trust::anyone}) {
      const Safetensors file(folder / "a", trust);
      CHECK(file.entries().size() == tensors.size());
      for (const NamedTensor& tensor : tensors) {
        CAPTURE(tensor.name);
        CHECK(same_bits(file.read(tensor.name), tensor.value));
        const Safetensors::Entry* entry = file.find(tensor.name);
        CHECK(entry->begin % size_of(entry->dtype) == 0);
      }
      CHECK(file.metadata("text") == metadata.at("text"));
      CHECK(file.metadata("empty") == "");
      CHECK(has(error_of(ErrorKind::input, [&] { file.read("none"); }), "no tensor 'none'"));
      CHECK(has(error_of(ErrorKind::input, [&] { file.metadata("none"); }), "'none'"));
      CHECK(file.read_all().size() == tensors.size());
    }
    uint64_t header = 0;
    std::memcpy(&header, read_file(folder / "a").data(), 8);
    CHECK((header + 8) % 64 == 0);
    write_safetensors(folder / "none", {}, {});
    CHECK(refusal(folder / "none") == "");
    tensors.push_back(tensors[0]);
    CHECK(has(error_of(ErrorKind::input, [&] { write_safetensors(folder / "twice", {}, tensors); }),
              "named"));
    CHECK_FALSE(fs::exists(folder / "twice"));
  }

  TEST_CASE("other programs' files are read, but are no checkpoints") {
    const TemporaryFolder folder;
    const float numbers[] = {1, 2, 3};
    const std::string data(reinterpret_cast<const char*>(numbers), 12);
    write_bytes(folder / "x",
                file_of(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", data));
    CHECK(Safetensors(folder / "x", Safetensors::Trust::anyone).read("w").values() ==
          std::vector<double>{1, 2, 3});
    CHECK(has(refusal(folder / "x"), "another program wrote it"));
  }

  TEST_CASE("half precision, truth values and short integers are read without loss") {
    const TemporaryFolder folder;
    struct Case {
      const char* dtype;
      std::string bytes;
      std::vector<double> values;
    };
    // NumPy and PyTorch read these numbers from the bytes.
    const Case cases[] = {
        {"F16",
         {"\x00\x3C\x55\xB5\xFF\x7B\x01\x00\x00\x80\x00\x7C\xFF\x03", 14},
         {1, -0.333251953125, 65504, 5.9604644775390625e-8, 0, INFINITY, 6.097555160522461e-5}},
        {"BF16",
         {"\x80\x3F\x49\x40\x7F\x7F\x80\xFF", 8},
         {1, 3.140625, 3.3895313892515355e38, -INFINITY}},
        {"BOOL", {"\x00\x01", 2}, {0, 1}},
        {"U8", {"\x00\xFF", 2}, {0, 255}},
        {"I8", {"\x7F\xFF", 2}, {127, -1}},
        {"I16", {"\xFE\xFF\x00\x01", 4}, {-2, 256}},
        {"I32", {"\xFE\xFF\xFF\xFF\x00\x00\x01\x00", 8}, {-2, 65536}},
    };
    for (const Case& c : cases) {
      CAPTURE(c.dtype);
      write_bytes(folder / "x",
                  file_of(text(R"({"w":{"dtype":")", c.dtype, R"(","shape":[)", c.values.size(),
                               R"(],"data_offsets":[0,)", c.bytes.size(), "]}}"),
                          c.bytes));
      const Safetensors file(folder / "x", Safetensors::Trust::anyone);
      CHECK(file.find("w")->stored == c.dtype);
      CHECK(file.read("w").dtype() == file.find("w")->dtype);
      CHECK(is_real(file.find("w")->dtype) == std::string(c.dtype).ends_with("F16"));
      CHECK(file.read("w").values() == c.values);
    }
    write_bytes(folder / "x",
                file_of(R"({"w":{"dtype":"F16","shape":[],"data_offsets":[0,2]}})", "\x01\x7E"));
    CHECK(std::isnan(Safetensors(folder / "x", Safetensors::Trust::anyone).read("w").item()));
  }

  TEST_CASE("no truncation and no flipped bit of a checkpoint is taken") {
    const TemporaryFolder folder;
    RunState state;
    state.config = R"({"heads": 2})", state.tokenizer = "bytes";
    write_safetensors(folder / "whole", to_metadata(state),
                      {{"param/P", random_normal({6, 7}, Key(1))}, {"optimizer/P/v", arange(11)}});
    const std::string whole = read_file(folder / "whole"), path = folder / "damaged";
    CHECK(refusal(folder / "whole") == "");
    CHECK(whole.size() < 3000);
    int taken = 0;
    write_bytes(path, whole);
    for (size_t length = whole.size(); length-- > 0;) {
      fs::resize_file(path, length);
      taken += refusal(path) == "";
    }
    CHECK(taken == 0);
    write_bytes(path, whole);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](size_t at, int byte) {
      file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
    };
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      put(bit / 8, whole[bit / 8] ^ (1 << (bit % 8)));
      taken += refusal(path) == "";
      put(bit / 8, whole[bit / 8]);
    }
    CHECK(taken == 0);
    CHECK(refusal(path) == "");
    write_bytes(path, whole + "x");
    CHECK(has(refusal(path), "follow the header"));
  }

  TEST_CASE("hostile headers are refused, each with its reason") {
    struct Case {
      std::string bytes, reason;
      size_t size = 0;  // of the file, where it is longer than the bytes
    };
    const auto entry = [](const std::string& fields) { return text("{\"w\":{", fields, "}}"); };
    const auto shaped = [&](const std::string& shape, const std::string& offsets = "[0,0]") {
      return file_of(
          entry("\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":" + offsets));
    };
    const auto one = [](const std::string& name, int begin, int end) {
      return text("\"", name, "\":{\"dtype\":\"F32\",\"shape\":[", (end - begin) / 4,
                  "],\"data_offsets\":[", begin, ",", end, "]}");
    };
    const auto named = [&](const std::string& name) {
      return file_of(text("{", one(name, 0, 0), "}"));
    };
    std::string deep = "{\"w\":", many = "{";
    for (int i = 0; i < 100000; ++i) deep += "[";
    for (int i = 0; i < 1000001; ++i) many += text(i ? "," : "", "\"", i, "\":{}");
    std::string ranks = "[1";
    for (int i = 1; i < 1000; ++i) ranks += ",1";
    const std::vector<Case> cases = {
        {"", "it has only 0 bytes, expected at least 10"},
        {"{}", "it has only 2 bytes, expected at least 10"},
        {little_endian(uint64_t{1} << 63) + "{}      ",
         "its header should be 9223372036854775808 bytes long, in a file of 16"},
        {little_endian(100) + "{}      ", "its header should be 100 bytes long, in a file of 16"},
        {little_endian(100000001) + "{",
         "its header is 100000001 bytes long, expected at most 100000000", 100000100},
        {file_of("\xEF\xBB\xBF{}"),
         "its header does not begin with '{', as that of a safetensors file does"},
        {file_of("[] "), "its header does not begin with '{', as that of a safetensors file does"},
        {file_of("{} x"), "its header is not JSON at byte 12"},
        {file_of("{\"a\""), "its header is not JSON at byte 13"},
        {file_of("{\"\xFF\":1}"), "its header is not JSON at byte 11"},
        {shaped("[4294967296,4294967296]"), "the shape of tensor 'w' is too large"},
        {shaped("[4611686018427387904]"), "the shape of tensor 'w' is too large"},
        {shaped("[9223372036854775807]"), "the shape of tensor 'w' is too large"},
        {shaped("[0,9223372036854775807]"), "the shape of tensor 'w' is too large"},
        {shaped("[18446744073709551616]"),
         "its header has the number 18446744073709551616 at 'shape', expected sizes"},
        {shaped("[-1]"), "its header has the number -1 at 'shape', expected sizes"},
        {shaped("[1.5]"), "its header has the number 1.5 at 'shape', expected sizes"},
        {shaped("[1e400]"), "its header is not JSON at byte 42"},
        {shaped("[01]"), "its header is not JSON at byte 39"},
        {shaped(ranks + "]"), "its header has more than 16 numbers in a list at 'shape'"},
        {shaped("[[1]]"), "its header has a list at 'shape', expected sizes"},
        {shaped("3"), "its header has the number 3 at 'shape', expected a list"},
        {shaped("[1]", "[4,0]"), "the data_offsets of tensor 'w' are not a beginning and an end"},
        {shaped("[1]", "[0]"), "the data_offsets of tensor 'w' are not a beginning and an end"},
        {shaped("[1]", "[0,8]"),
         "the shape of tensor 'w' takes 4 bytes, but its data_offsets span 8"},
        {shaped("[1]", "[0,4]"), "its tensors take 4 bytes, but 0 follow the header"},
        {shaped("[1]", "[4,8]") + "12345678",
         "tensor 'w' begins at byte 4 of the data, where 0 was expected"},
        {file_of("{" + one("a", 0, 8) + "," + one("b", 4, 12) + "}", "123456789012"),
         "tensor 'b' begins at byte 4 of the data, where 8 was expected"},
        {file_of("{" + one("a", 0, 4) + "," + one("b", 8, 12) + "}", "123456789012"),
         "tensor 'b' begins at byte 8 of the data, where 4 was expected"},
        {file_of("{" + one("a", 0, 4) + "}", "12345"),
         "its tensors take 4 bytes, but 5 follow the header"},
        {file_of("{" + one("a", 0, 0) + "," + one("a", 0, 0) + "}"), "its header has 'a' twice"},
        {file_of(entry(R"("dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4])"), "1234"),
         "its header has 'dtype' twice"},
        {file_of(entry(R"("dtype":"F32","shape":[])")),
         "dtype, shape or data_offsets of tensor 'w' is missing"},
        {file_of(entry(R"("dtype":"F32","shape":[],"data_offsets":[0,4],"more":[])"), "1234"),
         "tensor 'w' has the unknown field 'more'; expected dtype, shape and data_offsets"},
        {file_of(entry(R"("dtype":"F31","shape":[],"data_offsets":[0,4])"), "1234"),
         "the dtype of tensor 'w' is 'F31'; what can be read is F32, F64, I64, F16, BF16, BOOL, "
         "U8, I8, I16, I32"},
        {file_of(entry(R"("dtype":"C64","shape":[],"data_offsets":[0,8])"), "12345678"),
         "the dtype of tensor 'w' is 'C64'; what can be read is F32, F64, I64, F16, BF16, BOOL, "
         "U8, I8, I16, I32"},
        {file_of(entry(R"("dtype":"BF16","shape":[],"data_offsets":[0,4])"), "1234"),
         "the shape of tensor 'w' takes 2 bytes, but its data_offsets span 4"},
        {file_of(entry(R"("dtype":5,"shape":[],"data_offsets":[0,4])"), "1234"),
         "its header has the number 5 at 'dtype', expected a string"},
        {file_of(entry(R"("dtype":["F32"],"shape":[],"data_offsets":[0,4])"), "1234"),
         "its header has a list at 'dtype', expected a string"},
        {file_of(R"({"w":3})"), "its header has the number 3 at 'w', expected an object"},
        {file_of(R"({"w":"x"})"), "its header has a string at 'w', expected an object"},
        {file_of(R"({"w":null})"), "its header has a null at 'w', expected an object"},
        {file_of(R"({"w":[]})"), "its header has a list at 'w', expected an object"},
        {file_of(R"({"__metadata__":{"a":1}})"),
         "its header has the number 1 at 'a', expected a string"},
        {file_of(R"({"__metadata__":{"a":{}}})"),
         "its header has an object at 'a', expected a string"},
        {file_of(R"({"__metadata__":{"a":["b"]}})"),
         "its header has a list at 'a', expected a string"},
        {file_of(R"({"__metadata__":{"a":true}})"),
         "its header has a truth value at 'a', expected a string"},
        {file_of(R"({"__metadata__":{"a":"","a":""}})"), "its header has 'a' twice"},
        {file_of(R"({"__metadata__":{"checksum":"12)"), "its header is not JSON at byte 40"},
        {file_of(R"({"__metadata__":{"checksum":"12"}})"), "its checksum is cut off"},
        {file_of(deep), "its header has a list at 'w', expected an object"},
        {file_of(many + "}"), "its header has more than a million tensors at '1000000'"},
        {named("a\\u0000b"),
         "its header has the name 'a\\x00b', which is empty, no text, or a path"},
        {named(std::string(1 << 20, 'a')), "its header has a name of over 1024 bytes"},
        {named("../../etc/passwd"),
         "its header has the name '../../etc/passwd', which is empty, no text, or a path"},
        {named(""), "its header has the name '', which is empty, no text, or a path"},
    };
    const TemporaryFolder folder;
    for (const Case& c : cases) {
      CAPTURE(c.bytes.substr(0, 120));
      CAPTURE(c.reason);
      write_bytes(folder / "x", c.bytes);
      if (c.size > 0) fs::resize_file(folder / "x", c.size);
      const std::string said = refusal(folder / "x", Safetensors::Trust::anyone);
      CHECK(said == text(folder / "x", " cannot be read: ", c.reason));
    }
  }

  TEST_CASE("what is no file at all is refused too") {
    const TemporaryFolder folder;
    CHECK(error_of([&] {
            write_safetensors(folder / "x", {}, {{"\xFF", Tensor::ones({2})}});
          }) == "the names and texts of a file must be UTF-8");
    fs::create_symlink("loop", folder / "loop");
    mkfifo((folder / "pipe").c_str(), 0600);
    CHECK(has(refusal(folder / "none"), "there is no file"));
    CHECK(has(refusal(folder.path), "is a folder"));
    CHECK(has(refusal(folder / "pipe"), "not a regular file"));
    CHECK(has(refusal("/dev/zero"), "not a regular file"));
    CHECK(has(refusal(folder / "loop"), "cannot read"));
  }

  TEST_CASE("a model that differs is told tensor by tensor") {
    const TemporaryFolder folder;
    write_safetensors(folder / "x", {},
                      {{"param/same", Tensor::ones({2})},
                       {"param/shape", Tensor::ones({2, 3})},
                       {"param/dtype", Tensor::ones({2}, Dtype::f64)},
                       {"param/more", Tensor::ones({2})},
                       {"optimizer/x", Tensor::ones({2})}});
    const Safetensors file(folder / "x");
    ParamList params;
    for (const char* name : {"same", "dtype", "less"}) params.declare({name, {"d"}, {2}, {}});
    params.declare(
        {.name = "shape", .dims = {"a", "b"}, .shape = {3, 2}, .init = {}, .layout = {1, 0}});
    const std::string sentence =
        error_of(ErrorKind::input, [&] { read_params(file, params.specs()); });
    CHECK(has(sentence, "in 4 tensors"));
    CHECK(has(sentence, "param/less is missing"));
    CHECK(has(sentence, "param/shape is f32[2, 3], expected f32[3, 2]"));
    CHECK(has(sentence, "param/dtype is f64[2], expected f32[2]"));
    CHECK(has(sentence, "param/more (f32[2]) is not expected"));

    ParamList fits;
    fits.declare({.name = "x", .dims = {"a", "b"}, .shape = {2, 3}, .init = {}, .layout = {1, 0}});
    const Tensor x = random_normal({2, 3}, Key(1));
    write_safetensors(folder / "y", {}, {{"param/x", x}});
    const Tensors values = read_params(Safetensors(folder / "y"), fits.specs());
    CHECK(same_bits(values[0], x));
    CHECK(values[0].strides() == Strides{1, 2});
  }

  TEST_CASE("the state of a run survives, and a newer format is refused") {
    const TemporaryFolder folder;
    RunState state;
    state.step = 12, state.tokens = 1LL << 40, state.samples = 48, state.seed = ~uint64_t{0};
    state.shards = 4, state.optimizer = "adam", state.config = "{\"a\": 1}";
    state.tokenizer = "characters 61", state.data = "ff", state.program = "p", state.kernels = "k";
    write_safetensors(folder / "a", to_metadata(state), {});
    const RunState again = read_state(Safetensors(folder / "a"));
    CHECK(to_metadata(again) == to_metadata(state));
    CHECK(again.seed == ~uint64_t{0});
    CHECK(std::isinf(again.best_loss));
    const auto with = [&](const std::string& key, const std::string& value) {
      Metadata metadata = to_metadata(state);
      metadata[key] = value;
      write_safetensors(folder / "b", metadata, {});
      return error_of(ErrorKind::input, [&] { read_state(Safetensors(folder / "b")); });
    };
    CHECK(has(with("format", "tete checkpoint 2"), "format 2, and this program reads up to 1"));
    CHECK(has(with("format", "pt"), "its format is 'pt'"));
    CHECK(has(with("step", "12x"), "its 'step' is '12x'"));
    CHECK(has(with("step", "9223372036854775808"), "its 'step' is '9223372036854775808'"));
    CHECK(has(with("seed", "18446744073709551616"), "its 'seed' is '18446744073709551616'"));
    write_safetensors(folder / "b", {}, {});
    CHECK(has(error_of(ErrorKind::input, [&] { read_state(Safetensors(folder / "b")); }),
              "'format'"));
  }

  TEST_CASE("a disk that fills leaves the old file and no other") {
    const TemporaryFolder folder;
    const NamedTensors small = {{"x", Tensor::ones({4})}}, large = {{"x", Tensor::ones({100000})}};
    write_safetensors(folder / "x", {}, small);
    const std::string before = read_file(folder / "x");
    struct rlimit old = {};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
    const struct rlimit limited = {65536, old.rlim_max};
    ignore_write_signals();
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limited) == 0);
    std::string sentence;
    ErrorKind kind = ErrorKind::check;
    try {
      write_safetensors(folder / "x", {}, large);
    } catch (const Error& error) {
      sentence = error.what(), kind = error.kind();
    }
    REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(kind == ErrorKind::resource);
    CHECK(has(sentence, "cannot write " + folder / "x" + ": " + errno_text(EFBIG)));
    CHECK(read_file(folder / "x") == before);
    CHECK(files_in(folder) == 1);
    const std::string no_room = error_of(ErrorKind::resource, [&] {
      replace_file(folder.path, "x", size_t{1} << 60, [](const Write&) {});
    });
    CHECK(has(no_room, "the disk has"));
    CHECK(read_file(folder / "x") == before);
  }

  TEST_CASE("a folder that cannot be written is told at the start") {
    const TemporaryFolder folder;
    write_bytes(folder / "file", "x");
    CHECK(has(error_of(ErrorKind::resource, [&] { RunFolder(folder / "file"); }), folder / "file"));
    CHECK(has(error_of(ErrorKind::resource, [&] { RunFolder(folder / "file/run"); }),
              folder / "file"));
    CHECK(has(error_of(ErrorKind::resource, [&] { RunFolder("/proc/run"); }), "/proc/run"));
    CHECK(has(error_of(ErrorKind::resource, [&] { write_safetensors(folder / "none/x", {}, {}); }),
              "cannot open the folder " + folder / "none"));
  }

  TEST_CASE("one run at a time holds a folder") {
    const TemporaryFolder folder;
    {
      const RunFolder first(folder / "a/run");
      const std::string sentence =
          error_of(ErrorKind::resource, [&] { RunFolder(folder / "a/run"); });
      CHECK(has(sentence, text("is in use by process ", getpid())));
    }
    CHECK_NOTHROW(RunFolder(folder / "a/run"));
  }

  TEST_CASE("the newest checkpoints and the best are kept") {
    const TemporaryFolder folder;
    RunFolder run(folder.path);
    write_bytes(folder / ".step-00000009.safetensors.tmp", "left");
    RunState state;
    for (int64_t step : {0, 10, 20, 30, 40}) {
      state.step = step;
      if (step == 10) state.best_step = 10;
      CHECK(run.save(state, sources_of({{"x", Tensor::scalar(static_cast<double>(step))}})) ==
            folder / checkpoint_name(step));
    }
    CHECK(saved_steps(folder.path) == std::vector<int64_t>{40, 30, 10});
    CHECK(fs::read_symlink(folder / "latest") == "step-00000040.safetensors");
    CHECK(fs::read_symlink(folder / "best") == "step-00000010.safetensors");
    CHECK(Safetensors(folder / "latest").read("x").item() == 40);
    CHECK(find_checkpoint(folder.path) == folder / checkpoint_name(40));
    CHECK(find_checkpoint(folder / "best") == folder / "best");
    write_bytes(folder / "step-12.safetensors", "a file of another name is none of ours");

    std::vector<std::string> warnings;
    fs::resize_file(folder / checkpoint_name(40), 200);
    CHECK(find_checkpoint(folder.path, &warnings) == folder / checkpoint_name(30));
    REQUIRE(warnings.size() == 1);
    CHECK(has(warnings[0], "step-00000040"));
    fs::resize_file(folder / checkpoint_name(30), 0);
    fs::resize_file(folder / checkpoint_name(10), 0);
    CHECK(has(error_of(ErrorKind::input, [&] { find_checkpoint(folder.path); }),
              "no whole checkpoint"));
    const TemporaryFolder empty;
    CHECK(has(error_of(ErrorKind::input, [&] { find_checkpoint(empty.path); }),
              "there is no checkpoint in"));
  }

  TEST_CASE("what a killed save did not come to is done when the run goes on") {
    const TemporaryFolder folder;
    RunState state;
    RunFolder run(folder.path);
    for (state.step = 0; state.step <= 40; state.step += 10)
      run.save(state, sources_of({{"x", Tensor::scalar(1)}}), 9);
    for (const char* link : {"latest", "best"}) fs::remove(folder / link);
    fs::create_symlink("step-00000020.safetensors", folder / "latest");
    state.step = 30, state.best_step = 0;
    run.tidy(state, 2);
    CHECK(saved_steps(folder.path) == std::vector<int64_t>{40, 30, 20, 0});
    CHECK(fs::read_symlink(folder / "latest") == "step-00000030.safetensors");
    CHECK(fs::read_symlink(folder / "best") == "step-00000000.safetensors");
  }

  TEST_CASE("a lock that is a link is refused, and nothing is written where it leads") {
    const TemporaryFolder folder;
    write_bytes(folder / "precious", "mine");
    for (const char* target : {"precious", "nothing"}) {
      fs::remove(folder / "lock");
      fs::create_symlink(target, folder / "lock");
      CHECK(has(error_of(ErrorKind::input, [&] { RunFolder(folder.path); }), "lock is a link"));
    }
    CHECK(read_file(folder / "precious") == "mine");
    CHECK_FALSE(fs::exists(folder / "nothing"));
  }

  TEST_CASE("who may read a file does not change when it is written over") {
    const TemporaryFolder folder;
    const std::string path = folder / "x";
    for (const auto mode : {fs::perms(0600), fs::perms(0644), fs::perms(0640)}) {
      write_bytes(path, "before");
      fs::permissions(path, mode);
      write_file(path, 5, [](const Write& write) { write("after"); });
      CHECK(read_file(path) == "after");
      CHECK(fs::status(path).permissions() == mode);
    }
  }

  TEST_CASE("a save that is killed leaves a checkpoint that is whole") {
    const TemporaryFolder folder;
    RunState state;
    const Tensor x = random_normal({1 << 16}, Key(1));
    { RunFolder(folder.path).save(state, sources_of({{"x", x}})); }
    for (int storm = 0; storm < 20; ++storm) {
      const pid_t child = fork();
      if (child == 0) {
        RunFolder run(folder.path);
        for (state.step = saved_steps(folder.path)[0] + 1;; ++state.step)
          run.save(state, sources_of({{"x", x}}));
      }
      usleep(3000 + 1000 * static_cast<useconds_t>(storm));
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      std::vector<std::string> warnings;
      const std::string newest = find_checkpoint(folder.path, &warnings);
      CHECK(warnings.empty());
      CHECK(same_bits(Safetensors(newest).read("x"), x));
    }
    // A kill at some moment of a save can leave these files, whether one of these did or not.
    write_bytes(folder / ".step-00000099.safetensors.tmp", "half");
    for (const char* link : {".latest.tmp", ".best.tmp"}) {
      fs::remove(folder / link);
      fs::create_symlink("step-00000099.safetensors", folder / link);
    }
    RunFolder again(folder.path);
    for (const auto& file : fs::directory_iterator(folder.path))
      CHECK(file.path().extension() != ".tmp");
  }

  TEST_CASE("stopped anywhere and resumed, a run ends with the same bytes") {
    for (const char* optimizer : {"adafactor", "adam"}) {
      CAPTURE(optimizer);
      const TemporaryFolder folder;
      TinyRun whole;
      whole.options.folder = folder / "whole";
      StopAt never(-1);
      const LoopResult expected = whole.go(optimizer, never);
      CHECK_FALSE(expected.stopped);
      CHECK(expected.step == 20);
      const std::string final_bytes = read_file(expected.checkpoint);
      CHECK(never.warnings.empty());

      for (int64_t stop : {1, 2, 6, 7, 8, 19}) {
        CAPTURE(stop);
        TinyRun part;
        part.options.folder = folder / text("stop", stop);
        StopAt first(stop);
        const LoopResult stopped = part.go(optimizer, first);
        CHECK(stopped.stopped);
        CHECK(stopped.step == stop);
        CHECK(saved_steps(part.options.folder)[0] == stop);
        // Later lines, as after a kill, and a torn one.
        std::ofstream(part.options.folder + "/metrics.jsonl", std::ios::app)
            << "{\"step\": 1000, \"loss\": 1}\n{\"step\": 10";
        part.options.resume = part.options.folder;
        StopAt rest(-1);
        const LoopResult resumed = part.go(optimizer, rest);
        CHECK(resumed.step == 20);
        CHECK(resumed.loss == expected.loss);
        CHECK(read_file(resumed.checkpoint) == final_bytes);
        CHECK(timeless_log(part.options.folder + "/metrics.jsonl") ==
              timeless_log(whole.options.folder + "/metrics.jsonl"));
        CHECK(saved_steps(part.options.folder)[0] == 20);
        CHECK(saved_steps(part.options.folder).size() <= 3);
      }
      // Killed long after its last save: what was done since is done again.
      TinyRun killed;
      killed.options.folder = folder / "killed";
      StopAt late(15);
      killed.go(optimizer, late);
      fs::remove(killed.options.folder + "/" + checkpoint_name(15));
      killed.options.resume = killed.options.folder;
      CHECK(read_file(killed.go(optimizer, never).checkpoint) == final_bytes);

      // Going on once it is done does nothing.
      whole.options.resume = whole.options.folder;
      CHECK(whole.go(optimizer, never).step == 20);
      CHECK(read_file(expected.checkpoint) == final_bytes);
    }
  }

  TEST_CASE("a validation that was cut short is made when the run goes on, as if it never was") {
    const TemporaryFolder folder;
    StopAt never(-1);
    const auto run_in = [&](const std::string& name) {
      auto run = std::make_unique<TinyRun>();
      run->options.folder = folder / name;
      run->options.keep = 9;
      run->stop_in(-1, -1);
      return run;
    };
    const auto whole = run_in("whole");
    const LoopResult expected = whole->go("adam", never);
    const std::vector<std::string> log = timeless_log(folder / "whole/metrics.jsonl");
    // Validations of two batches, at 4, 8, 12, 16 and 20; checkpoints at 0, 6, 12, 18 and 20.
    struct Cut {
      int batch, writing;
      int64_t step;
    };
    for (const Cut& cut : {Cut{1, -1, 4}, Cut{-1, 2, 8}, Cut{5, -1, 12}, Cut{-1, 3, 12},
                           Cut{9, -1, 20}, Cut{-1, 5, 20}}) {
      CAPTURE(cut.batch);
      CAPTURE(cut.writing);
      const std::string name = text("cut", cut.batch, cut.writing);
      const auto part = run_in(name);
      part->stop_in(cut.batch, cut.writing);
      const LoopResult stopped = part->go("adam", never);
      CHECK(stopped.stopped);
      CHECK(stopped.step == cut.step);
      const std::string newest = find_checkpoint(part->options.folder);
      CHECK(newest == folder / (name + "/" + checkpoint_name(cut.step)));
      CHECK(read_state(Safetensors(newest)).owes_validation);
      part->options.resume = part->options.folder;
      part->stop_in(1, -1);  // and again
      CHECK(part->go("adam", never).stopped);
      CHECK(read_state(Safetensors(newest)).owes_validation);
      // Made, told, and killed before it is saved.
      std::ofstream(part->options.folder + "/metrics.jsonl", std::ios::app)
          << text("{\"step\": ", cut.step, ", \"split\": \"validation\", \"loss\": 1}\n");
      part->stop_in(-1, -1);
      const LoopResult resumed = part->go("adam", never);
      CHECK_FALSE(resumed.stopped);
      CHECK(resumed.validation_loss == expected.validation_loss);
      CHECK(timeless_log(part->options.folder + "/metrics.jsonl") == log);
      for (int64_t step : {0, 6, 12, 18, 20}) {
        const std::string file = "/" + checkpoint_name(step);
        CHECK(read_file(part->options.folder + file) == read_file(whole->options.folder + file));
      }
    }
  }

  TEST_CASE("a run goes on only as what it was") {
    const TemporaryFolder folder;
    TinyRun run;
    run.options.folder = folder / "run";
    StopAt at(9);
    run.go("adam", at);
    CHECK(has(error_of(ErrorKind::input, [&] { run.go("adam", at); }),
              "holds a run already, saved at step 9"));

    const auto refused = [&](const std::string& optimizer, const auto& change) {
      TinyRun other;
      other.options.folder = other.options.resume = folder / "run";
      change(other);
      return error_of(ErrorKind::input, [&] { other.go(optimizer, at); });
    };
    CHECK(
        has(refused("adafactor", [](TinyRun&) {}), "its optimizer was adam, and is adafactor now"));
    CHECK(has(refused("adam", [](TinyRun& r) { r.options.step.seed = 3; }),
              "its seed was 11, and is 3"));
    CHECK(has(refused("adam", [](TinyRun& r) { r.options.step.shards = 1; }),
              "shards was 2, and is 1"));
    CHECK(has(refused("adam", [](TinyRun& r) { r.options.step.batch = 5; }),
              "batch was 4, and is 5"));
    CHECK(has(
        refused("adam",
                [](TinyRun& r) { r.data = TextData(Tokens(tiny_text() + "how", r.tokenizer), 8); }),
        "its data"));
    CHECK(has(
        refused("adam",
                [&](TinyRun& r) { r.options.resume = folder / "run/step-00000006.safetensors"; }),
        "step-00000009.safetensors is newer"));
    CHECK(has(
        refused("adam", [](TinyRun& r) { r.tokenizer = Tokenizer::characters(tiny_text() + "Z"); }),
        "its vocabulary differs from the text's"));
    CHECK(refused("adam", [](TinyRun& r) { r.options.log_every = 0; }) ==
          "the log needs an interval of at least 1 step, got 0");
    // A branch: another folder may go on from any checkpoint.
    TinyRun branch;
    branch.options.folder = folder / "branch";
    branch.options.resume = folder / "run/step-00000006.safetensors";
    StopAt eight(8);
    CHECK(branch.go("adam", eight).step == 8);
    CHECK(saved_steps(folder / "branch") == std::vector<int64_t>{8});
  }

  TEST_CASE("when the numbers go wrong the state before is saved") {
    const TemporaryFolder folder;
    TinyRun run;
    run.options.folder = folder / "run";
    run.model.poison_from = 4 * 7;
    StopAt reporter(-1);
    const std::string sentence =
        error_of(ErrorKind::numbers, [&] { run.go("adafactor", reporter); });
    CHECK(has(sentence, "in step 8: "));
    CHECK(has(sentence, "'H', f32[2, 8, 130]"));
    CHECK(has(sentence, "saved in " + folder / "run/step-00000007.safetensors"));
    // With the cause gone the run goes on, to the end that it would have had.
    TinyRun whole;
    whole.options.folder = folder / "whole";
    run.model.poison_from = 1e9;
    run.options.resume = run.options.folder;
    CHECK(read_file(run.go("adafactor", reporter).checkpoint) ==
          read_file(whole.go("adafactor", reporter).checkpoint));
  }

  TEST_CASE("a run without a folder writes nothing") {
    TinyRun run;
    StopAt reporter(-1);
    const LoopResult result = run.go("adafactor", reporter);
    CHECK(result.checkpoint == "");
    CHECK(result.validation_loss < 4);
    CHECK(reporter.saved_paths.empty());
    run.options.schedule.steps = 0;
    CHECK_THROWS_AS(run.go("adam", reporter), Error);
  }
}
