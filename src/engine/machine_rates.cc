#include "engine/machine_rates.h"

#include <algorithm>

#include "base/check.h"
#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace thaw {
namespace {

constexpr std::string_view kCodedPrefix = "coded-";

template <typename Rate, typename Key>
const Rate* FindRate(const std::vector<Rate>& rates, Key Rate::*key, const Key& wanted) {
  const auto found = std::ranges::find(rates, wanted, key);
  return found == rates.end() ? nullptr : &*found;
}

template <typename Rate, typename Key>
void SetRate(std::vector<Rate>& rates, Key Rate::*key, const Rate& rate) {
  const auto found = std::ranges::find(rates, rate.*key, key);
  if (found == rates.end()) {
    rates.push_back(rate);
  } else {
    *found = rate;
  }
}

double ProductSeconds(const MachineRates& rates, std::span<const TypeBytes> weights,
                      double MatMulRate::*bytes_per_second) {
  double seconds = 0;
  for (const TypeBytes& part : weights) {
    const MatMulRate* rate = rates.FindMatMul(part.type);
    THAW_CHECK(rate != nullptr);
    seconds += static_cast<double>(part.bytes) / (rate->*bytes_per_second);
  }
  return seconds;
}

}  // namespace

MachineIdentity IdentifyMachine(const KernelTable& kernels, int threads) {
  const CpuFeatures& cpu = HostCpu();
  std::string name = cpu.name;
  for (const std::string& feature : cpu.Names()) name += (name.empty() ? "" : " ") + feature;
  return {.cpu = name, .cores = AvailableThreads(), .kernels = kernels.name, .threads = threads};
}

std::string FormName(const WeightForm& form) {
  return fmt::format("{}{}", form.is_coded ? kCodedPrefix : "", Info(form.type).name);
}

std::optional<WeightForm> FindForm(std::string_view name) {
  const bool is_coded = name.starts_with(kCodedPrefix);
  if (is_coded) name.remove_prefix(kCodedPrefix.size());
  const ElementTypeInfo* type = FindElementType(name);
  if (type == nullptr) return std::nullopt;
  return WeightForm(type->type, is_coded);
}

const MatMulRate* MachineRates::FindMatMul(const WeightForm& type) const {
  return FindRate(matmul, &MatMulRate::type, type);
}

const DiskRate* MachineRates::FindDisk(std::string_view device) const {
  return FindRate(disks, &DiskRate::device, std::string(device));
}

void MachineRates::Set(const MatMulRate& rate) { SetRate(matmul, &MatMulRate::type, rate); }

void MachineRates::Set(const DiskRate& rate) { SetRate(disks, &DiskRate::device, rate); }

double MachineRates::DecodeSeconds(std::span<const TypeBytes> weights) const {
  return ProductSeconds(*this, weights, &MatMulRate::decode_bytes_per_second);
}

double MachineRates::PrefillSeconds(std::span<const TypeBytes> weights) const {
  return ProductSeconds(*this, weights, &MatMulRate::prefill_bytes_per_second);
}

}  // namespace thaw
