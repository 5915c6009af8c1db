// The arguments of a call of a device, as a tuple: for devices that hand a call on, on other
// memory.
#pragma once
#include <string>
#include <tuple>
#include <vector>

#include "core/backend.hpp"

namespace tete {

template <class... Arguments>
std::vector<View> views_of(const std::tuple<Arguments...>& arguments) {
  std::vector<View> views;
  const auto take = [&](const auto& each) {
    if constexpr (std::is_same_v<decltype(each), const View&>) views.push_back(each);
  };
  std::apply([&](const auto&... all) { (take(all), ...); }, arguments);
  return views;
}

// call(arguments …), with these in the places of the views.
template <class Call, class... Arguments>
auto call_on(const std::vector<View>& views, const Call& call,
             const std::tuple<Arguments...>& arguments) {
  auto next = views.begin();
  const auto here = [&](const auto& each) -> const auto& {
    if constexpr (std::is_same_v<decltype(each), const View&>) return *next++;
    else return each;
  };
  return std::apply(
      [&](const auto&... all) {
        return std::apply(call,
                          std::tuple<const std::remove_reference_t<Arguments>&...>{here(all)...});
      },
      arguments);
}

// The call's name, and that of the elementwise operation that it is given: "unary_gradient exp".
template <class First, class... Others>
std::string named(const char* call, const std::tuple<First, Others...>& arguments) {
  using Op = std::remove_cvref_t<First>;
  if constexpr (std::is_same_v<Op, Unary> || std::is_same_v<Op, Binary>)
    return std::string(call) + " " + name_of(std::get<0>(arguments));
  return call;
}

}  // namespace tete
