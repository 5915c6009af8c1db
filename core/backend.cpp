// The parts of Backend that a device may leave as they are.
#include "core/backend.hpp"

#include <stdexcept>

#include "core/storage.hpp"

namespace tete {

namespace {

[[noreturn]] void lacks(const Backend& device, const char* kernel) {
  throw std::logic_error(text("the device '", device.name(), "' has no kernel for ", kernel));
}

}  // namespace

void Backend::softmax(const View&, const View&, int, const View&) { lacks(*this, "softmax"); }
void Backend::softmax_gradient(const View&, const View&, int, const View&) {
  lacks(*this, "softmax");
}
void Backend::norm(const View&, const View&, const View&, bool, double, const View&, const View&) {
  lacks(*this, "norms");
}
void Backend::add_norm(const View&, const View&, const View&, const View&, bool, double,
                       const View&, const View&, const View&) {
  lacks(*this, "norms");
}
void Backend::norm_gradient(const View&, const View&, const View&, const View&, bool, const View&,
                            const View&, const View&) {
  lacks(*this, "norms");
}
void Backend::cross_entropy(const View&, const View&, const View&, const View&) {
  lacks(*this, "cross_entropy");
}
void Backend::cross_entropy_gradient(const View&, const View&, const View&, const View&,
                                     const View&) {
  lacks(*this, "cross_entropy");
}
void Backend::unary_of_sum(Unary, const View&, const View&, const View&) {
  lacks(*this, "unary_of_sum");
}
void Backend::unary_of_sum_gradient(Unary, const View&, const View&, const View&, const View&,
                                    const View&) {
  lacks(*this, "unary_of_sum");
}
void Backend::dropout(const View&, double, uint64_t, uint64_t, const View&) {
  lacks(*this, "dropout");
}

void Backend::accumulate(const View& x, const View& y) {
  const Storage beside(*this, static_cast<size_t>(y.size()) * size_of(y.dtype));
  const View sum{y.dtype, y.shape, row_major(y.shape), beside.data()};
  binary(Binary::add, x, y, sum);
  copy(sum, y);
}

}  // namespace tete
