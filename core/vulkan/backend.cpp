#include "core/vulkan/backend.hpp"

#include <algorithm>

#include "core/arguments.hpp"
#include "core/error.hpp"

namespace tete::vulkan {

namespace {

constexpr size_t most_checks = 1024;  // of positions, between two reads
constexpr uint32_t none_outside = UINT32_MAX;

size_t bytes_of(const View& x) { return static_cast<size_t>(x.size()) * size_of(x.dtype); }

}  // namespace

Window window_of(const View& view) {
  Index low = 0, high = 1;
  for (int d = 0; d < view.rank(); ++d) {
    const Index reach = std::max<Index>(0, view.shape[d] - 1) * view.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  const auto size = static_cast<Index>(size_of(view.dtype));
  const auto at = reinterpret_cast<Index>(view.data), lowest = at + low * size;
  const Index from = lowest - lowest % static_cast<Index>(piece);
  const Index bytes = rounded_up(at + high * size - from, 4);  // whole words
  return {reinterpret_cast<const void*>(from), static_cast<size_t>(bytes), (at - from) / size};
}

CardBackend::CardBackend(std::string_view which, const Options& options)
    : card_(which, options),
      name_("vulkan:" + can_.name),
      memory_(card_),
      stream_(card_, memory_, options),
      slots_(static_cast<uint32_t*>(memory_.allocate(4 * most_checks))) {
  stream_.fill(slots_, 4 * most_checks, none_outside);
}
CardBackend::~CardBackend() { release_free_memory(*this); }

Pieces CardBackend::pieces() const {
  return {0x1p26, 256, 1, 0.25 * static_cast<double>(can_.memory)};
}

void* CardBackend::allocate(size_t bytes) { return memory_.allocate(bytes); }
void CardBackend::release(void* bytes, size_t count) noexcept { memory_.release(bytes, count); }

void CardBackend::write(const void* from, void* to, size_t bytes) {
  stream_.write(from, to, bytes);
}

// Checks since the last read are read on the way.
void CardBackend::read(const void* from, void* to, size_t bytes) {
  std::vector<uint32_t> slots;
  {
    const std::lock_guard lock(mutex_);
    slots.resize(refusals_.size());
  }
  std::vector<Reading> readings;
  if (bytes > 0) readings.push_back({from, to, bytes});
  if (!slots.empty()) readings.push_back({slots_, slots.data(), 4 * slots.size()});
  if (!readings.empty()) stream_.read(readings);
  if (!slots.empty()) tell_refusals(slots);
}

void CardBackend::tell_refusals(const std::vector<uint32_t>& slots) {
  std::vector<Refuse> told;
  {
    const std::lock_guard lock(mutex_);
    told = refusals_;
    if (told.size() == slots.size()) {  // no other thread has checked since
      refusals_.clear();
      stream_.fill(slots_, 4 * most_checks, none_outside);
    }
  }
  for (size_t i = 0; i < std::min(slots.size(), told.size()); ++i)
    if (slots[i] != none_outside) told[i](slots[i]);
}

bool CardBackend::try_check_inside(const View& I, Index size, Refuse refuse) {
  uint32_t slot = 0;
  bool is_full = false;
  {
    const std::lock_guard lock(mutex_);
    slot = static_cast<uint32_t>(refusals_.size());
    refusals_.push_back(std::move(refuse));
    is_full = refusals_.size() == most_checks;
  }
  const Window index = window_of(I);
  run_over<1>(merge(loops_of<1>({&I})), {index}, Shader::check_inside, {},
              {index.read(), {slots_, 4 * most_checks, true}},
              [&](Words& words, Index before) { words.add(size, before, slot); });
  if (is_full) read(nullptr, nullptr, 0);
  return true;
}

// ---- What is left to the processor -----------------------------------------------------------

void CardBackend::count_fallback(const std::string& operation, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (refuses_)
    fail(ErrorKind::resource, name_, " lacks the operation '", operation,
         "', which --strict-device forbids to compute on the processor");
  Fallback& count = fallbacks_.try_emplace(operation, Fallback{operation, 0, 0}).first->second;
  ++count.times, count.bytes += bytes;
}

template <class Call, class Arguments>
void CardBackend::on_processor(const char* name, const Call& call, const Arguments& arguments) {
  const std::vector<View> views = views_of(arguments);
  size_t bytes = 0;
  for (const View& each : views) bytes += bytes_of(each);
  count_fallback(text(named(name, arguments), " in ", name_of(views.back().dtype)), bytes);
  std::vector<Storage> memory;
  std::vector<View> here;
  for (const View& each : views) {
    memory.emplace_back(cpu(), std::max<size_t>(1, bytes_of(each)));
    here.push_back({each.dtype, each.shape, row_major(each.shape), memory.back().data()});
    const bool is_result = here.size() == views.size();
    if (!is_result)
      read(laid(each, here.back().strides).view().data, here.back().data, bytes_of(each));
  }
  call_on(here, call, arguments);
  const View& result = here.back();
  const Temporary there(*this, result.dtype, result.shape, result.strides);
  write(result.data, there.view().data, bytes_of(result));
  copy(there.view(), views.back());
}

#define OPERATION(name, parameters, arguments)                                        \
  void CardBackend::name parameters {                                                 \
    if (!try_##name arguments)                                                        \
      on_processor(                                                                   \
          #name, [](const auto&... all) { cpu().name(all...); }, std::tie arguments); \
  }
#include "core/operations.def"
#undef OPERATION

std::vector<Fallback> CardBackend::fallbacks() const {
  const std::lock_guard lock(mutex_);
  std::vector<Fallback> all;
  for (const auto& [operation, count] : fallbacks_) all.push_back(count);
  return all;
}

Said CardBackend::said() const {
  const std::lock_guard lock(card_.messages.mutex);
  return card_.messages.said;
}

Temporary CardBackend::laid(const View& x, const Strides& strides) {
  Temporary made(*this, x.dtype, x.shape, strides);
  copy(x, made.view());
  return made;
}

// ---- Opening ---------------------------------------------------------------------------------

std::unique_ptr<Card> open(std::string_view which, const Options& options) {
  return std::make_unique<CardBackend>(which, options);
}

// Never destroyed: tensors may outlive every static object.
Backend& kept(std::string_view which) {
  static auto* const all = new std::map<std::string, std::unique_ptr<Card>, std::less<>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto at = all->find(which);
  if (at != all->end()) return *at->second;
  return *all->emplace(which, open(which)).first->second;
}

}  // namespace tete::vulkan
