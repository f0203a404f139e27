// Weights that have two forms, frozen ones and points of grids, are held as the budget of the
// moment asks for, and what is computed stays the same.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/sanitizer_test_support.h"
#include "engine/engine.h"
#include "engine/freeze.h"
#include "engine/rates_file.h"
#include "engine/session.h"
#include "engine/shape_model.h"
#include "io/temporary_directory.h"
#include "kernels/self_check.h"

namespace thaw {
namespace {

constexpr auto kNoProgress = [](uint64_t, uint64_t) { return true; };
constexpr uint64_t kMiB = uint64_t{1} << 20;

// Some 27 MiB of weights in bfloat16, of which freezing leaves two thirds.
constexpr ModelShape kShape = {.name = "test",
                               .n_layers = 6,
                               .d_model = 512,
                               .d_ff = 1024,
                               .n_heads = 8,
                               .n_kv_heads = 4,
                               .head_dim = 64,
                               .n_vocab = 1024,
                               .context_length = 128};
constexpr int64_t kTokens = 40;

// Some 27 MiB of points of IQ1_S, which thaw to 37.
constexpr ModelShape kGridShape = {.name = "grids",
                                   .n_layers = 6,
                                   .d_model = 1536,
                                   .d_ff = 4096,
                                   .n_heads = 12,
                                   .n_kv_heads = 6,
                                   .head_dim = 128,
                                   .n_vocab = 1024,
                                   .context_length = 128};

// What a tile takes once it is thawed.
uint64_t ThawedBytes(const TileMap& map, int32_t tile) {
  const WeightMatrix& matrix = map.matrix_of(tile);
  return static_cast<uint64_t>(map.tile(tile).row_count *
                               RowBytes(matrix.thawed_type(), matrix.cols));
}

enum class Weights { kFrozen, kGrids };

class FormsWithinBudget : public ::testing::TestWithParam<Weights> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(GetParam() == Weights::kFrozen ? WriteFrozen() : WriteGrids());
    SaveRatesThatThaw();
    for (int64_t i = 0; i < kTokens; ++i) tokens_.push_back(static_cast<int32_t>(i * 37 % 1024));
    const auto engine = Load(Tier::kCoded);
    expected_ = LogitsOf(*engine);
  }

  void WriteGrids() {
    ASSERT_TRUE(WriteShapeModel(kGridShape, ElementType::kIQ1_S, /*seed=*/5, path_, kNoProgress));
  }

  void WriteFrozen() {
    const std::string plain = folder_.PathOf("plain.gguf");
    ASSERT_TRUE(WriteShapeModel(kShape, ElementType::kBF16, /*seed=*/5, plain, kNoProgress));
    const FreezeOptions freeze{.input = plain,
                               .output = path_,
                               .goal = {.kind = FreezeGoal::Kind::kLossless},
                               .kept = {},
                               .importance = {},
                               .budget = {},
                               .threads = 2};
    const auto frozen = FreezeModel(freeze, {.on_progress = [](FreezePhase, uint64_t, uint64_t) {},
                                             .on_note = [](std::string_view) {}});
    ASSERT_TRUE(frozen) << frozen.error().message;
  }

  // In the order of coded and thawed.
  static std::array<WeightForm, 2> Forms() {
    if (GetParam() == Weights::kGrids) return {ElementType::kIQ1_S, ElementType::kThawedIQ1_S};
    return {WeightForm(ElementType::kBF16, /*coded=*/true), ElementType::kBF16};
  }

  // As if products of thawed weights had been measured to be twice as fast.
  void SaveRatesThatThaw() {
    const ElementType types[] = {Forms()[0].type, Forms()[1].type};
    const auto kernels = SelectCheckedKernels("", types);
    ASSERT_TRUE(kernels);
    kernels_ = (*kernels)->name;
    MachineRates rates;
    rates.buffer_bytes = kMeasuredBytes;
    rates.memory_bytes_per_second = 1e10;
    rates.fork_join_seconds = 1e-6;
    double bytes_per_second = 5e9;
    for (const WeightForm& form : Forms()) {
      rates.Set({.type = form,
                 .decode_bytes_per_second = bytes_per_second,
                 .prefill_bytes_per_second = 1e10});
      bytes_per_second *= 2;
    }
    ASSERT_TRUE(SaveRates(rates_, IdentifyMachine(**kernels, kThreads), rates));
  }

  EngineOptions Options(Tier tier, std::string_view budget = "1GiB") const {
    EngineOptions options;
    options.threads = kThreads;
    options.kernels = kernels_;
    options.kv_type = KvType::kF32;
    options.context = kTokens;
    options.prefill_chunk = 4;
    options.tier = tier;
    options.rates_path = rates_;
    options.reserved_bytes = 128 * kMiB;  // more than this process ever held, so that plans count
    options.budget = *ParseBudget(budget);
    return options;
  }

