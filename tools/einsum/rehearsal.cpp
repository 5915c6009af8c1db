#include "tools/einsum/rehearsal.hpp"

#include <set>

namespace tete {

// Addresses are handed out but never followed.
class Rehearsal::Device final : public Backend {
 public:
  const char* name() const override { return "rehearsal"; }

  void* allocate(size_t bytes) override {
    char* const made = next_;
    next_ += (bytes + 127) / 64 * 64;
    return made;
  }
  void release(void*, size_t) noexcept override {}
  void read(const void*, void*, size_t) override {
    bad_input("a rehearsal has shapes and no numbers to read");
  }
  void write(const void*, void*, size_t) override {}

  void unary(Unary, const View& x, const View& y) override { note("elementwise", {x, y}); }
  void unary_gradient(Unary, const View& x, const View& y, const View& g, const View& dx) override {
    note("elementwise", {x, y, g, dx});
  }
  void binary(Binary op, const View& a, const View& b, const View& y) override {
    KernelCall& call = note("elementwise", {a, b, y});
    if (op == Binary::mul) call.multiplies = static_cast<double>(y.size());
  }
  void select(const View& c, const View& a, const View& b, const View& y) override {
    note("elementwise", {c, a, b, y});
  }
  void fill(double, const View& y) override { note("fill", {y}); }
  void copy(const View& x, const View& y) override { note("copy", {x, y}); }
  void fold(Fold, const View& x, const View& y) override {
    note("reduce", {x, y}).shape = text(y.size(), " of ", y.size() ? x.size() / y.size() : 0);
  }
  void contract(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                const Labels& y) override {
    const ContractionNote described = cpu_kernels::describe_contraction(A, a, B, b, Y, y);
    KernelCall& call = note(described.form, {A, B, Y});
    call.shape = described.shape;
    call.copies = described.copies;
    call.multiplies = loop_size(A, a, B, b);
    const Labels* const labels[] = {&a, &b, &y};
    for (size_t i = 0; i < 3; ++i) call.operands[i].labels = *labels[i];
    std::vector<Storage> held;
    for (const ContractionNote::Copy& copy : described.copies) {
      call.bytes += 2 * static_cast<double>(copy.bytes);
      held.emplace_back(*this, copy.bytes);
    }
  }
  bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                      const Labels& y) const override {
    return cpu().contracts_bf16(A, a, B, b, Y, y);
  }
  void gather(const View& T, const Labels&, const View& I, const Labels&, Label, const View& Y,
              const Labels&) override {
    note("gather", {T, I, Y});
  }
  void scatter(const View& G, const Labels&, const View& I, const Labels&, Label, const View& T,
               const Labels&) override {
    note("scatter", {G, I, T});
  }
  void check_inside(const View&, Index, Refuse) override {}
  void uniform(uint64_t, uint64_t, const View& y) override { note("random", {y}); }

  void name(const void* address, const std::string& name) { names_[address] = name; }
  std::vector<KernelCall> calls;

 private:
  // The product of the sizes of all labels: a dimension that repeats one element counts too.
  static double loop_size(const View& A, const Labels& a, const View& B, const Labels& b) {
    double size = static_cast<double>(A.size());
    for (int i = 0; i < b.size(); ++i)
      if (!a.contains(b[i])) size *= static_cast<double>(B.shape[i]);
    return size;
  }

  // Elements that a view really has: a repeated one is read once.
  static double bytes_of(const View& view) {
    double bytes = static_cast<double>(size_of(view.dtype));
    for (int i = 0; i < view.shape.size(); ++i)
      if (view.strides[i] != 0) bytes *= static_cast<double>(view.shape[i]);
    return bytes;
  }

  // The last view is written.
  KernelCall& note(const std::string& form, std::initializer_list<View> views) {
    KernelCall call{.form = form, .shape = text(views.end()[-1].size(), " elements")};
    name_result(views.end()[-1].data);
    for (const View& view : views) {
      call.bytes += bytes_of(view);
      call.operands.push_back({name_at(view.data), view.shape});
    }
    return calls.emplace_back(std::move(call));
  }

  // Written memory gets the next name, unless the call before wrote it, too, or it has one for
  // good.
  void name_result(const void* written) {
    const bool again = written == last_written_;
    last_written_ = written;
    if (again || (names_.contains(written) && !temporaries_.contains(written))) return;
    names_[written] = text("T", ++made_);
    temporaries_.insert(written);
  }

  // Views begin at one of the addresses in names_, or behind it.
  std::string name_at(const void* address) const {
    const auto after = names_.upper_bound(address);
    return after == names_.begin() ? "?" : std::prev(after)->second;
  }

  static constexpr uintptr_t first_address = uintptr_t{1} << 56;  // no memory lies there
  char* next_ = reinterpret_cast<char*>(first_address);
  std::map<const void*, std::string> names_;
  std::set<const void*> temporaries_;
  const void* last_written_ = nullptr;
  int made_ = 0;
};

Rehearsal::Rehearsal() : device_(std::make_unique<Device>()) { reset_peak(); }
Rehearsal::~Rehearsal() { release_free_memory(*device_); }

Tensor Rehearsal::tensor(const Shape& shape, Dtype dtype, const std::string& name) {
  const Tensor made = Tensor::empty(shape, dtype, *device_);
  if (!name.empty()) device_->name(made.storage().data(), name);
  return made;
}

Tensor Rehearsal::like(const Tensor& x, const std::string& name) {
  Index reach = x.size() ? 1 : 0;
  for (int i = 0; i < x.rank() && x.size(); ++i) reach += (x.size(i) - 1) * x.strides()[i];
  return tensor({reach}, x.dtype(), name).window(x.shape(), x.strides());
}

const std::vector<KernelCall>& Rehearsal::calls() const { return device_->calls; }
void Rehearsal::forget_calls() { device_->calls.clear(); }
size_t Rehearsal::peak_bytes() const { return memory_use(*device_).peak; }
void Rehearsal::reset_peak() { reset_peak_memory(*device_); }

}  // namespace tete
