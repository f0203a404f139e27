#include <algorithm>
#include <string_view>

#include "model/config_reading.h"

namespace thaw {
namespace {

// The heads and ranks of time mixing, whose two blocks have a token shift each.
Result<void> ReadTimeMix(const GgufFile& file, const MetadataReader& metadata,
                         ModelConfig& config) {
  constexpr std::string_view kHeadSize = "wkv.head_size";
  constexpr std::string_view kShifts = "token_shift_count";
  constexpr uint64_t kShiftsOfLayer = 2;
  RecurrenceConfig& of = config.recurrence;
  THAW_ASSIGN(of.keys, metadata.Size(kHeadSize, kMaxStateKeys));
  if (config.d_model % of.keys != 0) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected a divisor of the width {}",
                file.path(), metadata.Key(kHeadSize), of.keys, config.d_model);
  }
  THAW_ASSIGN(const uint64_t shifts, file.GetUintOr(metadata.Key(kShifts), kShiftsOfLayer));
  if (shifts != kShiftsOfLayer) {
    return Fail(ErrorCode::kUnsupported, "{}: field '{}' is {}; supported is: {}", file.path(),
                metadata.Key(kShifts), shifts, kShiftsOfLayer);
  }
  of.taps = 2;
  of.inner = config.d_model;
  of.heads = of.groups = config.d_model / of.keys;
  of.convolved = static_cast<int64_t>(kShiftsOfLayer) * config.d_model;
  THAW_ASSIGN(of.ranks.decay, metadata.Size("attention.decay_lora_rank", kMaxWidth));
  THAW_ASSIGN(of.ranks.rate, metadata.Size("attention.iclr_lora_rank", kMaxWidth));
  THAW_ASSIGN(of.ranks.value, metadata.Size("attention.value_residual_mix_lora_rank", kMaxWidth));
  THAW_ASSIGN(of.ranks.gate, metadata.Size("attention.gate_lora_rank", kMaxWidth));
  return {};
}

}  // namespace

Result<void> ReadRecurrence(const GgufFile& file, const MetadataReader& metadata,
                            ModelConfig& config) {
  const Family& family = *config.family;
  const Recurrence kind = family.recurrence;
  if (kind == Recurrence::kNone) return {};
  for (LayerConfig& layer : config.layers) {
    const bool is_other_block = layer.heads.n != 0 || (family.is_one_block && layer.has_block());
    layer.recurs = family.attention_layers == AttentionLayers::kAll || !is_other_block;
  }
  if (kind == Recurrence::kTimeMix) return ReadTimeMix(file, metadata, config);
  RecurrenceConfig& of = config.recurrence;
  if (kind == Recurrence::kShortConvolution) {
    THAW_ASSIGN(of.taps, metadata.Size("shortconv.l_cache", kMaxTaps));
    of.inner = of.convolved = config.d_model;
    return {};
  }
  THAW_ASSIGN(of.taps, metadata.Size("ssm.conv_kernel", kMaxTaps));
  if (kind == Recurrence::kChannelDelta) {
    THAW_ASSIGN(of.heads, metadata.Size("attention.head_count", kMaxWidth));
    const uint64_t widest = kMaxWidth / static_cast<uint64_t>(of.heads);
    THAW_ASSIGN(of.keys, metadata.Size("kda.head_dim", std::min(kMaxStateKeys, widest)));
    of.groups = of.heads;
    of.rank = of.keys;
    of.inner = of.heads * of.keys;
    of.convolved = 3 * of.inner;
    return {};
  }
  THAW_ASSIGN(of.inner, metadata.Size("ssm.inner_size", kMaxWidth));
  THAW_ASSIGN(of.keys, metadata.Size("ssm.state_size", kMaxStateKeys));
  if (kind == Recurrence::kMamba) {
    THAW_ASSIGN(of.rank, metadata.Size("ssm.time_step_rank", kMaxWidth));
    THAW_ASSIGN(of.norms_steps, file.GetBoolOr(metadata.Key("ssm.dt_b_c_rms"), false));
    of.heads = of.groups = 1;
    of.convolved = of.inner;
    return {};
  }
  THAW_ASSIGN(of.heads, metadata.Size("ssm.time_step_rank", kMaxWidth));
  THAW_ASSIGN(of.groups, metadata.Size("ssm.group_count", kMaxWidth));
  if (of.inner % of.heads != 0 || of.heads % of.groups != 0) {
    return Fail(ErrorCode::kCorrupt,
                "{}: '{}' is {}, '{}' {} and '{}' {}: each should be a multiple of the next",
                file.path(), metadata.Key("ssm.inner_size"), of.inner,
                metadata.Key("ssm.time_step_rank"), of.heads, metadata.Key("ssm.group_count"),
                of.groups);
  }
  of.convolved = of.inner + 2 * of.groups * of.keys;
  of.is_interleaved =
      kind == Recurrence::kDelta && file.FindTensor("blk.0.ssm_in.weight") != nullptr;
  return {};
}

}  // namespace thaw
