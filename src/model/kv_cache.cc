#include "model/kv_cache.h"

#include "base/check.h"
#include "kernels/kernel_table.h"

namespace thaw {
namespace {

// Every head's keys and values begin on a cache line.
size_t AlignUp(int64_t bytes) { return (static_cast<size_t>(bytes) + 63) / 64 * 64; }

struct HeadBytes {
  size_t keys;
  size_t values;
};

HeadBytes BytesOfHead(const ModelConfig& config, KvType type, int64_t n_positions) {
  return {AlignUp(KeyBytes(type, config.head_dim, n_positions)),
          AlignUp(n_positions * KvRowBytes(type, config.v_head_dim))};
}

}  // namespace

Result<void> KvCache::CheckType(const ModelConfig& config, KvType type) {
  for (const int64_t size : {config.head_dim, config.v_head_dim}) {
    if (CanStoreKv(type, size)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "a KV cache of {} needs heads of a multiple of {} numbers, but this model's have "
                "{}: take f16 or f32",
                KvTypeName(type), kKvBlock, size);
  }
  return {};
}

uint64_t KvCache::Bytes(const ModelConfig& config, KvType type, int64_t n_positions) {
  const HeadBytes head = BytesOfHead(config, type, n_positions);
  return static_cast<uint64_t>(config.n_layers * config.n_kv_heads) * (head.keys + head.values);
}

Result<KvCache> KvCache::Create(const ModelConfig& config, KvType type, int64_t n_positions) {
  THAW_CHECK(n_positions >= 1);
  THAW_TRY(CheckType(config, type));
  KvCache cache;
  cache.type_ = type;
  cache.capacity_ = n_positions;
  cache.n_kv_heads_ = config.n_kv_heads;
  cache.head_dim_ = config.head_dim;
  cache.v_head_dim_ = config.v_head_dim;
  const HeadBytes head = BytesOfHead(config, type, n_positions);
  cache.key_bytes_ = head.keys;
  cache.value_bytes_ = head.values;
  THAW_ASSIGN(cache.memory_,
              AlignedBuffer::Allocate(Bytes(config, type, n_positions),
                                      fmt::format("a KV cache of {} positions", n_positions)));
  return cache;
}

void KvCache::SetLength(int64_t length) {
  THAW_CHECK(length >= 0 && length <= capacity_);
  length_ = length;
}

void KvCache::Store(const KernelTable& kernels, int64_t layer, int64_t kv_head, int64_t position,
                    const float* key, const float* value) {
  THAW_CHECK(position >= 0 && position < capacity_);
  StoreKey(kernels, key, head_dim_, type_, position, Keys(layer, kv_head));
  kernels.store_kv(value, v_head_dim_, type_,
                   Values(layer, kv_head) + position * KvRowBytes(type_, v_head_dim_));
}

std::byte* KvCache::Keys(int64_t layer, int64_t kv_head) {
  return memory_.data() +
         static_cast<size_t>(layer * n_kv_heads_ + kv_head) * (key_bytes_ + value_bytes_);
}

std::byte* KvCache::Values(int64_t layer, int64_t kv_head) {
  return Keys(layer, kv_head) + key_bytes_;
}

}  // namespace thaw
