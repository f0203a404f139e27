#include "model/kv_cache.h"

#include <algorithm>

#include "base/check.h"
#include "base/round_up.h"
#include "kernels/kernel_table.h"

namespace thaw {
namespace {

// Every head's keys and values begin on a cache line.
size_t ToLines(int64_t bytes) { return static_cast<size_t>(RoundUp(bytes, 64)); }

// How far a sequence may go back beyond what its windows need, in positions: a window, or this
// where windows are large. It costs as much memory.
constexpr int64_t kMostGoingBack = 1024;

// Positions that a layer holds.
int64_t HeldPositions(const KvSize& size, int64_t window) {
  if (window == 0) return size.n_positions;
  const int64_t wanted = window + size.max_batch + std::min(window, kMostGoingBack);
  const int64_t ring = RoundUp(wanted, kAttentionBlock);
  return std::min(ring, size.n_positions);
}

// How the keys by which a layer chooses are stored: as a matrix of them can be multiplied.
KvType IndexType(KvType type) { return IsPaired(type) ? KvType::kF16 : type; }

}  // namespace

Result<void> KvCache::CheckType(const ModelConfig& config, KvType type) {
  for (const LayerConfig& layer : config.layers) {
    for (const int64_t size : {layer.heads.size, layer.heads.v_size}) {
      if (CanStoreKv(type, size)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  "a KV cache of {} needs heads of a multiple of {} numbers, but this model's have "
                  "{}: take f16 or f32",
                  KvTypeName(type), kKvBlock, size);
    }
  }
  return {};
}

KvType KvCache::TypeToKeep(const ModelConfig& config, KvType type, const KernelTable& kernels) {
  return type == KvType::kF16 && CheckType(config, kernels.halves) ? kernels.halves : type;
}

std::vector<KvCache::Layer> KvCache::LayOut(const ModelConfig& config, const KvSize& size) {
  std::vector<Layer> layers;
  size_t offset = 0;
  for (const LayerConfig& attention : config.layers) {
    if (attention.kv_layer >= 0) {
      layers.push_back(layers[static_cast<size_t>(attention.kv_layer)]);
      continue;
    }
    const HeadShape& heads = attention.heads;
    const int64_t held = HeldPositions(size, attention.window.size);
    Layer layer{.heads = heads,
                .offset = offset,
                .key_bytes = ToLines(KeyBytes(size.type, heads.size, held)),
                .value_bytes = ToLines(ValueBytes(size.type, heads.v_size, held)),
                .held = held,
                .window = attention.window,
                .index_key_size = attention.index_key_size};
    offset += static_cast<size_t>(heads.n_kv) * (layer.key_bytes + layer.value_bytes);
    layer.index_offset = offset;
    offset += ToLines(held * KvRowBytes(IndexType(size.type), layer.index_key_size));
    layers.push_back(layer);
  }
  layers.push_back({.offset = offset});  // the end
  return layers;
}

uint64_t KvCache::Bytes(const ModelConfig& config, const KvSize& size) {
  return LayOut(config, size).back().offset + RecurrentState::Bytes(config);
}

uint64_t KvCache::BytesSeen(const ModelConfig& config, KvType type, int64_t length) {
  int64_t bytes = 0;
  for (const LayerConfig& layer : config.layers) {
    const HeadShape& heads = layer.heads;
    const int64_t visible = length - FirstVisible(layer.window, length - 1);
    const int64_t top_k = config.indexer.top_k;
    const int64_t positions = top_k == 0 ? visible : std::min(visible, top_k);
    bytes += visible * KvRowBytes(IndexType(type), layer.index_key_size);
    bytes +=
        positions * heads.n_kv * (KvRowBytes(type, heads.size) + KvRowBytes(type, heads.v_size));
  }
  return static_cast<uint64_t>(bytes) + RecurrentState::BytesOfOne(config);
}

Result<KvCache> KvCache::Create(const ModelConfig& config, const KvSize& size) {
  THAW_CHECK(size.n_positions >= 1 && size.max_batch >= 1);
  THAW_TRY(CheckType(config, size.type));
  KvCache cache;
  cache.size_ = size;
  cache.layers_ = LayOut(config, size);
  const size_t bytes = cache.layers_.back().offset;
  cache.layers_.pop_back();
  THAW_ASSIGN(
      cache.memory_,
      AlignedBuffer::Allocate(bytes, fmt::format("a KV cache of {} positions", size.n_positions)));
  THAW_ASSIGN(cache.states_, RecurrentState::Create(config));
  return cache;
}

void KvCache::Extend(int64_t length) {
  THAW_CHECK(length >= length_ && length <= size_.n_positions);
  states_.Extend(length_, length);
  length_ = length;
  longest_ = std::max(longest_, length);
}

int64_t KvCache::GoBack(int64_t length) {
  THAW_CHECK(length >= 0 && length <= length_);
  length = states_.GoBack(length_, length);
  // A pass that failed may have stored a batch behind the longest.
  const int64_t stored = longest_ + size_.max_batch;
  const bool is_held = std::ranges::all_of(layers_, [&](const Layer& layer) {
    return layer.held == size_.n_positions || length == length_ ||
           FirstVisible(layer.window, length) + layer.held >= stored;
  });
  if (!is_held) length = states_.GoBack(length, 0);
  length_ = length;
  if (length_ == 0) longest_ = 0;
  return length_;
}

void KvCache::Store(const KernelTable& kernels, int64_t layer, int64_t kv_head, int64_t position,
                    const float* key, const float* value) {
  THAW_CHECK(position >= 0 && position < size_.n_positions);
  const Layer& of = layers_[static_cast<size_t>(layer)];
  const int64_t at = position % of.held;
  StoreKey(kernels, key, of.heads.size, size_.type, at, Keys(layer, kv_head));
  StoreValue(kernels, value, of.heads.v_size, size_.type, at, Values(layer, kv_head));
}

std::byte* KvCache::Keys(int64_t layer, int64_t kv_head) {
  const Layer& of = layers_[static_cast<size_t>(layer)];
  return memory_.data() + of.offset +
         static_cast<size_t>(kv_head) * (of.key_bytes + of.value_bytes);
}

std::byte* KvCache::Values(int64_t layer, int64_t kv_head) {
  return Keys(layer, kv_head) + layers_[static_cast<size_t>(layer)].key_bytes;
}

void KvCache::StoreIndexKey(const KernelTable& kernels, int64_t layer, int64_t position,
                            const float* key) {
  THAW_CHECK(position >= 0 && position < size_.n_positions);
  const Layer& of = layers_[static_cast<size_t>(layer)];
  const KvType type = IndexType(size_.type);
  kernels.store_kv(
      key, of.index_key_size, type,
      memory_.data() + of.index_offset + position * KvRowBytes(type, of.index_key_size));
}

WeightRows KvCache::IndexKeys(int64_t layer, int64_t first, int64_t count) const {
  const Layer& of = layers_[static_cast<size_t>(layer)];
  const KvType type = IndexType(size_.type);
  return {.type = type == KvType::kF32   ? ElementType::kF32
                  : type == KvType::kF16 ? ElementType::kF16
                                         : ElementType::kBF16,
          .data = memory_.data() + of.index_offset + first * KvRowBytes(type, of.index_key_size),
          .n_rows = count,
          .k = of.index_key_size};
}

int64_t KvCache::Ring(int64_t layer) const {
  const int64_t held = layers_[static_cast<size_t>(layer)].held;
  return held == size_.n_positions ? 0 : held;
}

}  // namespace thaw
