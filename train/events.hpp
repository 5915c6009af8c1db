// Event files: scalars as TensorBoard reads them. A file is a row of records,
//
//   length (8 bytes, little-endian), crc(length), event, crc(event)
//
// where crc is CRC-32C, turned and shifted, and the event a protocol buffer (event.proto and
// summary.proto of TensorBoard; a field is its number and kind, then its value):
//
//   Event    wall_time 1: double,  step 2: int64,  file_version 3: string,  summary 5: Summary
//   Summary  value 1: Value, repeated             Value    tag 1: string,  simple_value 2: float
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tete {

// CRC-32C (Castagnoli), as iSCSI has it.
uint32_t crc32c(std::string_view bytes);

// The record that an event file begins with.
std::string first_event(double wall_time);
// A record of scalars by their tags ("train/loss"), all of one step.
using Scalars = std::vector<std::pair<std::string, double>>;
std::string scalar_event(double wall_time, int64_t step, const Scalars& scalars);

}  // namespace tete
