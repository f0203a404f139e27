// Layers with a recurrent state: a short convolution over the latest tokens and, for most kinds, a
// state of each head that every token fades, adds to and reads (kernels/recurrence.h).
//
// A sequence's tokens go through its states one after the other, so the result depends neither on
// the batch nor on the chunk; heads and channels are spread over the threads.
#include <algorithm>
#include <utility>

#include "model/model.h"

namespace thaw {
namespace {

// Channels of a convolution that one thread takes at a time.
constexpr int64_t kConvolvedChannels = 256;

void MultiplyInto(float* x, const float* factors, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factors[i];
}

}  // namespace

Result<void> Model::RunRecurrence(int64_t index, std::span<const BatchToken> batch) {
  const RecurrenceConfig& of = config_.recurrence;
  const Recurrence kind = config_.family->recurrence;
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const RecurrentWeights& w = *layer.recurrent;
  const auto n_tokens = static_cast<int64_t>(batch.size());
  const LinearWeights& gate = w.gate_down.rows != 0 ? w.gate_down : w.gate;
  const Activations normed =
      ViewActivations(work_.normed, n_tokens, config_.d_model, work_.quantized,
                      CopyFor({&w.mixed, &w.queries, &w.keys, &w.values, &gate, &w.factors,
                               kind != Recurrence::kMamba ? &w.steps : &w.mixed}));
  ForEachToken(n_tokens, [&](int64_t i) {
    ReadStream(layer.attention_norm, i);
    kernels_.quantize_activations(normed, i, i + 1);
  });
  std::vector<Product>& products = recurrent_products_;
  products.clear();
  const auto add_product = [&](const LinearWeights& weights, float* out, int64_t stride = 0) {
    if (weights.rows == 0) return;
    products.push_back({&weights, &normed, out, /*expert=*/0, /*head_stride=*/stride});
  };
  add_product(w.mixed, of.is_interleaved ? work_.interleaved : work_.mixed);
  float* mixed = work_.mixed;
  for (const LinearWeights* part : {&w.queries, &w.keys, &w.values}) {
    add_product(*part, mixed, of.convolved);
    mixed += part->rows;
  }
  add_product(gate, &gate == &w.gate ? work_.recurrent_gate : work_.gate_latent);
  add_product(w.factors, work_.factors);
  if (kind != Recurrence::kMamba) add_product(w.steps, work_.steps);
  THAW_TRY(Multiply(products));
  ForEachToken(n_tokens, [&](int64_t i) {
    if (of.is_interleaved) Deal(i);
    if (kind != Recurrence::kShortConvolution) return;
    MultiplyInto(work_.mixed + i * of.inner, work_.factors + i * of.inner, of.inner);
  });
  Convolve(index, batch);
  switch (kind) {
    case Recurrence::kNone:
    case Recurrence::kTimeMix:
      break;
    case Recurrence::kShortConvolution:
      ForEachToken(n_tokens, [&](int64_t i) {
        float* out = work_.mixed + i * of.inner;
        std::copy_n(work_.convolved + i * of.inner, of.inner, out);
        MultiplyInto(out, work_.recurrent_gate + i * of.inner, of.inner);
      });
      break;
    case Recurrence::kMamba:
      THAW_TRY(RunMamba(index, batch));
      break;
    case Recurrence::kMamba2:
      RunMamba2(index, batch);
      break;
    case Recurrence::kChannelDelta:
      THAW_TRY(QuantizeAndMultiply(w.rates, work_.steps, n_tokens, work_.rates));
      THAW_TRY(QuantizeAndMultiply(w.gate, work_.gate_latent, n_tokens, work_.recurrent_gate));
      [[fallthrough]];
    case Recurrence::kDelta:
      RunDelta(index, batch);
      break;
  }
  return QuantizeAndMultiply(w.output, work_.mixed, n_tokens, work_.projected);
}

void Model::Deal(int64_t i) {
  const RecurrenceConfig& of = config_.recurrence;
  const int64_t values = of.inner / of.groups;  // of the value heads of a key head, all together
  const float* from = work_.interleaved + i * (of.convolved + of.inner);
  float* queries = work_.mixed + i * of.convolved;
  float* keys = queries + of.groups * of.keys;
  float* to_values = keys + of.groups * of.keys;
  float* gates = work_.recurrent_gate + i * of.inner;
  for (int64_t group = 0; group < of.groups; ++group) {
    for (const auto& [to, n] : {std::pair(queries + group * of.keys, of.keys),
                                {keys + group * of.keys, of.keys},
                                {to_values + group * values, values},
                                {gates + group * values, values}}) {
      std::copy_n(from, n, to);
      from += n;
    }
  }
}

void Model::Convolve(int64_t index, std::span<const BatchToken> batch) {
  const RecurrenceConfig& of = config_.recurrence;
  const RecurrentWeights& w = *weights_.layers[static_cast<size_t>(index)].recurrent;
  const int64_t width = of.convolved;
  const int64_t held = of.taps - 1;
  const int64_t ranges = (width + kConvolvedChannels - 1) / kConvolvedChannels;
  const auto n_sequences = static_cast<int64_t>(sequences_.size());
  pool_.ParallelFor(n_sequences * ranges, 1, [&](int64_t item, int64_t, int) {
    const TokenRun& run = sequences_[static_cast<size_t>(item / ranges)];
    const int64_t first = item % ranges * kConvolvedChannels;
    const int64_t n = std::min(kConvolvedChannels, width - first);
    RecurrentState& states = batch[static_cast<size_t>(run.first)].kv->states();
    const float* before = states.Before(index) + first;
    float* after = states.After(index) + first;
    const float* inputs = work_.mixed + run.first * width + first;
    // Of the run's token `at`; those before it are remembered.
    const auto input = [&](int64_t at) {
      return at < 0 ? before + (held + at) * width : inputs + at * width;
    };
    for (int64_t token = 0; token < run.count; ++token) {
      float* out = work_.convolved + (run.first + token) * width + first;
      if (w.convolution_bias.empty()) {
        std::fill_n(out, n, 0.0F);
      } else {
        std::copy_n(w.convolution_bias.data() + first, n, out);
      }
      for (int64_t tap = 0; tap < of.taps; ++tap) {
        const float* x = input(token - held + tap);
        const float* weight = w.convolution.data() + tap * width + first;
        for (int64_t c = 0; c < n; ++c) out[c] += weight[c] * x[c];
      }
      if (config_.family->recurrence != Recurrence::kShortConvolution) {
        kernels_.activate({Nonlinearity::kSilu}, out, nullptr, n, out);
      }
    }
    for (int64_t at = 0; at < held; ++at) {
      std::copy_n(input(run.count - held + at), n, after + at * width);
    }
  });
}

void Model::StepStates(
    int64_t index, std::span<const BatchToken> batch, int64_t parts,
    FunctionRef<int64_t(int64_t i, int64_t part, float* scratch, StateStep& step)> prepare) {
  const int64_t window = config_.recurrence.window_floats();
  const auto n_sequences = static_cast<int64_t>(sequences_.size());
  pool_.ParallelFor(n_sequences * parts, 1, [&](int64_t item, int64_t, int worker) {
    const TokenRun& run = sequences_[static_cast<size_t>(item / parts)];
    RecurrentState& states = batch[static_cast<size_t>(run.first)].kv->states();
    float* scratch = work_.step_scratch + worker * work_.step_scratch_stride;
    for (int64_t i = run.first; i < run.first + run.count; ++i) {
      StateStep step;
      const int64_t at = window + prepare(i, item % parts, scratch, step);
      step.after = states.After(index) + at;
      step.before = i == run.first ? states.Before(index) + at : step.after;
      kernels_.step_state(step);
    }
  });
}

Result<void> Model::RunMamba(int64_t index, std::span<const BatchToken> batch) {
  const RecurrenceConfig& of = config_.recurrence;
  const RecurrentWeights& w = *weights_.layers[static_cast<size_t>(index)].recurrent;
  const auto n_tokens = static_cast<int64_t>(batch.size());
  const int64_t inner = of.inner;
  THAW_TRY(QuantizeAndMultiply(w.steps, work_.convolved, n_tokens, work_.steps));
  // Time steps, keys, queries.
  const Activations ranks =
      ViewActivations(work_.factors, n_tokens, of.rank, work_.quantized, CopyFor({&w.rates}));
  ForEachToken(n_tokens, [&](int64_t i) {
    float* part = work_.steps + i * w.steps.rows;
    for (const std::vector<float>* norm : {&w.step_norm, &w.b_norm, &w.c_norm}) {
      const int64_t n = norm == &w.step_norm ? of.rank : of.keys;
      if (!norm->empty()) kernels_.rms_norm(part, norm->data(), n, config_.norm_epsilon, part);
      part += n;
    }
    std::copy_n(work_.steps + i * w.steps.rows, of.rank, work_.factors + i * of.rank);
    kernels_.quantize_activations(ranks, i, i + 1);
  });
  const Product rates[] = {{&w.rates, &ranks, work_.rates}};
  THAW_TRY(Multiply(rates));
  ForEachToken(n_tokens, [&](int64_t i) {
    float* rate = work_.rates + i * inner;
    kernels_.add(rate, w.step_bias.data(), inner, rate);
    kernels_.activate({Nonlinearity::kSoftPlus}, rate, nullptr, inner, rate);
  });
  const int64_t ranges = (inner + kSteppedColumns - 1) / kSteppedColumns;
  StepStates(index, batch, ranges, [&](int64_t i, int64_t range, float* scratch, StateStep& step) {
    const int64_t first = range * kSteppedColumns;
    const int64_t n = std::min(kSteppedColumns, inner - first);
    const float* rate = work_.rates + i * inner + first;
    const float* x = work_.convolved + i * inner + first;
    float* decay = scratch;
    for (int64_t key = 0; key < of.keys; ++key) {
      const float* a = w.a.data() + key * inner + first;
      for (int64_t c = 0; c < n; ++c) decay[key * n + c] = rate[c] * a[c];
    }
    kernels_.activate({Nonlinearity::kExp}, decay, nullptr, of.keys * n, decay);
    float* value = scratch + of.keys * kSteppedColumns;
    for (int64_t c = 0; c < n; ++c) value[c] = rate[c] * x[c];
    step.keys = of.keys;
    step.values = n;
    step.stride = inner;
    step.decay = decay;
    step.decay_stride = n;
    step.key = work_.steps + i * w.steps.rows + of.rank;
    step.query = step.key + of.keys;
    step.value = value;
    step.out = work_.mixed + i * inner + first;
    return first;
  });
  ForEachToken(n_tokens, [&](int64_t i) {
    float* out = work_.mixed + i * inner;
    const float* x = work_.convolved + i * inner;
    for (int64_t c = 0; c < inner; ++c) out[c] += w.d[static_cast<size_t>(c)] * x[c];
    kernels_.activate({Nonlinearity::kSilu}, work_.recurrent_gate + i * inner, out, inner, out);
  });
  return {};
}

void Model::RunMamba2(int64_t index, std::span<const BatchToken> batch) {
  const RecurrenceConfig& of = config_.recurrence;
  const RecurrentWeights& w = *weights_.layers[static_cast<size_t>(index)].recurrent;
  const auto n_tokens = static_cast<int64_t>(batch.size());
  const int64_t values = of.values();
  ForEachToken(n_tokens, [&](int64_t i) {
    float* steps = work_.steps + i * of.heads;
    kernels_.add(steps, w.step_bias.data(), of.heads, steps);
    kernels_.activate({Nonlinearity::kSoftPlus}, steps, nullptr, of.heads, steps);
    float* rates = work_.rates + i * of.heads;
    std::copy_n(w.a.data(), of.heads, rates);
    MultiplyInto(rates, steps, of.heads);
    kernels_.activate({Nonlinearity::kExp}, rates, nullptr, of.heads, rates);
  });
  StepStates(index, batch, of.heads, [&](int64_t i, int64_t head, float* scratch, StateStep& step) {
    const float* x = work_.convolved + i * of.convolved + head * values;
    const int64_t group = head / (of.heads / of.groups);
    float* value = scratch + of.keys;
    std::fill_n(scratch, of.keys, work_.rates[i * of.heads + head]);
    for (int64_t n = 0; n < values; ++n) value[n] = work_.steps[i * of.heads + head] * x[n];
    step.keys = of.keys;
    step.values = step.stride = values;
    step.decay = scratch;
    step.key = work_.convolved + i * of.convolved + of.inner + group * of.keys;
    step.query = step.key + of.groups * of.keys;
    step.value = value;
    step.out = work_.mixed + i * of.inner + head * values;
    return head * of.keys * values;
  });
  ForEachToken(n_tokens, [&](int64_t i) {
    float* out = work_.mixed + i * of.inner;
    const float* x = work_.convolved + i * of.convolved;
    for (int64_t n = 0; n < of.inner; ++n) out[n] += w.d[static_cast<size_t>(n / values)] * x[n];
    kernels_.activate({Nonlinearity::kSilu}, work_.recurrent_gate + i * of.inner, out, of.inner,
                      out);
    if (w.norm.empty()) return;
    const int64_t size = of.inner / of.groups;
    for (int64_t first = 0; first < of.inner; first += size) {
      kernels_.rms_norm(out + first, w.norm.data() + first, size, config_.norm_epsilon,
                        out + first);
    }
  });
}

void Model::PrepareDelta(const RecurrentWeights& w, int64_t i) {
  const RecurrenceConfig& of = config_.recurrence;
  float* queries = work_.convolved + i * of.convolved;
  float* keys = queries + of.groups * of.keys;
  const float epsilon = config_.norm_epsilon / static_cast<float>(of.keys);
  for (int64_t group = 0; group < of.groups; ++group) {
    for (const auto& [head, norm] : {std::pair(queries, &w.query_norm), {keys, &w.key_norm}}) {
      float* x = head + group * of.keys;
      kernels_.rms_norm(x, norm->data(), of.keys, epsilon, x);
    }
  }
  const int64_t n_rates = std::ssize(w.step_bias);
  float* betas = work_.factors + i * of.heads;
  float* rates = work_.rates + i * n_rates;
  const float* steps = work_.steps + i * w.steps.rows;
  if (w.factors.rows == 0) {
    // Key head by key head, its betas and then its steps.
    const int64_t heads_a_group = of.heads / of.groups;
    for (int64_t head = 0; head < of.heads; head += heads_a_group) {
      std::copy_n(steps + 2 * head, heads_a_group, betas + head);
      std::copy_n(steps + 2 * head + heads_a_group, heads_a_group, rates + head);
    }
  } else if (w.rates.rows == 0) {
    std::copy_n(steps, of.heads, rates);
  }
  kernels_.activate({Nonlinearity::kLogistic}, betas, nullptr, of.heads, betas);
  kernels_.add(rates, w.step_bias.data(), n_rates, rates);
  kernels_.activate({Nonlinearity::kSoftPlus}, rates, nullptr, n_rates, rates);
  const auto of_head = static_cast<size_t>(n_rates / of.heads);
  for (size_t head = 0; head < w.a.size(); ++head) {
    Scale(std::span(rates + head * of_head, of_head), w.a[head]);
  }
  kernels_.activate({Nonlinearity::kExp}, rates, nullptr, n_rates, rates);
}

void Model::RunDelta(int64_t index, std::span<const BatchToken> batch) {
  const RecurrenceConfig& of = config_.recurrence;
  const RecurrentWeights& w = *weights_.layers[static_cast<size_t>(index)].recurrent;
  const auto n_tokens = static_cast<int64_t>(batch.size());
  const int64_t values = of.values();
  const int64_t heads_a_group = of.heads / of.groups;
  const bool by_channel = config_.family->recurrence == Recurrence::kChannelDelta;
  ForEachToken(n_tokens, [&](int64_t i) { PrepareDelta(w, i); });
  const bool deals = config_.family->deals_key_heads;
  StepStates(index, batch, of.heads, [&](int64_t i, int64_t head, float* scratch, StateStep& step) {
    const float* queries = work_.convolved + i * of.convolved;
    const float* x = queries + 2 * of.groups * of.keys + head * values;
    const int64_t group = deals ? head % of.groups : head / heads_a_group;
    const float* rates = work_.rates + (i * of.heads + head) * (by_channel ? of.keys : 1);
    const float beta = work_.factors[i * of.heads + head];
    step.keys = of.keys;
    step.values = step.stride = values;
    step.query = queries + group * of.keys;
    step.key = step.query + of.groups * of.keys;
    float* decays = scratch;
    float* probe = decays + of.keys;
    float* correction = probe + of.keys;
    float* value = correction + of.keys;
    for (int64_t key = 0; key < of.keys; ++key) {
      decays[key] = rates[by_channel ? key : 0];
      probe[key] = decays[key] * step.key[key];
      correction[key] = -beta * step.key[key];
    }
    for (int64_t n = 0; n < values; ++n) value[n] = beta * x[n];
    step.decay = decays;
    step.probe = probe;
    step.correction = correction;
    step.value = value;
    step.out = work_.mixed + i * of.inner + head * values;
    return head * of.keys * values;
  });
  ForEachToken(n_tokens, [&](int64_t i) {
    float* out = work_.mixed + i * of.inner;
    for (int64_t head = 0; head < of.heads; ++head) {
      float* x = out + head * values;
      kernels_.rms_norm(x, w.norm.data(), values, config_.norm_epsilon, x);
    }
    const Nonlinearity gating = by_channel ? Nonlinearity::kLogistic : Nonlinearity::kSilu;
    kernels_.activate({gating}, work_.recurrent_gate + i * of.inner, out, of.inner, out);
  });
}

}  // namespace thaw
