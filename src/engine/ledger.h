// Who holds which part of the budget.
//
// Every byte that the process is to hold is claimed here before it is allocated, under a name. The
// sum never exceeds the limit. Thread safe; a claim must not outlive the ledger.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace thaw {

class Ledger;

// A claimed part, given back when it goes. Move-only.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)),
        name_(std::move(other.name_)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(name_, other.name_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Reservation();

  uint64_t bytes() const { return bytes_; }

  // Claims more or less under the same name; unchanged on error, as Ledger::Reserve has it.
  Result<void> Resize(uint64_t bytes);

 private:
  friend class Ledger;
  Reservation(Ledger* ledger, std::string name, uint64_t bytes)
      : ledger_(ledger), name_(std::move(name)), bytes_(bytes) {}

  Ledger* ledger_ = nullptr;
  std::string name_;
  uint64_t bytes_ = 0;
};

class Ledger {
 public:
  explicit Ledger(uint64_t limit) : limit_(limit) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // kResourceExhausted, with the name, what was asked for and what is left.
  Result<Reservation> Reserve(std::string name, uint64_t bytes);

  // Lower than what is claimed is allowed: nothing can be claimed until enough is given back.
  void SetLimit(uint64_t bytes);

  uint64_t limit() const;
  uint64_t claimed() const;
  // Of one name.
  uint64_t claimed(std::string_view name) const;
  // 0 when more is claimed than the limit allows.
  uint64_t free() const;

 private:
  friend class Reservation;
  Result<void> Change(const std::string& name, uint64_t from, uint64_t to);

  mutable std::mutex mutex_;
  uint64_t limit_;
  uint64_t claimed_ = 0;
  std::map<std::string, uint64_t, std::less<>> by_name_;
};

}  // namespace thaw
