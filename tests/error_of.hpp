// The sentence of an error.
#pragma once
#include <doctest/doctest.h>

#include <string>

#include "core/error.hpp"

namespace tete {

// The sentence that `body` fails with, which is of this kind; "no error" if it does not fail.
template <class Body>
std::string error_of(ErrorKind kind, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    CHECK_MESSAGE(error.kind() == kind, error.what());
    return error.what();
  }
  return "no error";
}
template <class Body>
std::string error_of(const Body& body) {
  return error_of(ErrorKind::input, body);
}

}  // namespace tete
