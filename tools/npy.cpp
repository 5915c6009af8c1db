#include "tools/npy.hpp"

#include "core/ops.hpp"
#include "train/safetensors.hpp"

namespace tete {

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t max_header = 65536;  // version 1.0 cannot have more

// Reads the dictionary of a header: three keys, in any order, as NumPy writes and accepts them.
class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  void read() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") descr = quoted();
      else if (key == "fortran_order") fortran = truth();
      else if (key == "shape") sizes();
      else refuse(text("has the unknown key '", key, "'"));
      if (!accept(',') && peek() != '}') refuse("has a header that is not a dictionary");
    }
    if (descr.empty() || !has_shape_ || !has_order_)
      refuse("lacks 'descr', 'fortran_order' or 'shape' in its header");
  }

  std::string_view descr;
  bool fortran = false;
  Shape shape;

 private:
  [[noreturn]] void refuse(std::string_view what) const { bad_input("'", path_, "' ", what); }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) { return peek() == c ? ++at_, true : false; }
  void expect(char c) {
    if (!accept(c)) refuse("has a header that is not a dictionary of plain fields");
  }
  std::string_view quoted() {
    const char quote = peek() == '"' ? '"' : '\'';
    if (peek() == '[') refuse("holds structured records, not numbers");
    expect(quote);
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) refuse("has a header with an open string");
    const std::string_view inside = text_.substr(at_, end - at_);
    at_ = end + 1;
    return inside;
  }
  bool truth() {
    has_order_ = true;
    peek();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_, word.size()) == word) return at_ += word.size(), word == "True";
    refuse("has a 'fortran_order' that is neither True nor False");
  }
  void sizes() {
    has_shape_ = true;
    shape = {};
    expect('(');
    while (!accept(')')) {
      Index size = 0;
      if (peek() < '0' || peek() > '9') refuse("has a shape with something else than sizes in it");
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, text_[at_] - '0', &size))
          refuse("has a size that does not fit in 63 bits");
      if (shape.size() == max_rank) refuse(text("has more than ", max_rank, " dimensions"));
      shape.push_back(size);
      if (!accept(',') && peek() != ')') refuse("has a shape that is not a tuple");
    }
  }

  const std::string& path_;
  std::string_view text_;
  size_t at_ = 0;
  bool has_shape_ = false, has_order_ = false;
};

size_t little_endian(std::string_view bytes) {
  size_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

Dtype dtype_of_descr(const std::string& path, std::string_view descr) {
  if (descr == "<f4") return Dtype::f32;
  if (descr == "<f8") return Dtype::f64;
  if (descr.starts_with('>'))
    bad_input("'", path, "' holds big-endian numbers ('", descr, "'); expected '<f4' or '<f8'");
  bad_input("'", path, "' holds '", descr, "'; expected '<f4' or '<f8' (float32 or float64)");
}

Strides column_major(const Shape& shape) {
  Strides strides(shape.size(), 1);
  for (int i = 1; i < shape.size(); ++i)
    strides[i] = strides[i - 1] * std::max<Index>(1, shape[i - 1]);
  return strides;
}

}  // namespace

Tensor read_npy(const std::string& path) {
  const File file = open_regular_file(path);
  const size_t size = file_size(file);
  std::string start(std::min<size_t>(size, 12), '\0');
  read_at(file, path, 0, start.data(), start.size());
  if (!start.starts_with(magic) || size < 10) bad_input("'", path, "' is not a .npy file");
  const unsigned version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3)
    bad_input("'", path, "' is .npy version ", version, "; versions 1 to 3 are read");
  const size_t prefix = version == 1 ? 10 : 12;
  if (size < prefix) bad_input("'", path, "' ends inside its header");
  const size_t length = little_endian(std::string_view(start).substr(8, prefix - 8));
  if (length > max_header)
    bad_input("'", path, "' has a header of ", length, " bytes; expected at most ", max_header);
  if (length > size - prefix) bad_input("'", path, "' ends inside its header");
  std::string header_text(length, '\0');
  read_at(file, path, prefix, header_text.data(), length);
  HeaderReader header(path, header_text);
  header.read();
  const Dtype dtype = dtype_of_descr(path, header.descr);
  const std::optional<Index> count = element_count_that_fits(header.shape);
  if (!count) bad_input("'", path, "' has the shape ", header.shape, ", which is too large");
  const size_t expected = static_cast<size_t>(*count) * size_of(dtype);
  if (size - prefix - length != expected)
    bad_input("'", path, "' has ", size - prefix - length, " bytes of numbers, but ",
              describe(dtype, header.shape), " needs ", expected);
  const Tensor x = Tensor::empty_strided(
      header.shape, header.fortran ? column_major(header.shape) : row_major(header.shape), dtype);
  read_at(file, path, prefix + length, x.host_bytes().data(), expected);
  return x;
}

void write_npy(const std::string& path, const Tensor& x) {
  if (!is_real(x.dtype()))
    bad_input("'", path, "': .npy files of f32 and f64 are written, not of ", name_of(x.dtype()));
  std::string header = text("{'descr': '", x.dtype() == Dtype::f32 ? "<f4" : "<f8",
                            "', 'fortran_order': False, 'shape': (");
  for (Index size : x.shape()) header += text(size, ", ");
  header += "), }";
  header.append(63 - (magic.size() + 4 + header.size()) % 64, ' ');
  header += '\n';
  const Tensor dense = row_major_copy(x);
  const std::string start = text(magic, '\x01', '\0', static_cast<char>(header.size() & 255),
                                 static_cast<char>(header.size() >> 8), header);
  const std::string_view data = bytes_of(dense);
  write_file(path, start.size() + data.size(), [&](const Write& write) {
    write(start);
    write(data);
  });
}

}  // namespace tete
