// Time mixing (RWKV-7): a delta rule whose factors of fading, learning rates and gates are made of
// products of low rank; and the token shift with which both blocks of such a layer begin.
//
//   x_j = x + (x' - x) m_j                                 of six inputs j; x' of the token before
//   w   = e^(-e^-1/2 logistic(W2 tanh(W1 x_w) + w0))
//   a   = logistic(A2 A1 x_a + a0)
//   v   = V x_v + (v' - V x_v) logistic(V2 V1 x_v + v0)    v' of the first layer
//   p   = K x_k p0 / |K x_k p0|                            of each head
//   k   = K x_k (1 + (a - 1) s)
//   S   = w S + k (x) v - a p (x) (p S)                    kernels/recurrence.h
//   out = O ((norm(q S) + (q . k u) v) G2 logistic(G1 x_g)),  q = Q x_q
#include <algorithm>
#include <array>

#include "model/model.h"

namespace thaw {
namespace {

// e^-1/2: a state fades to e^-e^-1/2 = 0.545 of itself in a step at most.
constexpr float kMostFading = 0.60653066F;

// Of the norm of what a head gives; the family's files do not state it.
constexpr float kHeadNormEpsilon = 64e-5F;

// Shorter probes are not made longer than this share of unit length.
constexpr float kLeastProbe = 1e-12F;

}  // namespace

Result<void> Model::RunTimeMix(int64_t index, std::span<const BatchToken> batch) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const TimeMixWeights& w = *layer.time_mix;
  const auto n_tokens = static_cast<int64_t>(batch.size());
  const int64_t d = config_.d_model;
  const int64_t size = config_.recurrence.keys;  // of a head's keys and values
  ForEachToken(n_tokens, [&](int64_t i) { ReadStream(layer.attention_norm, i); });
  std::array<Activations, kShiftedInputs> inputs;
  Shift(index, batch, Shifted::kTimeMix, w.shares,
        CopyFor({&w.q, &w.k, &w.v, &w.decay.down, &w.rate.down, &w.value.down, &w.gate.down}),
        inputs);
  THAW_TRY(ProjectTimeMix(w, inputs));
  ForEachToken(n_tokens, [&](int64_t i) { PrepareTimeMix(w, n_tokens, i); });
  StepStates(index, batch, config_.recurrence.heads,
             [&](int64_t i, int64_t head, float*, StateStep& step) {
               const int64_t first = head * size;
               step.keys = size;
               step.values = step.stride = size;
               step.decay = ShiftedRow(ShiftedInput::kDecay, n_tokens, i) + first;
               step.key = work_.mixed_k + i * d + first;
               step.value = work_.mixed_v + i * d + first;
               step.query = work_.mixed_q + i * d + first;
               step.probe = ShiftedRow(ShiftedInput::kKey, n_tokens, i) + first;
               step.correction = ShiftedRow(ShiftedInput::kRate, n_tokens, i) + first;
               step.out = ShiftedRow(ShiftedInput::kQuery, n_tokens, i) + first;
               return first * size;
             });
  const Activations given = ViewActivations(ShiftedRow(ShiftedInput::kQuery, n_tokens, 0), n_tokens,
                                            d, work_.quantized, CopyFor({&w.output}));
  ForEachToken(n_tokens, [&](int64_t i) {
    FinishTimeMix(w, n_tokens, i);
    kernels_.quantize_activations(given, i, i + 1);
  });
  const Product output[] = {{&w.output, &given, work_.projected}};
  return Multiply(output);
}

float* Model::ShiftedRow(ShiftedInput input, int64_t n_tokens, int64_t i) {
  return work_.shifted + (static_cast<int64_t>(input) * n_tokens + i) * config_.d_model;
}

void Model::Shift(int64_t index, std::span<const BatchToken> batch, Shifted block,
                  std::span<const float> shares, ActivationCopy copy,
                  std::span<Activations> inputs) {
  const int64_t d = config_.d_model;
  const auto n_tokens = static_cast<int64_t>(batch.size());
  std::byte* quantized = work_.quantized;
  for (size_t j = 0; j < inputs.size(); ++j) {
    const float* rows = ShiftedRow(static_cast<ShiftedInput>(j), n_tokens, 0);
    inputs[j] = ViewActivations(rows, n_tokens, d, quantized, copy);
    quantized += ActivationBytes(n_tokens, d);
  }
  const int64_t remembered = static_cast<int64_t>(block) * d;  // where in the layer's state
  ForEachToken(n_tokens, [&](int64_t i) {
    const TokenRun& run = *(std::ranges::upper_bound(sequences_, i, {}, &TokenRun::first) - 1);
    RecurrentState& states = batch[static_cast<size_t>(i)].kv->states();
    const float* x = work_.normed + i * d;
    const float* before = i == run.first ? states.Before(index) + remembered : x - d;
    for (size_t j = 0; j < inputs.size(); ++j) {
      float* out = ShiftedRow(static_cast<ShiftedInput>(j), n_tokens, i);
      const float* share = shares.data() + static_cast<int64_t>(j) * d;
      for (int64_t n = 0; n < d; ++n) out[n] = x[n] + (before[n] - x[n]) * share[n];
      kernels_.quantize_activations(inputs[j], i, i + 1);
    }
    if (i + 1 == run.first + run.count) std::copy_n(x, d, states.After(index) + remembered);
  });
}

