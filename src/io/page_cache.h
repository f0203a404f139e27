// Asks the kernel which parts of a file its page cache holds, without causing reads, and asks it to
// forget them.
//
// Both questions say whether the cache holds every page that [offset, offset + bytes) touches, a
// range of at least one byte within the file; nothing where the kernel lacks the call or refuses
// it. cachestat counts pages in 0.3 us for 512 KiB; mincore needs the range mapped for the question
// and takes 6 to 9. (preadv2 with RWF_NOWAIT is no way to ask: it starts reading ahead.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace thaw {

// Linux 6.5 and later.
std::optional<bool> IsCachedByCachestat(int descriptor, uint64_t offset, uint64_t bytes);

// Every Linux. Answers true throughout to who neither owns the file nor may write it.
std::optional<bool> IsCachedByMincore(int descriptor, uint64_t offset, uint64_t bytes);

// What the page cache holds of a file goes to the disk where it must, and is forgotten; others may
// fill it again. Takes no rights beyond reading the file. Pages that are mapped by anyone stay, and
// so does everything on a file system that is in memory. kIo where the file cannot be opened or
// written out.
Result<void> DropFromPageCache(const std::string& path);

}  // namespace thaw
