// Adds the time from its making to its end to a sum of seconds. Of one thread.
#pragma once

#include <chrono>

namespace thaw {

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  double& seconds_;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace thaw
