//===- CudnnAttention.cpp - attention in bf16 by cuDNN --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Which calls cuDNN computes, in which parts, and what is queued around them.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Log.h"
#include "runtime/device/cuda/AttentionMask.h"
#include "runtime/device/cuda/Cuda.h"
#include "runtime/device/cuda/CudnnGraph.h"

#include <cmath>
#include <set>

namespace dt::rt::cudnn {

namespace {

/// Of addresses and, in elements of bf16, of strides and head sizes.
constexpr int64_t kAlignment = 16, kEach = 8;

constexpr char kUnaligned[] = "an address is no multiple of 16 bytes",
               kUnpacked[] = "heads, or what lies between them, are no "
                             "multiple of 8",
               kUnplanned[] = "cuDNN has no plan for it, or one head's mask no "
                              "room, within DT_CUDNN_WORKSPACE bytes (1 GiB "
                              "without it)";

/// Values of the host that a graph reads.
const float kHidden = -INFINITY, kOne = 1;

bool isAligned(std::initializer_list<const void *> addresses) {
  for (const void *address : addresses)
    if (reinterpret_cast<uintptr_t>(address) % kAlignment)
      return false;
  return true;
}

bool hasWholePacks(const AttentionShape &s) {
  for (int64_t each : {s.d, s.dv, s.qb, s.qt, s.qh, s.kb, s.ks, s.kh, s.vb,
                       s.vs, s.vh, s.ob, s.ot, s.oh})
    if (each % kEach)
      return false;
  return true;
}

bool isEmpty(const AttentionShape &s) {
  return s.b * s.t * s.s * s.h * s.d * s.dv == 0;
}

/// Once a shape: it runs on CUDA cores, tens of times slower.
bool refuse(const AttentionShape &s, bool backward, const char *why) {
  static std::set<Sizes> said;
  if (said.insert({backward, s.b, s.t, s.s, s.h, s.d}).second)
    printError("warning: %s of attention, %lld heads of %lld by %lld rows, "
               "%lld wide, batch %lld: not on tensor cores, as %s\n",
               backward ? "gradients" : "results", (long long)s.h,
               (long long)s.t, (long long)s.s, (long long)s.d, (long long)s.b,
               why);
  return false;
}

const Plan &keptPlan(const AttentionProblem &p) {
  const AttentionShape &s = p.shape;
  BiasShape bias = getBiasShape(s);
  // No convolution has such a size.
  Sizes key{-1,   p.backward, s.causal, hasBias(s), bias.b, bias.h, s.b,
            s.t,  s.s,        s.h,      s.hk,       s.d,    s.dv,   s.qb,
            s.qt, s.qh,       s.kb,     s.ks,       s.kh,   s.vb,   s.vs,
            s.vh, s.ob,       s.ot,     s.oh};
  return planFor(key, [&](const Gpu &gpu) { return findPlan(p, gpu); });
}

int64_t getBiasBytes(const AttentionShape &s) {
  return hasBias(s) ? getBiasShape(s).getBytes(s.t) : 0;
}

/// What a call does at once: all, or where there is no room for that a part of
/// the batch, or of one element's heads.
struct Part {
  AttentionShape shape;
  const Plan *plan; ///< null: not even a part has one
};

/// Gradients that are added up in a fixed order take memory for all scores, a
/// mask takes it in both directions.
Part findPart(const AttentionProblem &whole) {
  Part part{whole.shape, nullptr};
  auto fits = [&] {
    part.plan = getBiasBytes(part.shape) <= mostWorkspace()
                    ? &keptPlan({part.shape, whole.backward})
                    : nullptr;
    if (part.plan && !part.plan->plan)
      part.plan = nullptr;
    return part.plan != nullptr;
  };
  if (fits())
    return part;
  int64_t heads = whole.shape.hk, group = whole.shape.h / heads;
  for (int64_t b = whole.shape.b - 1; b > 0; --b)
    if (part.shape.b = b; whole.shape.b % b == 0 && fits())
      return part;
  for (int64_t hk = heads - 1; hk > 0; --hk)
    if (part.shape.hk = hk, part.shape.h = hk * group;
        heads % hk == 0 && fits())
      return part;
  return part;
}

/// Where a part's operands begin, in elements.
struct Begin {
  int64_t q, k, v, o, row, mask;
  bool biased; ///< another part has made its bias
};

/// Calls run(begin) for each part `p` of `s`.
template <typename Run>
void forEachPart(const AttentionShape &s, const AttentionShape &p, Run run) {
  for (int64_t b = 0; b < s.b; b += p.b)
    for (int64_t h = 0; h < s.h; h += p.h) {
      int64_t kv = h / (s.h / s.hk);
      run(Begin{b * s.qb + h * s.qh, b * s.kb + kv * s.kh, b * s.vb + kv * s.vh,
                b * s.ob + h * s.oh, (b * s.h + h) * s.t,
                b * s.maskB + h * s.maskH, h > 0 && getBiasShape(p).h == 1});
    }
}

/// What cuDNN takes for a part besides operands; of a call that has none of
/// these they are not to be used.
struct Room {
  char *workspace;
  float *sums, *lse; ///< [b, h, t]
  bf16 *bias;
  uint64_t *marks;

