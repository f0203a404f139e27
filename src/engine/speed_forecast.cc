#include "engine/speed_forecast.h"

#include <algorithm>

#include "base/check.h"

namespace thaw {
namespace {

// Loops over threads in the forward pass of one token: norm, q/k/v, heads, attention, quantizing,
// output, norm, gate/up, activation, down, adding.
constexpr int64_t kLoopsPerLayer = 11;

// Of the rate that a disk gives to a machine at rest, what it gives while weights are computed
// with: both use the memory. 0.58 to 0.92 were measured in virtual machines, now the one, now the
// other (docs/measurements.md).
constexpr double kDiskShareBesideCompute = 0.72;

// Of the shorter of reading and computing, what does not hide behind the longer.
constexpr double kUnhidden = 0.1;

// Products that run at this share of the rate of plain reading are held up by memory.
constexpr double kMemoryBound = 0.75;

}  // namespace

std::vector<TypeBytes> BytesByType(const TileMap& map) {
  std::vector<TypeBytes> all;
  for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
    const WeightMatrix& matrix = map.matrix_of(tile);
    const Tile& where = map.tile(tile);
    const WeightForm type(where.type, where.is_coded);
    auto found = std::ranges::find(all, type, &TypeBytes::type);
    if (found == all.end()) found = all.insert(all.end(), {.type = type, .bytes = 0});
    const auto rows = static_cast<double>(where.row_count * RowBytes(where.type, matrix.cols));
    found->bytes +=
        static_cast<uint64_t>(map.visited_bytes(tile) * rows / static_cast<double>(where.bytes));
  }
  return all;
}

SpeedForecast ForecastSpeed(const MemoryPlan& plan, const ModelConfig& config, const TileMap& map,
                            const MachineRates& rates, std::string_view device) {
  const std::vector<TypeBytes> weights = BytesByType(map);
  const double products = rates.DecodeSeconds(weights);
  const double loops = static_cast<double>(config.n_layers * kLoopsPerLayer + 2);
  SpeedForecast forecast;
  forecast.compute_seconds = products + loops * rates.fork_join_seconds +
                             static_cast<double>(plan.kv_bytes / 2) / rates.memory_bytes_per_second;
  if (plan.bytes_read_per_token() > 0) {
    const DiskRate* disk = rates.FindDisk(device);
    THAW_CHECK(disk != nullptr);
    forecast.disk_seconds =
        plan.shares.read_bytes_per_token / (kDiskShareBesideCompute * disk->bytes_per_second);
  }
  const auto [less, more] = std::minmax(forecast.compute_seconds, forecast.disk_seconds);
  forecast.decode_tok_per_s = 1 / (more + kUnhidden * less);
  const double read_seconds = map.visited_memory_bytes() / rates.memory_bytes_per_second;
  if (forecast.disk_seconds > forecast.compute_seconds) {
    forecast.bound_by = "disk";
  } else {
    forecast.bound_by = read_seconds >= kMemoryBound * products ? "memory" : "compute";
  }
  return forecast;
}

uint64_t Knee(std::span<const BudgetPoint> curve) {
  double best = 0;
  for (const BudgetPoint& point : curve) best = std::max(best, point.decode_tok_per_s);
  for (const BudgetPoint& point : curve) {
    if (point.decode_tok_per_s >= 0.9 * best) return point.budget_bytes;
  }
  return 0;
}

}  // namespace thaw
