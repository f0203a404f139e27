// Frozen tiles in the cache: coded or thawed, checked once, and the same rows either way.
#include <gmock/gmock.h>
#include <xxhash.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "codec/codec_test_support.h"
#include "codec/frozen_tile.h"
#include "io/memory_file.h"
#include "residency/cache_test_support.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCols = 1024;
constexpr int64_t kTileRows = 128;
constexpr int64_t kStreamRows = 64;
constexpr int64_t kTilesOfMatrix = 2;
constexpr uint16_t kInfinity = 0x7f80;  // of bfloat16

// How a test wants matrices held.
enum class Form { kCoded, kThawed, kThawedAndPacked };

// Frozen matrices of two tiles of two streams each, in memory: tiles of ecq take some 60 KiB and
// 136 thawed, of bf16 some 180 and 256.
class FrozenModel {
 public:
  // With `flaw`, the first weight of all, of the kind bf16, is infinite.
  explicit FrozenModel(std::vector<FrozenKind> kinds, bool flaw = false)
      : kinds_(std::move(kinds)) {
    std::vector<std::byte> bytes(64);
    for (size_t i = 0; i < kinds_.size(); ++i) {
      auto frozen = std::make_shared<FrozenTensor>();
      *frozen = {.kind = kinds_[i],
                 .cols = kCols,
                 .rows = kTilesOfMatrix * kTileRows,
                 .rows_per_stream = kStreamRows,
                 .streams_per_tile = kTileRows / kStreamRows,
                 .tiles = {}};
      for (int64_t tile = 0; tile < kTilesOfMatrix; ++tile) {
        const auto seed = static_cast<uint32_t>(1000 * i + 10 * static_cast<size_t>(tile));
        const size_t begin = bytes.size();
        rows_.push_back(AppendTile(kinds_[i], seed, flaw && rows_.empty(), bytes));
        frozen->tiles.push_back({.offset = begin,
                                 .bytes = bytes.size() - begin,
                                 .hash = XXH3_64bits(bytes.data() + begin, bytes.size() - begin)});
      }
      frozen_.push_back(std::move(frozen));
    }
    file_ = std::make_shared<MemoryFile>("f.gguf", std::move(bytes));
  }

  // All tiles in one form, or each matrix's in its own.
  TileMap Map(Form form) const { return Map(std::vector<Form>(kinds_.size(), form)); }
  TileMap Map(const std::vector<Form>& forms) const {
    std::vector<WeightMatrix> matrices;
    for (size_t i = 0; i < kinds_.size(); ++i) {
      matrices.push_back({.name = fmt::format("w{}", i),
                          .type = ThawedType(kinds_[i]),
                          .rows = kTilesOfMatrix * kTileRows,
                          .cols = kCols,
                          .file = file_,
                          .layer = static_cast<int32_t>(i),
                          .frozen = frozen_[i],
                          .form = TileForm::kEither,
                          .use = MatrixUse::kBoth,
                          .is_packed = forms[i] == Form::kThawedAndPacked});
    }
    TileMap map = *TileMap::Create(std::move(matrices));
    map.SetThawed([&](int32_t tile) {
      return forms[static_cast<size_t>(tile / kTilesOfMatrix)] != Form::kCoded;
    });
    return map;
  }

  // What a tile is in memory in that form.
  std::vector<std::byte> Expected(int32_t tile, Form form) const {
    const auto matrix = static_cast<size_t>(tile / kTilesOfMatrix);
    if (form == Form::kCoded) {
      const FrozenTileEntry& at =
          frozen_[matrix]->tiles[static_cast<size_t>(tile % kTilesOfMatrix)];
      std::vector<std::byte> coded(at.bytes);
      EXPECT_TRUE(ReadExactlyAt(*file_, at.offset, coded));
      return coded;
    }
    std::vector<std::byte> rows = rows_[static_cast<size_t>(tile)];
    if (form == Form::kThawedAndPacked) {
      const ElementType type = ThawedType(kinds_[matrix]);
      std::vector<std::byte> scratch(static_cast<size_t>(PackScratchBytes(type, kCols)));
      PackRows(type, kCols, kTileRows, rows.data(), rows.data(), scratch.data());
    }
    return rows;
  }

