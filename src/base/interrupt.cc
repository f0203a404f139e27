#include "base/interrupt.h"

#include <signal.h>

namespace thaw {
namespace {

// The only things that a signal handler may touch; always lock-free on the machines Thaw runs on.
std::atomic<bool> stop_flag{false};
std::atomic<int> first_signal{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void SetAction(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void OnSignal(int signal_number) {
  first_signal = signal_number;
  stop_flag = true;
  SetAction(SIG_DFL);
}

}  // namespace

void CatchInterrupts() {
  first_signal = 0;
  stop_flag = false;
  SetAction(OnSignal);
}

std::atomic<bool>& StopFlag() { return stop_flag; }

bool Interrupted() { return first_signal != 0; }

bool TerminationRequested() { return first_signal == SIGTERM; }

}  // namespace thaw
