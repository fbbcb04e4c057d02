//===- Attention.h - softmax attention for generated code -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Attention as one call, so that no probability matrix is kept between forward
// and backward: the forward saves the log-sum-exp of each row, the backward
// recomputes (Dao et al., FlashAttention, section 3.2). Grouped query heads and
// broadcast masks are strides. Keys that a window or segments hide take no time
// where a whole tile of queries sees none of a tile of keys.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_ATTENTION_H
#define DT_RUNTIME_DEVICE_CPU_ATTENTION_H

#include "runtime/Enums.h"
#include "runtime/HostDevice.h"
#include "runtime/device/BFloat16.h"

namespace dt::rt {

/// None; Additive: float, added to the scores as it is (-inf hides a key);
/// AdditiveNarrow: the same in bf16, with narrow operands only; Boolean: one
/// byte, 0 = not visible.
enum class MaskKind : uint8_t { None, Additive, AdditiveNarrow, Boolean };

/// Of the numbers of segments.
enum class SegmentKind : uint8_t { None, Int32, Int64 };

/// What hides keys besides the causal rule and the window: `mask` as MaskKind
/// says, and the numbers of segments [b, t] of queries and [b, s] of keys as
/// SegmentKind says, which need no order. A key is visible if all let it be.
struct AttentionMask {
  AttentionMask(const void *mask = nullptr, const void *ofQueries = nullptr,
                const void *ofKeys = nullptr)
      : mask(mask), ofQueries(ofQueries), ofKeys(ofKeys) {}

  const void *mask, *ofQueries, *ofKeys;
};

/// Of a tensor [batch, rows, heads, size].
struct HeadStrides {
  int64_t batch = 0, row = 0, head = 0;
};

/// Which of all queries, or keys, a call has: of their blocks of `chunk` every
/// `over`-th, from block `place` on; chunk 0: all of them.
struct Stripes {
  int64_t chunk = 0, over = 1, place = 0;

  /// Where the i-th stands among all.
  DT_HOST_DEVICE int64_t getPlace(int64_t i) const {
    return chunk ? (i / chunk * over + place) * chunk + i % chunk : i;
  }
  /// How many stand before that place.
  DT_HOST_DEVICE int64_t countBefore(int64_t at) const {
    if (!chunk || at <= 0)
      return at;
    int64_t block = at / chunk, round = block / over,
            mine = block % over - place;
    return (round + (mine > 0)) * chunk + (mine == 0 ? at % chunk : 0);
  }
};

/// All strides in elements; the innermost (d, dv) is dense. Query head j uses
/// kv head j / (h / hk). The output's gradient has the output's strides.
struct AttentionShape {
  int64_t b, t, s; ///< batch, queries, keys
  int64_t h, hk;   ///< query heads, key/value heads; h % hk == 0
  int64_t d, dv;   ///< head size of q, k and of v, o
  int64_t qb, qt, qh;
  int64_t kb, ks, kh;
  int64_t vb, vs, vh;
  int64_t ob, ot, oh;
  float scale;
  bool causal; ///< the key at place j is visible to i when j <= getPlace(i)
  EmptyRow emptyRow;
  MaskKind mask;
  int64_t maskB, maskH, maskT, maskS; ///< strides of the mask; 0 = broadcast
  SegmentKind segments = SegmentKind::None;
  /// Strides of the numbers of segments, those of keys are dense; 0 = broadcast
  int64_t querySegmentB = 0, querySegmentT = 0, keySegmentB = 0;
  /// 0: none. With i' = getPlace(i), query i sees the key at j only when
  /// i' - j < window and, if not causal, j - i' < window.
  int64_t window = 0;
  /// 0: none. Scores are softCap * tanh(scale * q k^T / softCap), before masks.
  float softCap = 0;
  Stripes stripes{}, keyStripes{};
  /// The keys are some of those that queries see: lse and o that the backward
  /// takes are of all.
  bool partial = false;
  /// Strides of gradients; those of q, k and v where a row's is 0.
  HeadStrides dqStrides{}, dkStrides{}, dvStrides{};

  /// Where query i stands among the keys: the last query is beside the last
  /// key.
  DT_HOST_DEVICE int64_t getPlace(int64_t i) const {
    return stripes.getPlace(i) + (s * keyStripes.over - t * stripes.over);
  }
  /// Keys [getFirstKey(i), getEndKey(i)) are those that the causal rule and the
  /// window let query i see; both grow with i.
  DT_HOST_DEVICE int64_t getFirstKey(int64_t i) const {
    return window ? clampKey(getPlace(i) - getReach() + 1) : 0;
  }
  DT_HOST_DEVICE int64_t getEndKey(int64_t i) const {
    return causal   ? clampKey(getPlace(i) + 1)
           : window ? clampKey(getPlace(i) + getReach())
                    : s;
  }

  DT_HOST_DEVICE HeadStrides getDq() const {
    return dqStrides.row ? dqStrides : HeadStrides{qb, qt, qh};
  }
  DT_HOST_DEVICE HeadStrides getDk() const {
    return dkStrides.row ? dkStrides : HeadStrides{kb, ks, kh};
  }
  DT_HOST_DEVICE HeadStrides getDv() const {
    return dvStrides.row ? dvStrides : HeadStrides{vb, vs, vh};
  }

private:
  /// The window, or what hides as little.
  DT_HOST_DEVICE int64_t getReach() const {
    int64_t most = s * keyStripes.over + t * stripes.over;
    return window < most ? window : most;
  }
  /// Of the keys that there are, those before a place.
  DT_HOST_DEVICE int64_t clampKey(int64_t place) const {
    int64_t j = keyStripes.countBefore(place);
    return j < 0 ? 0 : j < s ? j : s;
  }
};

/// o = softmax(scale * q k^T + mask) v, with a soft cap as it says; lse [b, h,
/// t] (dense) = log of the sum of exp of each row, -inf for an empty row.
void attentionForward(const float *q, const float *k, const float *v,
                      AttentionMask mask, float *o, float *lse,
                      const AttentionShape &shape);
/// The same of narrow operands; all is computed in float.
void attentionForward(const bf16 *q, const bf16 *k, const bf16 *v,
                      AttentionMask mask, bf16 *o, float *lse,
                      const AttentionShape &shape);

/// Writes dq, dk, dv (no accumulation), which may be columns of the same rows.
/// The mask has no gradient. `o` and `lse` are the forward's, of all keys.
void attentionBackward(const float *q, const float *k, const float *v,
                       AttentionMask mask, const float *o, const float *lse,
                       const float *doutput, float *dq, float *dk, float *dv,
                       const AttentionShape &shape);
void attentionBackward(const bf16 *q, const bf16 *k, const bf16 *v,
                       AttentionMask mask, const bf16 *o, const float *lse,
                       const bf16 *doutput, bf16 *dq, bf16 *dk, bf16 *dv,
                       const AttentionShape &shape);

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_ATTENTION_H
