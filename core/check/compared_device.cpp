#include "core/check/compared_device.hpp"

#include <cfloat>
#include <cmath>
#include <string_view>

#include "core/arguments.hpp"
#include "core/error.hpp"
#include "core/storage.hpp"

namespace tete {

namespace {

// Views that are dense and on the host, with their memory.
struct Held {
  std::vector<Storage> memory = {};
  std::vector<View> views = {};

  // Adds one like `view`, with room for its numbers.
  View& add(const View& view, Dtype dtype) {
    memory.emplace_back(cpu(), std::max<size_t>(1, static_cast<size_t>(view.size())) * 8);
    views.push_back({dtype, view.shape, row_major(view.shape), memory.back().data()});
    return views.back();
  }
  // Adds an argument that the call does without: it has no memory.
  void add_none(const View& view) { views.push_back(view); }
};

// Copies of the device's views, read as the bytes that they lie in: its own copies may be wrong.
Held read_from(Backend& device, const std::vector<View>& views) {
  Held all;
  for (const View& view : views) {
    if (!view.data) {
      all.add_none(view);
      continue;
    }
    Index low = 0, high = 1;
    for (int d = 0; d < view.rank(); ++d) {
      const Index reach = std::max<Index>(0, view.shape[d] - 1) * view.strides[d];
      (reach < 0 ? low : high) += reach;
    }
    const auto size = static_cast<Index>(size_of(view.dtype));
    const Storage bytes(cpu(), static_cast<size_t>((high - low) * size));
    View& to = all.add(view, view.dtype);
    if (view.size() == 0) continue;
    device.read(static_cast<const char*>(view.data) + low * size, bytes.data(),
                static_cast<size_t>((high - low) * size));
    cpu().copy(
        {view.dtype, view.shape, view.strides, static_cast<char*>(bytes.data()) - low * size}, to);
  }
  return all;
}

// The same numbers in other types.
Held converted(const Held& from, const std::function<Dtype(Dtype)>& dtype) {
  Held all;
  for (const View& view : from.views) {
    if (view.data) cpu().copy(view, all.add(view, dtype(view.dtype)));
    else all.add_none(view);
  }
  return all;
}
Dtype as_it_is(Dtype dtype) { return dtype; }
// The processor multiplies bfloat16 in some forms only.
Dtype in_f32(Dtype dtype) { return dtype == Dtype::bf16 ? Dtype::f32 : dtype; }
Dtype in_f64(Dtype dtype) { return is_real(dtype) ? Dtype::f64 : dtype; }

// True if every bit of the call's result depends on its type.
bool is_exact(std::string_view call) {
  return call == "copy" || call == "fill" || call == "uniform" || call == "dropout";
}

double norm_of_difference(const View& a, const View& b) {
  const double *x = a.as<double>(), *y = b.as<double>();
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i)
    if (!(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))))
      sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::isnan(sum) ? INFINITY : std::sqrt(sum);
}
double norm_of(const View& a) {
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i)
    if (const double x = a.as<double>()[i]; std::isfinite(x)) sum += x * x;
  return std::sqrt(sum);
}

// How far a device's numbers are from exact ones, where the processor in their own type is as far
// as `ours`. All are f64, of the type `dtype` before.
double difference(const View& theirs, const View& ours, const View& exact, Dtype dtype) {
  constexpr double rounding = 1e-6;                              // part of a norm
  const double least = dtype == Dtype::f64 ? DBL_MIN : FLT_MIN;  // smaller ones may become 0
  const double size = std::max({norm_of(exact), norm_of_difference(ours, exact) / rounding,
                                std::sqrt(static_cast<double>(exact.size())) * least / rounding});
  return norm_of_difference(theirs, exact) / size;
}

}  // namespace

ComparedDevice::~ComparedDevice() { release_free_memory(*this); }

void ComparedDevice::note(const std::string& call, double by) {
  ++findings_.calls;
  findings_.wrong += !(by <= allowed);
  if (findings_.calls == 1 || by > findings_.worst)
    findings_.worst = by, findings_.worst_call = call;
}

// A kernel that the processor lacks is not called: its meaning is compared instead.
template <class Call, class Arguments>
bool ComparedDevice::compare(const char* name, const Call& call, const Arguments& arguments) {
  const auto on = [&](Backend& backend, const std::vector<View>& views) {
    return call_on(
        views, [&](const auto&... all) { return call(backend, all...); }, arguments);
  };
  const std::lock_guard lock(mutex_);
  const std::vector<View> views = views_of(arguments);
  const Held before = read_from(device_, views);
  const Held ours = converted(before, is_exact(name) ? as_it_is : in_f32),
             exact = converted(before, is_exact(name) ? as_it_is : in_f64);
  if (!on(cpu(), ours.views) || !on(cpu(), exact.views) || !on(device_, views)) return false;
  const auto numbers = [](Dtype) { return Dtype::f64; };
  const Held x = converted(read_from(device_, views), numbers), y = converted(ours, numbers),
             z = converted(exact, numbers);
  double worst = 0;
  for (size_t i = 0; i < views.size(); ++i)
    if (views[i].data)
      worst = std::max(worst, difference(x.views[i], y.views[i], z.views[i], views[i].dtype));
  const View& result = views.back();
  note(text(named(name, arguments), ", ", describe(result.dtype, result.shape)), worst);
  return true;
}

#define OPERATION(name, parameters, arguments)                                               \
  void ComparedDevice::name parameters {                                                     \
    const auto call = [](Backend& on, const auto&... all) { return on.name(all...), true; }; \
    compare(#name, call, std::tie arguments);                                                \
  }
#include "core/operations.def"
#undef OPERATION
#define KERNEL(name, parameters, arguments)                                            \
  bool ComparedDevice::name parameters {                                               \
    const auto call = [](Backend& on, const auto&... all) { return on.name(all...); }; \
    return compare(#name, call, std::tie arguments);                                   \
  }
#include "core/kernels.def"
#undef KERNEL

}  // namespace tete
