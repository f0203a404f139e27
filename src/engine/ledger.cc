#include "engine/ledger.h"

#include "base/units.h"

namespace thaw {

Reservation::~Reservation() {
  if (ledger_ != nullptr) (void)ledger_->Change(name_, bytes_, 0);
}

Result<void> Reservation::Resize(uint64_t bytes) {
  THAW_TRY(ledger_->Change(name_, bytes_, bytes));
  bytes_ = bytes;
  return {};
}

Result<Reservation> Ledger::Reserve(std::string name, uint64_t bytes) {
  THAW_TRY(Change(name, 0, bytes));
  return Reservation(this, std::move(name), bytes);
}

void Ledger::SetLimit(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

uint64_t Ledger::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

uint64_t Ledger::claimed() const {
  const std::lock_guard lock(mutex_);
  return claimed_;
}

uint64_t Ledger::claimed(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? 0 : found->second;
}

uint64_t Ledger::free() const {
  const std::lock_guard lock(mutex_);
  return claimed_ < limit_ ? limit_ - claimed_ : 0;
}

Result<void> Ledger::Change(const std::string& name, uint64_t from, uint64_t to) {
  const std::lock_guard lock(mutex_);
  const uint64_t left = claimed_ < limit_ ? limit_ - claimed_ : 0;
  if (to > from && to - from > left) {
    return Fail(ErrorCode::kResourceExhausted,
                "{} for {} do not fit into the budget of {}, of which {} are left",
                FormatBytes(to - from), name, FormatBytes(limit_), FormatBytes(left));
  }
  claimed_ = claimed_ - from + to;
  by_name_[name] = by_name_[name] - from + to;
  return {};
}

}  // namespace thaw