  std::unique_ptr<Engine> Load(Tier tier, std::string_view budget = "1GiB") {
    auto engine = Engine::Load(path_, Options(tier, budget), kNoProgress);
    EXPECT_TRUE(engine) << engine.error().message;
    return engine ? *std::move(engine) : nullptr;
  }

  // `between` is called after each pass.
  template <typename Between>
  std::vector<float> LogitsOf(Engine& engine, Between between) {
    std::vector<float> all;
    const auto done =
        engine.ComputeLogits(tokens_, [&](std::span<const float> rows) -> Result<void> {
          all.insert(all.end(), rows.begin(), rows.end());
          between();
          return {};
        });
    EXPECT_TRUE(done) << done.error().message;
    return all;
  }
  std::vector<float> LogitsOf(Engine& engine) {
    return LogitsOf(engine, [] {});
  }

  void ExpectTheSame(const std::vector<float>& logits) const {
    ASSERT_EQ(logits.size(), expected_.size());
    EXPECT_EQ(std::memcmp(logits.data(), expected_.data(), logits.size() * sizeof(float)), 0);
  }

  // All shares but that of the weights.
  static uint64_t Others(const MemoryPlan& plan) {
    return plan.claimed_bytes() - plan.weight_capacity_bytes;
  }

  // Budgets that leave the weights so much: all of them thawed, some, none, and not even all of
  // them coded.
  std::vector<uint64_t> Budgets(const Engine& engine) const {
    const MemoryPlan plan = engine.plan();
    const uint64_t others = Others(plan);
    const TileMap& map = engine.weights().map();
    const uint64_t coded = map.weight_bytes() + 2 * kMiB;  // a huge page that is not full
    uint64_t thawed = 3 * kMiB;                            // and what tiles are rounded up by
    for (int32_t i = 0; i < map.tile_count(); ++i) thawed += ThawedBytes(map, i);
    EXPECT_GT(thawed, coded + 4 * kMiB);
    return {others + thawed, others + (2 * coded + thawed) / 3, others + coded, others + coded / 2,
            others + (coded + 2 * thawed) / 3};
  }

  static void SetBudget(Engine& engine, uint64_t bytes) {
    const auto set = engine.SetBudget({.base = BudgetRequest::Base::kNothing, .bytes = bytes});
    EXPECT_TRUE(set) << set.error().message;
  }

  // As many thawed, in the order of their visits, as all have places with; none where they do not
  // have them coded.
  static void ExpectTheFormsOf(const Engine& engine, uint64_t budget) {
    const MemoryPlan plan = engine.plan();
    const TileMap& map = engine.weights().map();
    const uint64_t room = (budget - Others(plan)) / kHugePageBytes * kHugePageBytes;
    EXPECT_LE(plan.claimed_bytes(), budget);
    bool is_after_coded = false;
    uint64_t growth = 0;  // what the first that is coded would take more
    for (int32_t i = 0; i < map.tile_count(); ++i) {
      if (!map.changes_form(i)) continue;
      const Tile& tile = map.tile(i);
      EXPECT_TRUE(!is_after_coded || !tile.is_thawed) << map.Describe(i);
      if (!is_after_coded && !tile.is_thawed) {
        growth = ThawedBytes(map, i) - tile.span_bytes;
        is_after_coded = true;
      }
    }
    EXPECT_TRUE(plan.thawed_bytes == 0 || map.span_bytes() <= room);
    EXPECT_TRUE(!is_after_coded || map.span_bytes() + growth > room);
    EXPECT_EQ(plan.shares.HoldsAll(), map.span_bytes() <= room);
  }

  // What the tiles take that are in memory.
  static uint64_t HeldBytes(const Engine& engine) {
    const WeightCache& cache = engine.weights();
    uint64_t bytes = 0;
    for (int32_t tile = 0; tile < cache.map().tile_count(); ++tile) {
      if (cache.IsResident(tile)) bytes += cache.map().tile(tile).memory_bytes;
    }
    return bytes;
  }

  static void ExpectConsistentStatistics(const Engine& engine) {
    const CacheStatistics s = engine.cache_statistics();
    EXPECT_EQ(s.pinned_bytes, 0);
    EXPECT_LE(s.resident_bytes, s.capacity_bytes);
    EXPECT_EQ(s.weight_bytes, engine.plan().weight_bytes);
    uint64_t visits = 0;
    uint64_t resident = 0;
    for (const MatrixStatistics& matrix : engine.weights().PerMatrix()) {
      visits += matrix.visits;
      resident += matrix.resident_bytes;
    }
    EXPECT_EQ(visits, s.hits + s.misses);
    EXPECT_LE(resident, s.weight_bytes);
  }

