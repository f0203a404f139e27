// Which sanitizers a test is compiled with, for what it can then not see: memory that they take for
// themselves is resident too, and the allocator is theirs. GCC and clang say it in different ways.
#pragma once

namespace thaw {

#if defined(__has_feature)
inline constexpr bool kHasAddressSanitizer = __has_feature(address_sanitizer);
inline constexpr bool kHasThreadSanitizer = __has_feature(thread_sanitizer);
#else
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif
#ifdef __SANITIZE_THREAD__
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif
#endif

}  // namespace thaw
