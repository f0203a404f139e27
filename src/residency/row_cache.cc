#include "residency/row_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/round_up.h"
#include "base/stopwatch.h"
#include "codec/frozen_tile.h"

namespace thaw {
namespace {

// Of texts of 2000 to 10000 tokens as many rows hit 65 to 92 %, any number of rows at most 4 % more
// (docs/decisions/0015).
constexpr uint64_t kMostSlots = 512;

// Of all tables: 448 rows of 4096 numbers in Q4_K, 96 of what 35 layers have of a token in Q8_0.
constexpr uint64_t kMostBytes = 1 << 20;

// Slots of a set: with eight, of the same texts 2 % fewer hit at most than with a single set.
constexpr uint64_t kWays = 8;

// Of buffers. Rows so wide that fewer than kRowsInFlight fit keep a disk busy too.
constexpr uint64_t kMostBufferBytes = 256 << 10;

// Rows begin on a cache line.
constexpr uint64_t kRowAlignment = 64;

uint64_t OffsetOf(const WeightMatrix& table, int64_t row) {
  return table.offset + static_cast<uint64_t>(row * table.row_bytes());
}

uint64_t StrideOf(const WeightMatrix& table) {
  return RoundUp(static_cast<uint64_t>(table.row_bytes()), kRowAlignment);
}

// How much of everything there is.
struct Sizes {
  std::vector<int32_t> tables;  // matrices
  uint64_t buffers = 0;
  uint64_t buffer_bytes = 0;
  std::vector<uint64_t> slots;  // of each table
  uint64_t slot_count = 0;
  uint64_t slot_bytes = 0;  // of the rows in all of them
  // Of frozen tables: the room of a tile, and that of a group of rows.
  uint64_t tile_bytes = 0;
  uint64_t group_bytes = 0;