 private:
  // Appends a tile and returns its rows as in a file.
  static std::vector<std::byte> AppendTile(FrozenKind kind, uint32_t seed, bool flaw,
                                           std::vector<std::byte>& out) {
    std::vector<std::byte> rows;
    for (uint32_t stream = 0; stream < kTileRows / kStreamRows; ++stream) {
      std::vector<std::byte> of_stream;
      if (kind == FrozenKind::kEcq) {
        const EcqRows made = RandomEcqRows(kStreamRows, kCols, 2, 1, seed + stream);
        of_stream = made.AsQ8_0();
        const std::vector<std::byte> coded = made.Stream();
        out.insert(out.end(), coded.begin(), coded.end());
      } else {
        std::vector<uint16_t> made = RandomBf16(kStreamRows * kCols, 0, seed + stream);
        if (flaw && stream == 0) made[0] = kInfinity;
        const auto bytes = std::as_bytes(std::span(made));
        of_stream.assign(bytes.begin(), bytes.end());
        AppendBf16Stream(kStreamRows, kCols, made, out);
      }
      rows.insert(rows.end(), of_stream.begin(), of_stream.end());
    }
    return rows;
  }

  std::vector<FrozenKind> kinds_;
  std::vector<std::vector<std::byte>> rows_;  // [tiles]
  std::vector<std::shared_ptr<const FrozenTensor>> frozen_;
  std::shared_ptr<const File> file_;
};

const std::vector<FrozenKind> kBothKinds = {FrozenKind::kBf16, FrozenKind::kEcq};
constexpr Form kForms[] = {Form::kCoded, Form::kThawed, Form::kThawedAndPacked};

bool IsExpected(const FrozenModel& model, int32_t tile, Form form,
                std::span<const std::byte> data) {
  const std::vector<std::byte> expected = model.Expected(tile, form);
  return data.size() == expected.size() &&
         std::memcmp(data.data(), expected.data(), data.size()) == 0;
}

// The portable decoder, whose calls are counted.
std::atomic<int64_t> decoded_groups{0};
const TileDecoder kCounting = {
    .name = "counting",
    .is_available = [](const CpuFeatures&) { return true; },
    .decode_ecq =
        [](StreamCursor& cursor, std::byte* packed) {
          ++decoded_groups;
          PortableDecoder().decode_ecq(cursor, packed);
        },
    .decode_bf16 =
        [](StreamCursor& cursor, std::byte* packed) {
          ++decoded_groups;
          PortableDecoder().decode_bf16(cursor, packed);
        },
};

TEST(FrozenTiles, AreTheSameRowsInEveryForm) {
  const FrozenModel model(kBothKinds);
  for (const Form form : kForms) {
    const auto cache = CacheOf(model.Map(form));
    ASSERT_TRUE(cache->BeginPass(cache->map().tile_count()));
    for (int32_t tile = 0; tile < cache->map().tile_count(); ++tile) {
      const auto pinned = cache->Pin(tile);
      ASSERT_TRUE(pinned) << pinned.error().message;
      EXPECT_TRUE(IsExpected(model, tile, form, pinned->data())) << tile;
    }
    EXPECT_TRUE(cache->Verify(kKeepGoing));
  }
}

TEST(FrozenTiles, AreDecodedOnceWhenTheyAreReadFirst) {
  const FrozenModel model(kBothKinds);
  for (const Form form : kForms) {
    const auto cache = CacheOf(model.Map(form), {.prefetch_ahead = 0, .decoder = &kCounting});
    for (int32_t tile = 0; tile < cache->map().tile_count(); ++tile) {
      decoded_groups = 0;
      ASSERT_TRUE(cache->Pin(tile));
      ASSERT_TRUE(cache->Pin(tile));
      EXPECT_EQ(decoded_groups, kTileRows / 16) << tile;
    }
  }
}

TEST(FrozenTiles, ThatHoldNoNumberAreRefusedInEveryForm) {
  const FrozenModel model(kBothKinds, /*flaw=*/true);
  for (const Form form : kForms) {
    const auto cache = CacheOf(model.Map(form), {.prefetch_ahead = 0});
    const auto refused = cache->Pin(0);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("tensor 'w0', rows 0 to 127"),
                      HasSubstr("f.gguf: the frozen tile at offset 64 is broken: "),
                      HasSubstr("it holds a weight that is infinite or NaN")));
    EXPECT_TRUE(cache->Pin(1));
  }
}

