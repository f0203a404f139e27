#include "tokenizer/symbol_merger.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

namespace thaw {
namespace {

using Rules = std::map<std::pair<int32_t, int32_t>, Merge>;

std::vector<int32_t> MergeAll(SymbolMerger& merger, const std::vector<int32_t>& ids,
                              const Rules& rules) {
  merger.Clear();
  for (const int32_t id : ids) merger.Add(id, 1);
  merger.Run([&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const auto found = rules.find({left.id, right.id});
    if (found == rules.end()) return std::nullopt;
    return found->second;
  });
  std::vector<int32_t> out;
  merger.ForEach([&](const Symbol& symbol) { out.push_back(symbol.id); });
  return out;
}

// The definition: look at all pairs, merge the best, start over.
std::vector<int32_t> MergeByDefinition(std::vector<int32_t> ids, const Rules& rules) {
  while (true) {
    size_t best = ids.size();
    Merge merge{UINT32_MAX, 0};
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = rules.find({ids[i], ids[i + 1]});
      if (found == rules.end() || found->second.rank >= merge.rank) continue;
      best = i;
      merge = found->second;
    }
    if (best == ids.size()) return ids;
    ids[best] = merge.id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(SymbolMergerTest, TheLowestRankIsMergedFirst) {
  SymbolMerger merger;
  const Rules rules = {{{1, 2}, {1, 12}}, {{2, 3}, {0, 23}}};
  EXPECT_EQ(MergeAll(merger, {1, 2, 3}, rules), (std::vector<int32_t>{1, 23}));
  EXPECT_EQ(MergeAll(merger, {1, 2, 1}, rules), (std::vector<int32_t>{12, 1}));
  EXPECT_EQ(MergeAll(merger, {}, rules), std::vector<int32_t>{});
}

TEST(SymbolMergerTest, OfEqualRanksTheLeftmostIsMergedFirst) {
  SymbolMerger merger;
  EXPECT_EQ(MergeAll(merger, {1, 1, 1}, {{{1, 1}, {0, 2}}}), (std::vector<int32_t>{2, 1}));
}

TEST(SymbolMergerTest, AgreesWithTheDefinitionOnRandomRules) {
  std::mt19937 random(3);
  SymbolMerger merger;
  for (int round = 0; round < 3000; ++round) {
    Rules rules;
    for (int i = 0; i < 8; ++i) {
      const auto symbol = [&] { return static_cast<int32_t>(random() % 5); };
      rules.emplace(std::pair{symbol(), symbol()},
                    Merge{static_cast<uint32_t>(random() % 4), symbol()});
    }
    std::vector<int32_t> ids(random() % 20);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 5);
    ASSERT_EQ(MergeAll(merger, ids, rules), MergeByDefinition(ids, rules));
  }
}

}  // namespace
}  // namespace thaw
