#include "train/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/fused.hpp"
#include "train/checksum.hpp"

namespace tete {

namespace {

constexpr size_t max_header = 100'000'000, max_tensors = 1'000'000, max_name = 1024;
constexpr size_t alignment = 64;
// The header's own checksum stands behind this; quotes inside a string would be escaped.
constexpr std::string_view checksum_field = R"("checksum":")";
constexpr std::string_view no_checksum = "0000000000000000";

float half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign *
         std::ldexp(float(exponent == 0 ? fraction : fraction + 1024), std::max(exponent, 1) - 25);
}
float brain(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
int64_t truth(uint8_t byte) { return byte != 0; }

template <class From, auto convert>
void each(const std::string& from, const Tensor& to) {
  auto* y = reinterpret_cast<decltype(convert(From{}))*>(to.host_bytes().data());
  for (size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From x;
    std::memcpy(&x, from.data() + i * sizeof x, sizeof x);
    y[i] = convert(x);
  }
}
template <class From>
constexpr auto integers = each<From, [](From x) { return int64_t{x}; }>;

// How an element is stored; `convert` fills a tensor from elements that it cannot hold as they are.
struct FileType {
  const char* name;
  size_t bytes;
  Dtype dtype;
  void (*convert)(const std::string& from, const Tensor& to) = nullptr;
};
constexpr FileType file_types[] = {
    {"F32", 4, Dtype::f32},
    {"F64", 8, Dtype::f64},
    {"I64", 8, Dtype::i64},
    {"F16", 2, Dtype::f32, each<uint16_t, half>},
    {"BF16", 2, Dtype::f32, each<uint16_t, brain>},
    {"BOOL", 1, Dtype::i64, each<uint8_t, truth>},
    {"U8", 1, Dtype::i64, integers<uint8_t>},
    {"I8", 1, Dtype::i64, integers<int8_t>},
    {"I16", 2, Dtype::i64, integers<int16_t>},
    {"I32", 4, Dtype::i64, integers<int32_t>},
};

const char* file_name_of(Dtype dtype) {
  for (const FileType& type : file_types)
    if (type.dtype == dtype) return type.name;
  return "";
}

std::string little_endian(uint64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

// ---- Writing ---------------------------------------------------------------------------------

// The length, and the header with every checksum in place.
std::string make_header(Metadata metadata, const TensorSources& tensors) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  size_t at = 0;
  for (const TensorSource& tensor : tensors) {
    const Tensor value = row_major_copy(tensor.value());
    metadata["checksum/" + tensor.name] = hexadecimal(checksum(bytes_of(value)));
    const std::vector<Index> shape(tensor.shape.begin(), tensor.shape.end());
    const size_t end = at + bytes_of(value).size();
    entries[tensor.name] = {
        {"dtype", file_name_of(tensor.dtype)}, {"shape", shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  metadata["checksum"] = no_checksum;
  nlohmann::ordered_json header = {{"__metadata__", metadata}};
  header.update(entries);
  std::string json;
  try {
    json = header.dump();
  } catch (const nlohmann::json::exception&) {
    bad_input("the names and texts of a file must be UTF-8");
  }
  while ((json.size() + 8) % alignment != 0) json += ' ';
  std::string all = little_endian(json.size()) + json;
  const size_t field = all.find(checksum_field) + checksum_field.size();
  return all.replace(field, no_checksum.size(), hexadecimal(checksum(all)));
}

// ---- Reading ---------------------------------------------------------------------------------

struct RawEntry {
  std::string name, dtype;
  std::vector<uint64_t> shape, offsets;
  std::set<std::string> fields;
};

// Follows the JSON of a header, and stops at the first thing that no header has.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<RawEntry> entries;
  Metadata metadata;
  std::string problem;

  bool null() override { return unexpected("a null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(number_integer_t n) override { return unexpected(text("the number ", n)); }
  bool number_float(number_float_t, const std::string& digits) override {
    return unexpected("the number " + digits.substr(0, 40));
  }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t n) override {
    if (depth_ != 3) return unexpected(text("the number ", n));
    std::vector<uint64_t>& list = numbers();
    list.push_back(n);
    if (list.size() > size_t{max_rank})
      return refuse(text("more than ", max_rank, " numbers in a list"));
    return true;
  }

  bool string(std::string& value) override {
    if (depth_ != 2) return unexpected("a string");
    if (in_metadata_) return metadata[key_] = std::move(value), true;
    if (key_ != "dtype") return unexpected("a string");
    entries.back().dtype = value.substr(0, 40);
    return true;
  }

  bool start_object(size_t) override {
    if (++depth_ > 2) return --depth_, unexpected("an object");
    if (depth_ == 2 && !in_metadata_) entries.push_back({key_, {}, {}, {}, {}});
    return true;
  }
  bool end_object() override { return --depth_, in_metadata_ = false, true; }

  bool start_array(size_t) override {
    if (++depth_ != 3 || in_metadata_ || key_ == "dtype") return --depth_, unexpected("a list");
    return true;
  }
  bool end_array() override { return --depth_, true; }

  bool key(std::string& name) override {
    if (name.size() > max_name && !in_metadata_)
      return say("its header has a name of over 1024 bytes");
    key_ = name;
    if (depth_ == 1) {
      if (!names_.insert(name).second) return twice(name);
      if (names_.size() > max_tensors) return refuse("more than a million tensors");
      in_metadata_ = name == "__metadata__";
      return in_metadata_ || good_name(name) ||
             say(text("its header has the name '", name, "', which is empty, no text, or a path"));
    }
    if (in_metadata_) return metadata.emplace(name, "").second || twice(name);
    const bool known = name == "dtype" || name == "shape" || name == "data_offsets";
    if (!known)
      return say(text("tensor '", entries.back().name, "' has the unknown field '",
                      name.substr(0, 40), "'; expected dtype, shape and data_offsets"));
    return entries.back().fields.insert(name).second || twice(name);
  }

  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    if (problem.empty()) problem = text("its header is not JSON at byte ", 8 + at);
    return false;
  }

 private:
  static bool good_name(const std::string& name) {
    const bool control =
        std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 32 || c == 127; });
    const bool climbs = name.find("../") != std::string::npos || name.starts_with('/');
    return !name.empty() && !control && !climbs;
  }
  bool say(const std::string& sentence) { return problem = sentence, false; }
  bool refuse(const std::string& what) {
    return say("its header has " + what + (key_.empty() ? "" : " at '" + key_.substr(0, 80) + "'"));
  }
  bool twice(const std::string& name) { return say("its header has '" + name + "' twice"); }
  // Refuses a value that is of another kind than its place holds.
  bool unexpected(const std::string& what) {
    refuse(what);
    problem += text(", expected ", in_metadata_                    ? "a string"
                                   : depth_ < 2                    ? "an object"
                                   : key_ == "dtype"               ? "a string"
                                   : key_ == "shape" && depth_ > 2 ? "sizes"
                                   : depth_ > 2                    ? "numbers of bytes"
                                                                   : "a list");
    return false;
  }
  std::vector<uint64_t>& numbers() {
    return key_ == "shape" ? entries.back().shape : entries.back().offsets;
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  std::string key_;
  std::set<std::string> names_;
};

// The entry, once every field of it is known to be there and to agree with the others; else says
// what is wrong.
std::string check_entry(const RawEntry& raw, Safetensors::Entry& entry) {
  const std::string of = " of tensor '" + raw.name + "'";
  if (raw.fields.size() != 3) return "dtype, shape or data_offsets" + of + " is missing";
  const FileType* type = find_named(raw.dtype, file_types);
  if (!type)
    return "the dtype" + of + " is '" + raw.dtype + "'; what can be read is " +
           list_of(file_types, [](const FileType& t) { return t.name; });
  uint64_t bytes = type->bytes;
  bool overflow = false;
  for (uint64_t size : raw.shape) {
    overflow |= size > (uint64_t{1} << 62) ||
                __builtin_mul_overflow(bytes, std::max<uint64_t>(1, size), &bytes);
    entry.shape.push_back(static_cast<Index>(size));
  }
  if (overflow || bytes > (uint64_t{1} << 60)) return "the shape" + of + " is too large";
  if (std::count(raw.shape.begin(), raw.shape.end(), 0u) > 0) bytes = 0;
  if (raw.offsets.size() != 2 || raw.offsets[0] > raw.offsets[1])
    return "the data_offsets" + of + " are not a beginning and an end";
  entry.name = raw.name, entry.dtype = type->dtype, entry.stored = type->name;
  entry.begin = raw.offsets[0], entry.end = raw.offsets[1];
  if (entry.end - entry.begin != bytes)
    return text("the shape", of, " takes ", bytes, " bytes, but its data_offsets span ",
                entry.end - entry.begin);
  return "";
}

}  // namespace

Tensor row_major_copy(const Tensor& x) {
  const Tensor y = x.is_row_major() ? x : Tensor::empty(x.shape(), x.dtype(), x.backend());
  if (!y.same(x)) copy_onto(x, y);
  return y.to(cpu());
}

std::string_view bytes_of(const Tensor& x) {
  return {reinterpret_cast<const char*>(x.host_bytes().data()), x.host_bytes().size()};
}

// Calls `put` with the size of the file and with what writes it.
static void with_file(
    const Metadata& metadata, TensorSources tensors,
    const std::function<void(size_t bytes, const std::function<void(const Write&)>& fill)>& put) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSource& a, const TensorSource& b) {
    const size_t size_a = size_of(a.dtype), size_b = size_of(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].name == tensors[i - 1].name)
      bad_input("two tensors of one file are named '", tensors[i].name, "'");
  const std::string header = make_header(metadata, tensors);
  size_t bytes = header.size();
  for (const TensorSource& tensor : tensors)
    bytes += size_of(tensor.dtype) * static_cast<size_t>(element_count(tensor.shape));
  put(bytes, [&](const Write& write) {
    write(header);
    for (const TensorSource& tensor : tensors) {
      const Tensor value = row_major_copy(tensor.value());
      write(bytes_of(value));
    }
  });
}