// What resident tiles take, coded or thawed.
uint64_t HeldBytes(const WeightCache& cache) {
  uint64_t bytes = 0;
  for (int32_t tile = 0; tile < cache.map().tile_count(); ++tile) {
    if (cache.IsResident(tile)) bytes += cache.map().tile(tile).memory_bytes;
  }
  return bytes;
}

// Visits every tile once and compares it; what is held never exceeds the capacity.
void RunPass(WeightCache& cache, const FrozenModel& model, const std::vector<Form>& forms) {
  ASSERT_TRUE(cache.BeginPass(cache.map().tile_count()));
  for (int32_t tile = 0; tile < cache.map().tile_count(); ++tile) {
    const auto pinned = cache.Pin(tile);
    ASSERT_TRUE(pinned) << pinned.error().message;
    EXPECT_TRUE(
        IsExpected(model, tile, forms[static_cast<size_t>(tile / kTilesOfMatrix)], pinned->data()))
        << tile;
    EXPECT_LE(HeldBytes(cache), cache.capacity_bytes());
  }
}

// 6 MiB thawed, less than half of it coded.
const std::vector<FrozenKind> kManyKinds = [] {
  std::vector<FrozenKind> kinds(16, FrozenKind::kEcq);
  for (size_t i = 0; i < kinds.size(); i += 4) kinds[i] = FrozenKind::kBf16;
  return kinds;
}();

// Made once: encoding takes most of the time of these tests.
const FrozenModel& ManyMatrices() {
  static const FrozenModel model(kManyKinds);
  return model;
}

class EachPolicysForms : public ::testing::TestWithParam<const Policy*> {};

