// .npy files: what NumPy writes is read, what is written is read again, and what is no such file is
// refused with its reason.
#include "tools/npy.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/ops.hpp"
#include "tests/temporary_folder.hpp"
#include "train/files.hpp"

using namespace tete;
using tete::tests::TemporaryFolder;
using namespace std::string_literals;

namespace {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A file as NumPy lays it out: the header is padded so that the numbers begin at a multiple of 64.
std::string file_of(std::string header, const std::string& numbers, int version = 1) {
  const size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  const uint32_t length = static_cast<uint32_t>(header.size());
  std::string start = "\x93NUMPY";
  start += static_cast<char>(version), start += '\0';
  start.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return start + header + numbers;
}

std::string header_of(const char* descr, bool fortran, const char* shape) {
  return text("{'descr': '", descr, "', 'fortran_order': ", fortran ? "True" : "False",
              ", 'shape': ", shape, ", }");
}

}  // namespace

TEST_SUITE("npy") {
  TEST_CASE("what NumPy writes is read: f4 and f8, C and Fortran order, every version") {
    const TemporaryFolder folder;
    const std::vector<double> c_order{1, 2, 3, 4, 5, 6}, fortran_order{1, 4, 2, 5, 3, 6};
    for (int version : {1, 2, 3})
      for (bool fortran : {false, true}) {
        const std::vector<double>& lie = fortran ? fortran_order : c_order;
        const Tensor f8 = read_npy(folder.file(
            "a.npy", file_of(header_of("<f8", fortran, "(2, 3)"), bytes_of(lie), version)));
        const Tensor f4 = read_npy(folder.file(
            "a.npy", file_of(header_of("<f4", fortran, "(2, 3)"),
                             bytes_of(std::vector<float>(lie.begin(), lie.end())), version)));
        CHECK(f8.dtype() == Dtype::f64);
        CHECK(f4.dtype() == Dtype::f32);
        for (const Tensor& x : {f8, f4}) {
          CHECK(x.shape() == Shape{2, 3});
          CHECK(x.values() == c_order);
        }
      }
    const Tensor number =
        read_npy(folder.file("a.npy", file_of(header_of("<f4", false, "()"), "\0\0 A"s)));
    CHECK(number.shape() == Shape{});
    CHECK(number.item() == 10);
    CHECK(read_npy(folder.file("a.npy", file_of(header_of("<f8", true, "(0, 3)"), ""))).shape() ==
          Shape{0, 3});
    CHECK(read_npy(folder.file("a.npy",
                               file_of("{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"<f4\"}",
                                       "\0\0 A"s)))
              .item() == 10);
  }

  TEST_CASE("what is written is read again, wherever it lay, aligned as NumPy's") {
    const TemporaryFolder folder;
    const std::string path = folder.path + "/b.npy";
    const Tensor x = random_normal({3, 5, 2}, Key(1));
    for (const Tensor& written :
         {x, permute(x, {2, 0, 1}), slice(x, 1, 1, 2, 2), cast(x, Dtype::f64),
          Tensor::scalar(2.5, Dtype::f64), Tensor::zeros({3, 0})}) {
      write_npy(path, written);
      const Tensor read = read_npy(path);
      CHECK(read.dtype() == written.dtype());
      CHECK(read.shape() == written.shape());
      CHECK(read.values() == written.values());
      const size_t numbers = static_cast<size_t>(written.size()) * size_of(written.dtype());
      CHECK((read_file(path).size() - numbers) % 64 == 0);
    }
    CHECK_THROWS_WITH_AS(write_npy(path, arange(3)), doctest::Contains("not of i64"), Error);
    CHECK_THROWS_WITH_AS(write_npy(folder.path + "/no/b.npy", x), doctest::Contains("/no"), Error);
  }

  TEST_CASE("what is no .npy file of float numbers is refused, each with its reason") {
    struct Case {
      std::string bytes;
      const char* reason;
    };
    const std::string good = header_of("<f4", false, "(2,)"), numbers(8, '\0');
    const auto shaped = [&](const char* shape) {
      return file_of(header_of("<f8", false, shape), "");
    };
    const Case cases[] = {
        {"", "is not a .npy file"},
        {"\x93NUMPY\x01", "is not a .npy file"},
        {"PK\x03\x04 a zip file of arrays", "is not a .npy file"},
        {file_of(good, numbers, 4), "is .npy version 4; versions 1 to 3 are read"},
        {file_of(good, numbers).substr(0, 40), "ends inside its header"},
        {"\x93NUMPY\x02\0\x10\0\0"s, "ends inside its header"},
        {"\x93NUMPY\x02\0\xff\xff\xff\xff"s,
         "has a header of 4294967295 bytes; expected at most 65536"},
        {file_of(good, "1234567"), "has 7 bytes of numbers, but f32[2] needs 8"},
        {file_of(good, "123456789"), "has 9 bytes of numbers, but f32[2] needs 8"},
        {file_of(header_of(">f8", false, "(2,)"), ""),
         "holds big-endian numbers ('>f8'); expected '<f4' or '<f8'"},
        {file_of(header_of("<i8", false, "(2,)"), ""),
         "holds '<i8'; expected '<f4' or '<f8' (float32 or float64)"},
        {file_of(header_of("|O", false, "(2,)"), ""),
         "holds '|O'; expected '<f4' or '<f8' (float32 or float64)"},
        {file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", ""),
         "holds structured records, not numbers"},
        {file_of("{'descr': '<f4', 'shape': (2,), }", ""),
         "lacks 'descr', 'fortran_order' or 'shape' in its header"},
        {file_of("{'descr': '<f4', 'more': '<f4'}", ""), "has the unknown key 'more'"},
        {file_of("[1]", ""), "has a header that is not a dictionary of plain fields"},
        {file_of("{'descr': '<f4' 'shape': (2,), }", ""), "has a header that is not a dictionary"},
        {file_of("{'descr': '<f4", ""), "has a header with an open string"},
        {file_of("{'descr': '<f4', 'fortran_order': 1}", ""),
         "has a 'fortran_order' that is neither True nor False"},
        {shaped("(-1,)"), "has a shape with something else than sizes in it"},
        {shaped("(1 2,)"), "has a shape that is not a tuple"},
        {shaped("(9223372036854775808,)"), "has a size that does not fit in 63 bits"},
        // 8 times these sizes is 0 in 64 bits: as many bytes as there are.
        {shaped("(2305843009213693952,)"),
         "has the shape [2305843009213693952], which is too large"},
        {shaped("(4294967296, 4294967296, 0)"),
         "has the shape [4294967296, 4294967296, 0], which is too large"},
        {shaped("(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)"),
         "has more than 16 dimensions"},
    };
    const TemporaryFolder folder;
    for (const Case& c : cases) {
      const std::string path = folder.file("a.npy", c.bytes);
      CAPTURE(c.reason);
      try {
        read_npy(path);
        FAIL_CHECK("it was read");
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::input);
        CHECK(error.what() == text("'", path, "' ", c.reason));
      }
    }
    CHECK_THROWS_WITH_AS(read_npy(folder.path), doctest::Contains("is a folder"), Error);
    CHECK_THROWS_WITH_AS(read_npy(folder.path + "/none.npy"), doctest::Contains("no file"), Error);
  }
}