Result<void> Model::ProjectTimeMix(const TimeMixWeights& w, std::span<const Activations> inputs) {
  const int64_t n_tokens = inputs.front().n_tokens;
  struct Part {
    const LowRankWeights* weights;
    ShiftedInput input;  // and the rows of work_.shifted that what it gives takes the place of
    float* hidden = nullptr;
    Activations activations = {};
  };
  Part parts[] = {{&w.decay, ShiftedInput::kDecay},
                  {&w.rate, ShiftedInput::kRate},
                  {&w.value, ShiftedInput::kValue},
                  {&w.gate, ShiftedInput::kGate}};
  const auto input = [&](ShiftedInput of) { return &inputs[static_cast<size_t>(of)]; };
  std::vector<Product>& products = recurrent_products_;
  products.assign({{&w.q, input(ShiftedInput::kQuery), work_.mixed_q},
                   {&w.k, input(ShiftedInput::kKey), work_.mixed_k},
                   {&w.v, input(ShiftedInput::kValue), work_.mixed_v}});
  float* hidden = work_.low_ranks;
  for (Part& part : parts) {
    part.hidden = hidden;
    hidden += n_tokens * part.weights->down.rows;
    products.push_back({&part.weights->down, input(part.input), part.hidden});
  }
  THAW_TRY(Multiply(products));

  std::byte* quantized = work_.quantized;
  for (Part& part : parts) {
    const int64_t rank = part.weights->down.rows;
    part.activations =
        ViewActivations(part.hidden, n_tokens, rank, quantized, CopyFor({&part.weights->up}));
    quantized += ActivationBytes(n_tokens, rank);
  }
  ForEachToken(n_tokens, [&](int64_t i) {
    for (const Part& part : parts) {
      const int64_t rank = part.weights->down.rows;
      float* row = part.hidden + i * rank;
      if (part.weights == &w.decay) kernels_.soft_cap(row, rank, 1);  // tanh
      if (part.weights == &w.gate) {
        kernels_.activate({Nonlinearity::kLogistic}, row, nullptr, rank, row);
      }
      kernels_.quantize_activations(part.activations, i, i + 1);
    }
  });
  products.clear();
  for (const Part& part : parts) {
    products.push_back({&part.weights->up, &part.activations, ShiftedRow(part.input, n_tokens, 0)});
  }
  return Multiply(products);
}

void Model::PrepareTimeMix(const TimeMixWeights& w, int64_t n_tokens, int64_t i) {
  const int64_t d = config_.d_model;
  const int64_t size = config_.recurrence.keys;
  const auto logistic = [&](const LowRankWeights& of, float* x) {
    kernels_.add(x, of.up.bias.data(), d, x);
    kernels_.activate({Nonlinearity::kLogistic}, x, nullptr, d, x);
  };
  float* decay = ShiftedRow(ShiftedInput::kDecay, n_tokens, i);
  logistic(w.decay, decay);
  Scale(std::span(decay, static_cast<size_t>(d)), -kMostFading);
  kernels_.activate({Nonlinearity::kExp}, decay, nullptr, d, decay);

  float* v = work_.mixed_v + i * d;
  float* first = work_.first_values + i * d;
  if (w.value.up.rows == 0) {
    std::copy_n(v, d, first);
  } else {
    float* share = ShiftedRow(ShiftedInput::kValue, n_tokens, i);
    logistic(w.value, share);
    for (int64_t n = 0; n < d; ++n) v[n] += (first[n] - v[n]) * share[n];
  }

  float* rate = ShiftedRow(ShiftedInput::kRate, n_tokens, i);
  logistic(w.rate, rate);
  float* k = work_.mixed_k + i * d;
  float* probe = ShiftedRow(ShiftedInput::kKey, n_tokens, i);
  for (int64_t n = 0; n < d; ++n) probe[n] = k[n] * w.probe[static_cast<size_t>(n)];
  const float epsilon = kLeastProbe * kLeastProbe / static_cast<float>(size);
  for (int64_t head = 0; head < d; head += size) {
    kernels_.rms_norm(probe + head, w.probe_norm.data(), size, epsilon, probe + head);
  }
  for (int64_t n = 0; n < d; ++n) {
    k[n] += k[n] * (rate[n] - 1) * w.shrinking[static_cast<size_t>(n)];
    rate[n] *= probe[n];
    probe[n] = -probe[n];
  }
}

void Model::FinishTimeMix(const TimeMixWeights& w, int64_t n_tokens, int64_t i) {
  const int64_t d = config_.d_model;
  const int64_t size = config_.recurrence.keys;
  float* out = ShiftedRow(ShiftedInput::kQuery, n_tokens, i);
  const float* gate = ShiftedRow(ShiftedInput::kGate, n_tokens, i);
  const float* q = work_.mixed_q + i * d;
  const float* k = work_.mixed_k + i * d;
  const float* v = work_.mixed_v + i * d;
  for (int64_t head = 0; head < d; head += size) {
    kernels_.layer_norm(out + head, w.norm.weight.data() + head, w.norm.bias.data() + head, size,
                        kHeadNormEpsilon, out + head);
    float own = 0;
    for (int64_t n = head; n < head + size; ++n) {
      own += q[n] * k[n] * w.own_value[static_cast<size_t>(n)];
    }
    for (int64_t n = head; n < head + size; ++n) out[n] = (out[n] + own * v[n]) * gate[n];
  }
}

}  // namespace thaw
