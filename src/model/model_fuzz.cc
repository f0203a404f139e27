// Opens the bytes as a model, and where they describe one, runs a few tokens through it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/memory_file.h"
#include "model/model.h"

namespace thaw {
namespace {

constexpr int64_t kContext = 40;
constexpr int64_t kChunk = 20;  // more than a block of positions is not worth its time here

// Two chunks of a prompt; what comes of it is not looked at, but for errors.
void RunPrompt(Model& model) {
  const ModelConfig& config = model.config();
  auto kv =
      KvCache::Create(config, {.type = KvType::kF32, .n_positions = kContext, .max_batch = kChunk});
  THAW_CHECK(kv);
  for (int64_t begin = 0; begin < kContext; begin += kChunk) {
    std::vector<BatchToken> batch;
    for (int64_t i = begin; i < begin + kChunk; ++i) {
      batch.push_back({.token = static_cast<int32_t>(i * 7 % config.n_vocab),
                       .position = i,
                       .kv = &*kv,
                       .wants_logits = i + 1 == begin + kChunk});
    }
    std::vector<float> logits(static_cast<size_t>(config.n_vocab));
    const auto done = model.Forward(batch, logits, nullptr);
    if (done) continue;
    THAW_CHECK(!done.error().message.empty());
    return;
  }
}

void Run(ModelDescription description) {
  auto map = TileMap::Create(description.matrices);
  if (!map) return;
  auto cache = WeightCache::Create(*std::move(map), {.io_threads = 1, .use_uring = false});
  if (!cache) return;
  const auto kernels = SelectKernels("");
  THAW_CHECK(kernels);
  ThreadPool pool(/*thread_count=*/1);
  auto model = Model::Create(std::move(description), **cache, **kernels, pool,
                             {.max_batch = kChunk, .max_context = kContext});
  if (model) RunPrompt(**model);
}

}  // namespace
}  // namespace thaw

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto file = thaw::GgufFile::Open(std::make_shared<thaw::MemoryFile>("fuzz.gguf", bytes));
  if (!file) return 0;
  auto description = thaw::DescribeModel(*file);
  if (!description) {
    THAW_CHECK(description.error().message.find("fuzz.gguf") != std::string::npos);
    return 0;
  }
  thaw::Run(*std::move(description));
  return 0;
}
