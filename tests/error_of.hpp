// What an error says.
#pragma once
#include <doctest/doctest.h>

#include <string>

#include "core/error.hpp"

namespace tete {

// The sentence that `body` fails with, which is of this kind; "no error" if it does not fail.
template <class Body>
std::string error_of(const Body& body, Kind kind = Kind::input) {
  try {
    body();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "no error";
}

}  // namespace tete