INSTANTIATE_TEST_SUITE_P(Policies, EachPolicysForms, ::testing::ValuesIn(AllPolicies()),
                         [](const auto& policy) {
                           std::string name(policy.param->name());
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(EachPolicysForms, ChangeBetweenPassesWithinEveryCapacity) {
  const Watchdog watchdog;
  const FrozenModel& model = ManyMatrices();
  std::vector<Form> forms(kManyKinds.size(), Form::kThawed);
  const uint64_t full = FullCapacity(model.Map(forms), *GetParam());
  const auto cache = CacheOf(model.Map(forms), {.capacity_bytes = full, .policy = GetParam()});
  RunPass(*cache, model, forms);
  std::mt19937 random(1);
  for (int step = 0; step < 6; ++step) {
    for (Form& form : forms) form = kForms[random() % 3 < 1 ? 0 : 1 + step % 2];
    const TileMap map = model.Map(forms);
    const std::vector<char> none(static_cast<size_t>(map.tile_count()), 0);
    const uint64_t least = MinimumCapacity(map, *GetParam(), none);
    const uint64_t capacity = step % 3 == 0 ? least : least + random() % (full - least + 1);
    const auto changed = cache->SetForms(map, capacity);
    ASSERT_TRUE(changed) << changed.error().message;
    EXPECT_TRUE(*changed);
    EXPECT_LE(cache->capacity_bytes(), capacity);
    EXPECT_LE(HeldBytes(*cache), capacity);
    EXPECT_EQ(cache->map().span_bytes(), map.span_bytes());
    RunPass(*cache, model, forms);
    EXPECT_TRUE(cache->Verify(kKeepGoing));
    const CacheStatistics s = cache->Statistics();
    EXPECT_EQ(s.hits + s.misses, static_cast<uint64_t>((step + 2) * map.tile_count()));
    EXPECT_EQ(s.pinned_bytes, 0);
  }
}

TEST(FrozenForms, LeaveAloneWhatKeepsItsForm) {
  const FrozenModel& model = ManyMatrices();
  std::vector<Form> forms(kManyKinds.size(), Form::kCoded);
  const auto cache = CacheOf(model.Map(forms));
  RunPass(*cache, model, forms);
  forms[3] = Form::kThawed;
  const uint64_t unlimited = WeightCacheOptions::kUnlimited;
  ASSERT_TRUE(*cache->SetForms(model.Map(forms), unlimited));
  const CountedSince counted(*cache);
  RunPass(*cache, model, forms);
  EXPECT_EQ(counted.misses(), kTilesOfMatrix);
  EXPECT_EQ(cache->Statistics().resident_bytes, cache->map().weight_bytes());
  ASSERT_TRUE(*cache->SetForms(model.Map(forms), unlimited));
  RunPass(*cache, model, forms);
  EXPECT_EQ(counted.misses(), kTilesOfMatrix) << "nothing changed";
}

TEST(FrozenForms, DifferFromTileToTile) {
  const FrozenModel model(kBothKinds);
  const auto cache = CacheOf(model.Map(Form::kCoded));
  RunPass(*cache, model, std::vector<Form>(kBothKinds.size(), Form::kCoded));
  TileMap mixed = model.Map(Form::kCoded);
  mixed.SetThawed([](int32_t tile) { return tile % 2 == 1; });
  ASSERT_TRUE(*cache->SetForms(mixed, WeightCacheOptions::kUnlimited));
  const CountedSince counted(*cache);
  for (int32_t tile = 0; tile < mixed.tile_count(); ++tile) {
    const auto pinned = cache->Pin(tile);
    ASSERT_TRUE(pinned);
    const Form form = tile % 2 == 1 ? Form::kThawed : Form::kCoded;
    EXPECT_TRUE(IsExpected(model, tile, form, pinned->data())) << tile;
  }
  EXPECT_EQ(counted.misses(), mixed.tile_count() / 2) << "of those in the other form";
  EXPECT_TRUE(cache->Verify(kKeepGoing));
}

TEST(FrozenForms, StayWhileAHandleHoldsOneOfThem) {
  const FrozenModel model(kBothKinds);
  const auto cache = CacheOf(model.Map(Form::kCoded), {.prefetch_ahead = 0});
  auto pinned = cache->Pin(1);
  ASSERT_TRUE(pinned);
  const TileMap thawed = model.Map(Form::kThawed);
  const auto changed = cache->SetForms(thawed, WeightCacheOptions::kUnlimited);
  ASSERT_TRUE(changed);
  EXPECT_FALSE(*changed);
  EXPECT_TRUE(IsExpected(model, 1, Form::kCoded, pinned->data()));
  pinned = PinnedTile();
  EXPECT_TRUE(*cache->SetForms(thawed, WeightCacheOptions::kUnlimited));
  pinned = cache->Pin(1);
  ASSERT_TRUE(pinned);
  EXPECT_TRUE(IsExpected(model, 1, Form::kThawed, pinned->data()));
}

TEST(FrozenForms, ChangeNothingWhereTheCapacityIsTooSmall) {
  const FrozenModel& model = ManyMatrices();
  const std::vector<Form> coded(kManyKinds.size(), Form::kCoded);
  const auto cache = CacheOf(model.Map(coded));
  RunPass(*cache, model, coded);
  const CacheStatistics before = cache->Statistics();
  EXPECT_FALSE(cache->SetForms(model.Map(Form::kThawed), 4096));
  EXPECT_EQ(cache->Statistics().resident_bytes, before.resident_bytes);
  EXPECT_EQ(cache->capacity_bytes(), before.capacity_bytes);
  RunPass(*cache, model, coded);
}

// Others look at tiles, count and preload while forms change between the passes of this thread.
TEST(FrozenForms, ChangeWhileOthersLook) {
  const Watchdog watchdog;
  const FrozenModel& model = ManyMatrices();
  std::vector<Form> forms(kManyKinds.size(), Form::kCoded);
  const auto cache = CacheOf(model.Map(forms));
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!stop) EXPECT_TRUE(cache->Verify(kKeepGoing));
  });
  others.emplace_back([&] {
    while (!stop) EXPECT_TRUE(cache->Preload(kKeepGoing));
  });
  others.emplace_back([&] {
    for (int64_t row = 0; !stop; row = (row + 37) % kTileRows) {
      EXPECT_EQ(RowOf(*cache, 1, row).size(),
                static_cast<size_t>(RowBytes(ElementType::kQ8_0, kCols)));
      EXPECT_LE(cache->Statistics().resident_bytes, cache->map().weight_bytes());
    }
  });
  int changes = 0;
  std::mt19937 random(1);
  for (int step = 0; step < 20; ++step) {
    std::vector<Form> wanted = forms;
    for (Form& form : wanted) form = kForms[random() % 2];
    const auto changed = cache->SetForms(model.Map(wanted), WeightCacheOptions::kUnlimited);
    ASSERT_TRUE(changed) << changed.error().message;
    if (*changed) {
      forms = wanted;
      ++changes;
    }
    RunPass(*cache, model, forms);
  }
  stop = true;
  for (std::thread& other : others) other.join();
  EXPECT_GT(changes, 0);
}

}  // namespace
}  // namespace thaw