TensorSources sources_of(const NamedTensors& tensors) {
  TensorSources sources;
  for (const auto& [name, value] : tensors)
    sources.push_back({name, value.dtype(), value.shape(), [kept = value] { return kept; }});
  return sources;
}

void write_safetensors(const std::string& path, const Metadata& metadata,
                       const NamedTensors& tensors) {
  with_file(metadata, sources_of(tensors),
            [&](size_t bytes, const auto& fill) { write_file(path, bytes, fill); });
}

void replace_safetensors(const std::string& folder, const std::string& name,
                         const Metadata& metadata, TensorSources tensors) {
  with_file(metadata, std::move(tensors),
            [&](size_t bytes, const auto& fill) { replace_file(folder, name, bytes, fill); });
}

Safetensors::Safetensors(const std::string& path, Trust trust)
    : path_(path), trust_(trust), file_(open_regular_file(path)) {
  read_header();
}

void Safetensors::reject(const std::string& reason) const {
  bad_input(path_,
            trust_ == Trust::ours ? " is not a whole checkpoint: " : " cannot be read: ", reason);
}

void Safetensors::read_header() {
  const size_t size = file_size(file_);
  if (size < 10) reject(text("it has only ", size, " bytes, expected at least 10"));
  uint64_t length = 0;
  read_at(file_, path_, 0, &length, 8);
  if (length > size - 8)
    reject(text("its header should be ", length, " bytes long, in a file of ", size));
  if (length > max_header)
    reject(text("its header is ", length, " bytes long, expected at most ", max_header));
  std::string all(8 + length, '\0');
  read_at(file_, path_, 0, all.data(), all.size());
  if (length < 2 || all[8] != '{')
    reject("its header does not begin with '{', as that of a safetensors file does");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(all.begin() + 8, all.end(), &reader))
    reject(reader.problem.empty() ? "its header is not JSON" : reader.problem);

  data_start_ = all.size();
  metadata_ = std::move(reader.metadata);
  for (const RawEntry& raw : reader.entries) {
    const std::string problem = check_entry(raw, entries_.emplace_back());
    if (!problem.empty()) reject(problem);
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  size_t at = 0;
  for (const Entry& entry : entries_) {
    if (entry.begin != at)
      reject(text("tensor '", entry.name, "' begins at byte ", entry.begin, " of the data, where ",
                  at, " was expected"));
    at = entry.end;
  }
  if (at != size - data_start_)
    reject(text("its tensors take ", at, " bytes, but ", size - data_start_, " follow the header"));

  const size_t field = all.find(checksum_field);
  if (field == std::string::npos) {
    if (trust_ == Trust::ours) reject("it carries no checksum, so another program wrote it");
    return;
  }
  const size_t digits = field + checksum_field.size();
  const std::string expected = all.substr(digits, no_checksum.size());
  if (digits + no_checksum.size() > all.size()) reject("its checksum is cut off");
  all.replace(digits, no_checksum.size(), no_checksum);
  if (hexadecimal(checksum(all)) != expected)
    reject("the checksum of its header differs: the file is damaged");
}

