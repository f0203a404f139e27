// What this machine does a second, as far as the speed of a model depends on it, and what follows
// for the time of a token.
//
//   seconds of a decode step    = DecodeSeconds(weights) + loops * fork_join_seconds
//                                 + KV bytes read / memory_bytes_per_second
//   seconds of a prompt's token = PrefillSeconds(weights), attention apart
//   seconds of reading          = streamed bytes / disk_bytes_per_second
//
// Computing and reading overlap, so the larger of the two is what a token takes. The rates are
// measured by engine/rate_measurement.h and kept by engine/rates_file.h. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel_table.h"
#include "tensor/element_type.h"

namespace thaw {

// What rates hold for: anything else is another machine. The CPU's features belong to it because
// virtual machines of different CPUs go by one name.
struct MachineIdentity {
  std::string cpu;      // its name and features
  int cores = 0;        // that this process may run on
  std::string kernels;  // name of the kernel table
  int threads = 0;      // of the pool that computes

  bool operator==(const MachineIdentity&) const = default;
};

MachineIdentity IdentifyMachine(const KernelTable& kernels, int threads);

// How weights lie in memory where they are multiplied.
struct WeightForm {
  ElementType type = ElementType::kF32;
  bool is_coded = false;  // frozen tiles whose rows thaw to that type

  WeightForm() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): most weights are as in the file.
  WeightForm(ElementType of, bool coded = false) : type(of), is_coded(coded) {}
  bool operator==(const WeightForm&) const = default;
};

// "Q4_0", "coded-Q8_0"
std::string FormName(const WeightForm& form);
std::optional<WeightForm> FindForm(std::string_view name);

// Of one kernel table and all threads of a pool, over weights that no cache holds. Bytes of coded
// weights are those of their rows once thawed: what takes the time is to decode them.
struct MatMulRate {
  WeightForm type;
  double decode_bytes_per_second = 0;   // of weights, multiplied with one token
  double prefill_bytes_per_second = 0;  // of weights times tokens, in batches of 128 tokens

  bool operator==(const MatMulRate&) const = default;
};

struct DiskRate {
  std::string device;  // as DeviceOf (io/device.h) calls it
  double bytes_per_second = 0;

  bool operator==(const DiskRate&) const = default;
};

// Bytes of weights of one form that a token is multiplied with; of coded ones as in MatMulRate.
struct TypeBytes {
  WeightForm type;
  uint64_t bytes = 0;
};

struct MachineRates {
  // What memory and products were measured over. Less than the last-level cache, and both rates are
  // the cache's: a model that does not fit there will be slower than they say.
  uint64_t buffer_bytes = 0;

  double memory_bytes_per_second = 0;  // all threads reading
  double fork_join_seconds = 0;        // of a loop on all threads, beyond its work
  std::vector<MatMulRate> matmul;      // a type at most once
  std::vector<DiskRate> disks;         // a device at most once

  bool operator==(const MachineRates&) const = default;

  // nullptr where none was measured.
  const MatMulRate* FindMatMul(const WeightForm& type) const;
  const DiskRate* FindDisk(std::string_view device) const;

  // Put in, or in the place of the one for the same type or device.
  void Set(const MatMulRate& rate);
  void Set(const DiskRate& rate);

  // Seconds of all products with one token, alone or in a batch of 128. Every type must have been
  // measured.
  double DecodeSeconds(std::span<const TypeBytes> weights) const;
  double PrefillSeconds(std::span<const TypeBytes> weights) const;
};

}  // namespace thaw