  uint64_t memory_bytes() const {
    return buffers * buffer_bytes + slot_bytes + tile_bytes + group_bytes;
  }
};

void AddFrozen(const TileMap& map, int32_t matrix, Sizes& sizes) {
  const FrozenTensor& frozen = *map.matrix(matrix).frozen;
  const auto group = static_cast<uint64_t>(ThawedGroupBytes(frozen.kind, frozen.cols));
  sizes.group_bytes = std::max(sizes.group_bytes, RoundUp(group, kRowAlignment));
  for (const FrozenTileEntry& tile : frozen.tiles) {
    const uint64_t span = ReadSpan(map.alignment() - 1, tile.bytes, map.alignment());
    sizes.tile_bytes = std::max(sizes.tile_bytes, RoundUp(span, map.alignment()));
  }
}

Sizes SizesOf(const TileMap& map) {
  Sizes sizes;
  uint64_t strides = 0;
  for (size_t i = 0; i < map.matrices().size(); ++i) {
    const WeightMatrix& table = map.matrices()[i];
    if (!table.is_looked_up()) continue;
    sizes.tables.push_back(static_cast<int32_t>(i));
    strides += StrideOf(table);
    if (table.is_frozen()) AddFrozen(map, static_cast<int32_t>(i), sizes);
    // Wherever in a block of the disk a row begins.
    const uint64_t span =
        ReadSpan(map.alignment() - 1, static_cast<uint64_t>(table.row_bytes()), map.alignment());
    sizes.buffer_bytes = std::max(sizes.buffer_bytes, span);
  }
  if (sizes.tables.empty()) return sizes;
  sizes.buffers =
      std::clamp<uint64_t>(kMostBufferBytes / sizes.buffer_bytes, 1, RowCache::kRowsInFlight);
  const uint64_t most = std::clamp(kMostBytes / strides / kWays * kWays, kWays, kMostSlots);
  for (const int32_t matrix : sizes.tables) {
    const WeightMatrix& table = map.matrix(matrix);
    const uint64_t slots = std::min(most, RoundUp(static_cast<uint64_t>(table.rows), kWays));
    sizes.slots.push_back(slots);
    sizes.slot_count += slots;
    sizes.slot_bytes += slots * StrideOf(table);
  }
  return sizes;
}

}  // namespace

uint64_t RowCache::Bytes(const TileMap& map) {
  const Sizes sizes = SizesOf(map);
  return sizes.memory_bytes() + sizes.slot_count * sizeof(Slot);
}

Result<std::unique_ptr<RowCache>> RowCache::Create(const TileMap& map,
                                                   std::unique_ptr<ReadQueue> queue,
                                                   const TileDecoder& decoder) {
  std::unique_ptr<RowCache> cache(new RowCache(map, std::move(queue), decoder));
  const Sizes sizes = SizesOf(map);
  THAW_ASSIGN(cache->memory_,
              AlignedBuffer::Allocate(sizes.memory_bytes(), "rows of tables", map.alignment()));
  cache->buffer_bytes_ = sizes.buffer_bytes;
  cache->under_way_.resize(sizes.buffers);
  cache->tile_ = cache->memory_.data();  // aligned as reads ask for
  cache->group_ = cache->tile_ + sizes.tile_bytes;
  cache->buffers_ = cache->group_ + sizes.group_bytes;
  std::byte* rows = cache->buffers_ + sizes.buffers * sizes.buffer_bytes;
  for (size_t i = 0; i < sizes.tables.size(); ++i) {
    Table table{.matrix = sizes.tables[i], .slots = std::vector<Slot>(sizes.slots[i])};
    for (Slot& slot : table.slots) {
      slot.bytes = rows;
      rows += StrideOf(map.matrix(table.matrix));
    }
    cache->tables_.push_back(std::move(table));
  }
  return cache;
}

Result<void> RowCache::Read(std::span<const TableRow> rows, CopyResident copy_resident,
                            OnRow on_row) {
  const std::lock_guard lock(mutex_);
  order_.resize(rows.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::ranges::sort(order_, {}, [&](size_t i) { return rows[i]; });
  missing_.clear();
  for (size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
    const TableRow& at = rows[order_[begin]];
    while (end < order_.size() && rows[order_[end]] == at) ++end;
    const Wanted wanted{at, std::span(order_).subspan(begin, end - begin)};
    const auto row_bytes = static_cast<uint64_t>(map_.matrix(at.matrix).row_bytes());
    const std::span scratch(buffers_, row_bytes);  // a buffer: nothing is read yet
    Slot& slot = SlotFor(at);
    // What had to be decoded is looked for here first, other rows where they are copied from.
    const bool is_decoded = map_.matrix(at.matrix).is_frozen();
    if (!(is_decoded && slot.row == at.row) && copy_resident(at, scratch)) {
      if (is_decoded) Keep(at, scratch.data());
      THAW_TRY(Deliver(wanted, scratch, on_row));
    } else if (slot.row == at.row) {
      slot.asked_at = ++asked_;
      THAW_TRY(Deliver(wanted, {slot.bytes, row_bytes}, on_row));
    } else {
      missing_.push_back(wanted);
      continue;
    }
    statistics_.hits += wanted.indices.size();
  }
  for (const Wanted& wanted : missing_) {
    if (map_.matrix(wanted.at.matrix).is_frozen()) THAW_TRY(ThawMissing(wanted, on_row));
  }
  std::erase_if(missing_,
                [&](const Wanted& wanted) { return map_.matrix(wanted.at.matrix).is_frozen(); });
  return ReadMissing(on_row);
}

RowCache::Slot& RowCache::Keep(const TableRow& at, const std::byte* bytes) {
  Slot& slot = SlotFor(at);
  std::memcpy(slot.bytes, bytes, static_cast<size_t>(map_.matrix(at.matrix).row_bytes()));
  slot.row = at.row;
  slot.asked_at = ++asked_;
  return slot;
}

Result<void> RowCache::ReadTile(int32_t tile) {
  if (tile == held_tile_) return {};
  held_tile_ = -1;
  const Tile& where = map_.tile(tile);
  queue_->Submit({.file = where.file,
                  .offset = where.offset,
                  .bytes = where.bytes,
                  .buffer = tile_,
                  .tag = 0});
  const ReadCompletion read = queue_->Wait();
  if (!read.outcome) {
    Error error = read.outcome.error();
    return Fail(std::move(error).In(map_.Describe(tile)));
  }
  statistics_.bytes_read += where.bytes;
  statistics_.disk_bytes += read.disk_bytes;
  if (read.source == ReadSource::kPageCache) statistics_.page_cache_bytes += where.bytes;
  const uint64_t lead = where.offset % ReadAlignment(*where.file);
  const Stopwatch checking(statistics_.thaw_seconds);
  if (const uint64_t hash = XXH3_64bits(tile_ + lead, where.bytes); hash != where.hash) {
    return Fail(ErrorCode::kCorrupt,
                "{}: {}: the frozen tile at offset {} has the hash {:016x}, "
                "expected {:016x}",
                where.file->path(), map_.Describe(tile), where.offset, hash, where.hash);
  }
  held_tile_ = tile;
  return {};
}

Result<void> RowCache::ThawMissing(const Wanted& wanted, OnRow on_row) {
  const WeightMatrix& table = map_.matrix(wanted.at.matrix);
  const int32_t tile = map_.TileOfRow(wanted.at.matrix, wanted.at.row);
  THAW_TRY(ReadTile(tile));
  const Tile& where = map_.tile(tile);
  const std::byte* coded = tile_ + where.offset % ReadAlignment(*where.file);
  const std::span row(buffers_, static_cast<size_t>(table.row_bytes()));
  Result<void> thawed;
  {
    const Stopwatch decoding(statistics_.thaw_seconds);
    thawed = ThawRow(decoder_, *table.frozen, where.row_count, {coded, where.bytes},
                     wanted.at.row - where.row_begin, group_, row);
  }
  if (!thawed) {
    return Fail(ErrorCode::kCorrupt, "{}: {}: the frozen tile at offset {} is broken: {}",
                where.file->path(), map_.Describe(tile), where.offset, thawed.error().message);
  }
  ++statistics_.reads;
  statistics_.hits += wanted.indices.size() - 1;
  Keep(wanted.at, row.data());
  return Deliver(wanted, row, on_row);
}

RowCache::Slot& RowCache::SlotFor(const TableRow& at) {
  THAW_CHECK(at.row >= 0 && at.row < map_.matrix(at.matrix).rows);
  const auto table = std::ranges::find(tables_, at.matrix, &Table::matrix);
  THAW_CHECK(table != tables_.end());
  const size_t set = static_cast<uint64_t>(at.row) % (table->slots.size() / kWays);
  const auto slots = std::span(table->slots).subspan(set * kWays, kWays);
  const auto held = std::ranges::find(slots, at.row, &Slot::row);
  return held != slots.end() ? *held : *std::ranges::min_element(slots, {}, &Slot::asked_at);
}

Result<void> RowCache::Deliver(const Wanted& wanted, std::span<const std::byte> bytes,
                               OnRow on_row) {
  for (const size_t i : wanted.indices) THAW_TRY(on_row(i, bytes));
  return {};
}

// After an error nothing more is asked for, but what is under way comes to its end.
Result<void> RowCache::ReadMissing(OnRow on_row) {
  Result<void> outcome;
  size_t next = 0;
  const size_t at_a_time = std::min(under_way_.size(), static_cast<size_t>(queue_->depth()));
  while (next < std::min(at_a_time, missing_.size())) {
    Submit(next, missing_[next]);
    ++next;
  }
  while (queue_->pending() > 0) {
    const ReadCompletion read = queue_->Wait();
    if (!outcome) continue;
    outcome = Take(read, on_row);
    if (outcome && next < missing_.size()) Submit(read.tag, missing_[next++]);
  }
  return outcome;
}

void RowCache::Submit(size_t buffer, const Wanted& wanted) {
  const WeightMatrix& table = map_.matrix(wanted.at.matrix);
  under_way_[buffer] = wanted;
  queue_->Submit({.file = table.file.get(),
                  .offset = OffsetOf(table, wanted.at.row),
                  .bytes = static_cast<uint64_t>(table.row_bytes()),
                  .buffer = buffers_ + buffer * buffer_bytes_,
                  .tag = buffer});
}

Result<void> RowCache::Take(const ReadCompletion& read, OnRow on_row) {
  const Wanted& wanted = under_way_[read.tag];
  const WeightMatrix& table = map_.matrix(wanted.at.matrix);
  if (!read.outcome) {
    Error error = read.outcome.error();
    return Fail(std::move(error).In(fmt::format("tensor '{}', row {}", table.name, wanted.at.row)));
  }
  const auto row_bytes = static_cast<uint64_t>(table.row_bytes());
  ++statistics_.reads;
  statistics_.hits += wanted.indices.size() - 1;
  statistics_.bytes_read += row_bytes;
  statistics_.disk_bytes += read.disk_bytes;
  if (read.source == ReadSource::kPageCache) statistics_.page_cache_bytes += row_bytes;
  const uint64_t lead = OffsetOf(table, wanted.at.row) % ReadAlignment(*table.file);
  const std::byte* bytes = buffers_ + read.tag * buffer_bytes_ + lead;
  return Deliver(wanted, {Keep(wanted.at, bytes).bytes, row_bytes}, on_row);
}

RowStatistics RowCache::Statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace thaw