const std::string& Safetensors::metadata(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) reject("it does not say its '" + key + "'");
  return found->second;
}

const Safetensors::Entry* Safetensors::find(const std::string& name) const {
  return find_named(name, entries_);
}

Tensor Safetensors::read(const Entry& entry) const {
  Tensor value = Tensor::empty(entry.shape, entry.dtype);
  const FileType& type = *find_named(entry.stored, file_types);
  std::string foreign(type.convert ? entry.end - entry.begin : 0, '\0');
  void* const to = type.convert ? static_cast<void*>(foreign.data()) : value.host_bytes().data();
  read_at(file_, path_, data_start_ + entry.begin, to, entry.end - entry.begin);
  const auto expected = metadata_.find("checksum/" + entry.name);
  if (expected == metadata_.end()) {
    if (trust_ == Trust::ours) reject("tensor '" + entry.name + "' carries no checksum");
  } else if (expected->second != hexadecimal(checksum(type.convert ? foreign : bytes_of(value)))) {
    reject("the checksum of tensor '" + entry.name + "' differs: the file is damaged");
  }
  if (type.convert) type.convert(foreign, value);
  return value;
}

Tensor Safetensors::read(const std::string& name) const {
  const Entry* entry = find(name);
  if (!entry) reject("it has no tensor '" + name + "'");
  return read(*entry);
}

NamedTensors Safetensors::read_all() const {
  NamedTensors all;
  for (const Entry& entry : entries_) all.push_back({entry.name, read(entry)});
  return all;
}

void Safetensors::verify() const {
  for (const Entry& entry : entries_) read(entry);
}

}  // namespace tete