  static constexpr int kThreads = 2;
  const TemporaryDirectory folder_;
  const std::string path_ = folder_.PathOf("model.gguf");
  const std::string rates_ = folder_.PathOf("rates");
  std::string kernels_;
  std::vector<int32_t> tokens_;
  std::vector<float> expected_;
};

TEST_P(FormsWithinBudget, DecidesTheFormsOfWeightsAlsoWhileItChangesBetweenPasses) {
  const auto engine = Load(Tier::kAuto);
  const std::vector<uint64_t> budgets = Budgets(*engine);
  EXPECT_EQ(engine->plan().coded_bytes, 0);
  size_t step = 0;
  std::vector<uint64_t> thawed;  // bytes, by budget
  for (int round = 0; round < 2; ++round) {
    ExpectTheSame(LogitsOf(*engine, [&] {
      EXPECT_LE(HeldBytes(*engine), engine->plan().weight_capacity_bytes);
      const uint64_t budget = budgets[step++ % budgets.size()];
      SetBudget(*engine, budget);
      ExpectTheFormsOf(*engine, budget);
      EXPECT_LE(HeldBytes(*engine), engine->plan().weight_capacity_bytes);
      if (thawed.size() < budgets.size()) thawed.push_back(engine->plan().thawed_bytes);
    }));
    ExpectConsistentStatistics(*engine);
  }
  ASSERT_EQ(thawed.size(), 5U);
  EXPECT_GT(thawed[0], thawed[4]);
  EXPECT_GT(thawed[4], thawed[1]);
  EXPECT_GT(thawed[1], 0U);
  EXPECT_EQ(thawed[3], 0U);
}

TEST_P(FormsWithinBudget, DecidesAsItDoesAtAStart) {
  const auto engine = Load(Tier::kAuto);
  const uint64_t others = Others(engine->plan());
  for (const uint64_t budget : Budgets(*engine)) {
    // The program has grown since, under sanitizers by hundreds of MiB; the weights are to have the
    // same.
    const auto probe = Engine::Plan(path_, Options(Tier::kAuto));
    ASSERT_TRUE(probe) << probe.error().message;
    const std::string of_start = fmt::format("{}", Others(*probe) + budget - others);
    const auto start = Engine::Plan(path_, Options(Tier::kAuto, of_start));
    ASSERT_TRUE(start) << start.error().message;
    SetBudget(*engine, Others(engine->plan()) + start->budget_bytes - Others(*start));
    const MemoryPlan plan = engine->plan();
    EXPECT_EQ(plan.thawed_bytes, start->thawed_bytes);
    EXPECT_EQ(plan.coded_bytes, start->coded_bytes);
    EXPECT_EQ(plan.weight_capacity_bytes, start->weight_capacity_bytes);
  }
}

TEST_P(FormsWithinBudget, OfASmallStartThawsWhenItGrows) {
  const auto engine = Load(Tier::kAuto, "floor+8MiB");
  EXPECT_EQ(engine->plan().thawed_bytes, 0);
  ExpectTheSame(LogitsOf(*engine));
  SetBudget(*engine, 1 << 30);
  EXPECT_EQ(engine->plan().coded_bytes, 0);
  ExpectTheSame(LogitsOf(*engine));
  EXPECT_TRUE(engine->weights().Verify(kNoProgress));
}

TEST_P(FormsWithinBudget, ChangesWhileOthersCompute) {
  const auto engine = Load(Tier::kAuto);
  const std::vector<uint64_t> budgets = Budgets(*engine);
  std::atomic<bool> stop{false};
  int changes = 0;
  // As fast as they can be made, each may drop what a pass has just read, and was to read again.
  constexpr int kMostChanges = 4000;
  std::thread changer([&] {
    for (; !stop.load() && changes < kMostChanges; ++changes) {
      SetBudget(*engine, budgets[static_cast<size_t>(changes) % budgets.size()]);
      const CacheStatistics s = engine->cache_statistics();
      EXPECT_LE(s.resident_bytes - std::min(s.resident_bytes, s.pinned_bytes), s.capacity_bytes);
    }
  });
  // Of ten passes each. ThreadSanitizer, ten times as slow, needs no rare meeting to see a race.
  const int rounds = kHasThreadSanitizer ? 2 : 6;
  for (int round = 0; round < rounds; ++round) ExpectTheSame(LogitsOf(*engine));
  stop = true;
  changer.join();
  EXPECT_GT(changes, 0);
  for (const uint64_t budget : budgets) {
    SetBudget(*engine, budget);
    ExpectTheFormsOf(*engine, budget);
  }
  ExpectTheSame(LogitsOf(*engine));
  ExpectConsistentStatistics(*engine);
}

