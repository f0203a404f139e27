// Ctrl+C (SIGINT) and SIGTERM as a flag that long work looks at.
//
// The first of the two signals sets the flag and gives both their default action back, so a second
// one ends the process at once, whatever it is doing. Waiting system calls return early (EINTR).
// One set of flags per process; the functions below may be called from any thread.
#pragma once

#include <atomic>

namespace thaw {

// Clears the flags and catches the next signal. Called at start, and again by a program that goes
// on after one.
void CatchInterrupts();

// True from the first signal on. The same flag may be set by the program itself to stop the work in
// hand.
std::atomic<bool>& StopFlag();

// Whether a signal came since CatchInterrupts, and whether SIGTERM did.
bool Interrupted();
bool TerminationRequested();

}  // namespace thaw
