#include "tests/fuzz/targets.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <stdexcept>

#include "attention/catalog.hpp"
#include "core/ops.hpp"
#include "core/utf8.hpp"
#include "nn/run.hpp"
#include "tests/einsum_loop.hpp"
#include "tools/npy.hpp"
#include "train/safetensors.hpp"

namespace tete {

namespace {

[[noreturn]] void wrong(const std::string& what) { throw std::logic_error(what); }

// Runs what may refuse its input: with a sentence in plain UTF-8 that moves no cursor.
template <class Body>
void may_refuse(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string_view sentence = error.what();
    if (error.kind() != ErrorKind::input) wrong(text("not the input's fault: ", sentence));
    if (sentence.empty()) wrong("a refusal without a word");
    if (sentence.find_first_of("\x1b\a\b\r") != std::string::npos)
      wrong("a refusal that moves the cursor");
  }
}

// A file in memory that holds these bytes.
class FileOf {
 public:
  explicit FileOf(std::string_view bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("no file in memory");
  }
  ~FileOf() { close(descriptor_); }
  FileOf(const FileOf&) = delete;
  std::string path() const { return text("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

// ---- Patterns --------------------------------------------------------------------------------

// Sizes 0 to 3, by the name alone.
Index size_of_name(std::string_view name) {
  size_t sum = 0;
  for (char c : name) sum = sum * 5 + static_cast<unsigned char>(c);
  return sum % 7 == 0 ? 0 : 1 + static_cast<Index>(sum % 3);
}

// Operand i: its names' sizes, merged where they stand in ( ); '...' stands for i dimensions of
// size 2, at most three.
Shape shape_of_operand(const Pattern& pattern, int i) {
  Shape shape;
  const Term& term = pattern.operand(i);
  for (int k = 0; k <= term.size(); ++k) {
    if (pattern.ellipsis(i) == k)
      for (int d = 0; d < std::min(i, 3); ++d) shape.push_back(2);
    if (k == term.size()) break;
    const Index size = size_of_name(pattern.name(term[k].label));
    const bool merged = term[k].group >= 0 && k > 0 && term[k - 1].group == term[k].group;
    if (merged) shape.back() *= size;
    else shape.push_back(size);
  }
  return shape;
}

Tensor small_numbers(const Shape& shape, int seed) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 7 + static_cast<size_t>(seed) * 3) % 5) - 2;
  return Tensor::of<double>(shape, values);
}

// The einsum of a pattern that is taken, against the loop over every name. All numbers are small
// and whole, so the sums are exact.
void run_pattern(std::string_view bytes) {
  may_refuse([&] {
    const Pattern pattern = Pattern::parse(bytes);
    std::vector<Shape> shapes;
    Tensors operands;
    double points = 1;
    for (int i = 0; i < pattern.name_count(); ++i)
      points *= static_cast<double>(std::max<Index>(1, size_of_name(pattern.name(Label(i)))));
    for (int i = 0; i < pattern.operand_count(); ++i)
      shapes.push_back(shape_of_operand(pattern, i));
    for (const Shape& shape : shapes)
      points = std::max(points, static_cast<double>(element_count(shape)));
    if (points > 2000 || pattern.operand_count() > 6) return;
    for (size_t i = 0; i < shapes.size(); ++i)
      operands.push_back(small_numbers(shapes[i], static_cast<int>(i)));
    const Tensor y = einsum(pattern, operands);
    const EinsumLoop loop(bytes, shapes);
    std::vector<std::vector<double>> values;
    for (const Tensor& operand : operands) values.push_back(operand.values<double>());
    const auto totals = loop.run(values, std::vector<double>(loop.elements(loop.result), 1.0));
    if (!(y.shape() == loop.result_shape)) wrong(text("einsum gave the shape ", y.shape()));
    if (y.values<double>() != totals.result.value) wrong("einsum is not its sum");
  });
}

// ---- The notation ----------------------------------------------------------------------------

// The tensors that a text asks for, where all of them are small; otherwise none.
TensorsByName small_tensors(const Checked& program, SizeTable& sizes) {
  TensorsByName tensors;
  double points = 1;
  for (size_t dim = 0; dim < program.dimensions.size(); ++dim)
    points *= static_cast<double>(std::max<Index>(1, sizes.size(static_cast<int>(dim))));
  if (points > 50'000) return {};
  const auto add = [&](const std::string& name, const CheckedValue& value) {
    Shape shape;
    for (int dim : value.dims) shape.push_back(sizes.size(dim));
    const Tensor numbers = small_numbers(shape, static_cast<int>(tensors.size()));
    const bool positions = value.element != Element::real;
    tensors[name] = positions ? cast(numbers * 0.0, Dtype::i64) : numbers;
  };
  for (size_t i = 0; i < program.inputs.size(); ++i)
    add(program.input_names[i], program.values[program.inputs[i]]);
  for (const ParameterSpec& made : parameter_specs(program, sizes)) {
    if (points += static_cast<double>(element_count(made.spec.shape)); points > 50'000) return {};
    tensors[made.spec.name] = small_numbers(made.spec.shape, static_cast<int>(tensors.size()));
  }
  return tensors;
}

// Sizes for what the text leaves open, one after the other.
SizeTable small_sizes(const std::shared_ptr<const Checked>& program) {
  SizeTable sizes(program, {});
  for (size_t dim = 0; dim < program->dimensions.size(); ++dim)
    if (!sizes.find(static_cast<int>(dim)))
      sizes.set(static_cast<int>(dim), 2 + static_cast<Index>(dim % 2));
  return sizes;
}

void run_notation(std::string_view bytes) {
  may_refuse([&] {
    const auto program =
        std::make_shared<const Checked>(check(Program::parse(bytes), {}, catalogue()));
    SizeTable sizes = small_sizes(program);
    sizes.check_all();
    const TensorsByName tensors = small_tensors(*program, sizes);
    if (!tensors.empty()) run(program, tensors);
  });
}

// ---- Files -----------------------------------------------------------------------------------

void run_npy(std::string_view bytes) {
  const FileOf file(bytes);
  may_refuse([&] {
    const Tensor x = read_npy(file.path());
    if (static_cast<size_t>(x.size()) * size_of(x.dtype()) > bytes.size())
      wrong("more numbers than the file holds");
    x.values<double>();
  });
}

void run_safetensors(std::string_view bytes) {
  const FileOf file(bytes);
  for (const auto trust : {Safetensors::Trust::anyone, Safetensors::Trust::ours})
    may_refuse([&] {
      size_t total = 0;
      for (const auto& [name, value] : Safetensors(file.path(), trust).read_all())
        total += value.values<double>().size();
      if (total > bytes.size()) wrong("more numbers than the file holds");
    });
}

constexpr FuzzTarget targets[] = {{"pattern", run_pattern},
                                  {"notation", run_notation},
                                  {"npy", run_npy},
                                  {"safetensors", run_safetensors}};

}  // namespace

std::span<const FuzzTarget> fuzz_targets() { return targets; }

const FuzzTarget& fuzz_target(std::string_view name) {
  for (const FuzzTarget& target : targets)
    if (target.name == name) return target;
  bad_input("there is no fuzz target '", name, "'");
}

}  // namespace tete