// All weights are to have places for good: thawed they do not fit into the lower budget.
TEST_P(FormsWithinBudget, WaitsForThePassWhereOnlyOtherFormsFit) {
  EngineOptions options = Options(Tier::kAuto);
  options.pinned = {"*"};
  const auto engine = Engine::Load(path_, options, kNoProgress);
  ASSERT_TRUE(engine) << engine.error().message;
  const std::vector<uint64_t> budgets = Budgets(**engine);
  std::atomic<bool> stop{false};
  int falls = 0;
  std::thread changer([&] {
    for (; !stop.load(); ++falls) {
      SetBudget(**engine, budgets[0]);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the next pass thaws
      SetBudget(**engine, budgets[1]);
      EXPECT_GT((*engine)->plan().coded_bytes, 0);
    }
  });
  for (int round = 0; round < 4; ++round) ExpectTheSame(LogitsOf(**engine));
  stop = true;
  changer.join();
  EXPECT_GT(falls, 0);
  ExpectConsistentStatistics(**engine);
}

TEST_P(FormsWithinBudget, LeavesFormsThatWereAskedForAsTheyAre) {
  for (const Tier tier : {Tier::kCoded, Tier::kThawed}) {
    const auto engine = Load(tier);
    const MemoryPlan before = engine->plan();
    EXPECT_EQ(before.thawed_bytes == 0, tier == Tier::kCoded);
    EXPECT_EQ(before.coded_bytes == 0, tier == Tier::kThawed);
    for (const uint64_t budget : Budgets(*engine)) {
      SetBudget(*engine, budget);
      ExpectTheSame(LogitsOf(*engine));
      EXPECT_EQ(engine->plan().thawed_bytes, before.thawed_bytes);
      EXPECT_EQ(engine->plan().coded_bytes, before.coded_bytes);
    }
  }
}

TEST_P(FormsWithinBudget, TellsTheTimeOfCodedProductsApart) {
  for (const Tier tier : {Tier::kCoded, Tier::kThawed}) {
    const auto engine = Load(tier);
    EXPECT_EQ(engine->pass_times().coded_products, 0);
    LogitsOf(*engine);
    const PassTimes times = engine->pass_times();
    const bool decodes = GetParam() == Weights::kFrozen && tier == Tier::kCoded;
    EXPECT_EQ(times.coded_products > 0, decodes);
    EXPECT_LE(times.coded_products, kThreads * times.matmul);
    EXPECT_GT(engine->cache_statistics().thaw_seconds, 0);
  }
}

TEST_P(FormsWithinBudget, GivesASecondSequenceWhatCodedWeightsLeave) {
  const auto engine = Load(Tier::kAuto);
  SetBudget(*engine, engine->plan().claimed_bytes());
  EXPECT_EQ(engine->plan().coded_bytes, 0);
  const auto first = engine->NewSession();
  ASSERT_TRUE(first) << first.error().message;
  {
    const auto second = engine->NewSession();
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_GT(engine->plan().coded_bytes, 0);
    EXPECT_TRUE(engine->plan().shares.HoldsAll());
  }
  EXPECT_EQ(engine->plan().coded_bytes, 0);
}

// From budgets that leave weights on disk to those that hold all of them coded, and then thawed.
TEST_P(FormsWithinBudget, AreThoseOfEachBudgetThatThePlanLooksAt) {
  const auto report = Engine::Forecast(path_, Options(Tier::kAuto), {.cache_path = rates_});
  ASSERT_TRUE(report) << report.error().message;
  const std::vector<BudgetPoint>& curve = report->curve;
  EXPECT_GT(curve.front().read_bytes_per_token, 0);
  EXPECT_EQ(curve.back().read_bytes_per_token, 0);
  EXPECT_DOUBLE_EQ(curve.back().decode_tok_per_s, report->speed.decode_tok_per_s);
  const auto resident = std::ranges::find(curve, 0, &BudgetPoint::read_bytes_per_token);
  EXPECT_LT(resident->decode_tok_per_s, 0.9 * curve.back().decode_tok_per_s) << "still coded";
  EXPECT_TRUE(std::ranges::is_sorted(resident, curve.end(), {}, &BudgetPoint::decode_tok_per_s));
}

INSTANTIATE_TEST_SUITE_P(, FormsWithinBudget, ::testing::Values(Weights::kFrozen, Weights::kGrids),
                         [](const auto& test) {
                           return test.param == Weights::kFrozen ? "Frozen" : "Grids";
                         });

}  // namespace
}  // namespace thaw