  Room(const Part &part, bool backward) {
    const AttentionShape &p = part.shape;
    size_t size = 0, rows = size_t(p.b * p.h * p.t) * sizeof(float);
    auto add = [&](size_t bytes) {
      return std::exchange(size, size + (bytes + 255) / 256 * 256);
    };
    size_t ofWorkspace = add(part.plan->workspace),
           ofSums = add(backward ? rows : 0),
           ofLse = add(backward && mayBeMarked(p) ? rows : 0),
           ofBias = add(size_t(getBiasBytes(p))),
           ofMarks = add(hasBias(p) ? getMarkBytes(p) : 0);
    auto *begin = static_cast<char *>(size ? cuda::scratch(2, size) : nullptr);
    workspace = begin + ofWorkspace;
    sums = reinterpret_cast<float *>(begin + ofSums);
    lse = reinterpret_cast<float *>(begin + ofLse);
    bias = reinterpret_cast<bf16 *>(begin + ofBias);
    marks = reinterpret_cast<uint64_t *>(begin + ofMarks);
  }
};

/// A part's call; `addresses` as the graph has them, up to the bias.
void queue(const Part &part, const Room &room, std::vector<void *> addresses,
           void *stream) {
  if (cuda::rehearsing)
    return;
  if (hasBias(part.shape))
    addresses.push_back(room.bias);
  if (hidesInGraph(part.shape))
    addresses.push_back(const_cast<float *>(&kHidden));
  execute(*part.plan, addresses, room.workspace, stream);
}

/// The mask from its element `first` on.
const void *maskAt(const void *mask, int64_t first, MaskKind kind) {
  int64_t each = kind == MaskKind::Additive         ? 4
                 : kind == MaskKind::AdditiveNarrow ? 2
                                                    : 1;
  return mask ? static_cast<const char *>(mask) + first * each : nullptr;
}

/// A graph's operands are not const.
void *operand(const void *address) { return const_cast<void *>(address); }

} // namespace

bool attend(const AttentionShape &s, const bf16 *q, const bf16 *k,
            const bf16 *v, const void *mask, bf16 *o, float *lse,
            void *stream) {
  if (!isOn() || isEmpty(s))
    return false;
  if (!hasWholePacks(s))
    return refuse(s, false, kUnpacked);
  if (!isAligned({q, k, v, o}))
    return refuse(s, false, kUnaligned);
  Part part = findPart({s, false});
  if (!part.plan)
    return refuse(s, false, kUnplanned);
  const AttentionShape &p = part.shape;
  Room room(part, false);
  forEachPart(s, p, [&](const Begin &at) {
    const void *itsMask = maskAt(mask, at.mask, s.mask);
    if (hasBias(p) && !at.biased)
      writeBias(p, itsMask, room.bias, room.marks, stream);
    queue(part, room,
          {operand(q + at.q), operand(k + at.k), operand(v + at.v), o + at.o,
           lse + at.row, operand(&s.scale)},
          stream);
    if (mayBeMarked(p))
      mendForward(q + at.q, k + at.k, v + at.v, itsMask, o + at.o, lse + at.row,
                  p, getMarked(p, room.marks), stream);
  });
  return true;
}

bool attendBackward(const AttentionShape &s, const bf16 *q, const bf16 *k,
                    const bf16 *v, const void *mask, const bf16 *o,
                    const float *lse, const bf16 *doutput, bf16 *dq, bf16 *dk,
                    bf16 *dv, void *stream) {
  if (!isOn() || isEmpty(s))
    return false;
  if (!hasWholePacks(s))
    return refuse(s, true, kUnpacked);
  if (!isAligned({q, k, v, o, doutput, dq, dk, dv}))
    return refuse(s, true, kUnaligned);
  Part part = findPart({s, true});
  if (!part.plan)
    return refuse(s, true, kUnplanned);
  const AttentionShape &p = part.shape;
  Room room(part, true);
  forEachPart(s, p, [&](const Begin &at) {
    const void *itsMask = maskAt(mask, at.mask, s.mask);
    const float *itsLse = lse + at.row;
    Queries marked = getMarked(p, room.marks);
    if (hasBias(p) && !at.biased)
      writeBias(p, itsMask, room.bias, room.marks, stream);
    if (mayBeMarked(p))
      coverMarked(p, itsLse, room.lse, marked, stream);
    queue(part, room,
          {operand(q + at.q), operand(k + at.k), operand(v + at.v),
           operand(o + at.o), operand(doutput + at.o),
           mayBeMarked(p) ? room.lse : operand(itsLse), dq + at.q, dk + at.k,
           dv + at.v, room.sums, operand(&s.scale), operand(&kOne)},
          stream);
    if (mayBeMarked(p))
      mendBackward(q + at.q, k + at.k, v + at.v, itsMask, o + at.o, itsLse,
                   doutput + at.o, dq + at.q, dk + at.k, dv + at.v, p, marked,
                   stream);
  });
  return true;
}

} // namespace dt::rt::cudnn
