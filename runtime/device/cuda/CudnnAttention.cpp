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

constexpr char kCapped[] = "its scores have a soft cap",
               kUnaligned[] = "an address is no multiple of 16 bytes",
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

/// Of operands and results, and what a head's rows are wide.
Sizes stridesOf(const AttentionShape &s) {
  Sizes all{s.d,  s.dv, s.qb, s.qt, s.qh, s.kb, s.ks,
            s.kh, s.vb, s.vs, s.vh, s.ob, s.ot, s.oh};
  for (const HeadStrides &each : {s.getDq(), s.getDk(), s.getDv()})
    all.insert(all.end(), {each.batch, each.row, each.head});
  return all;
}

bool hasWholePacks(const AttentionShape &s) {
  for (int64_t each : stridesOf(s))
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
  Sizes key{-1,  p.backward, s.causal, hasBias(s), bias.b, bias.h,
            s.b, s.t,        s.s,      s.h,        s.hk};
  for (int64_t each : stridesOf(s))
    key.push_back(each);
  return planFor(key, [&](const Gpu &gpu) { return findPlan(p, gpu); });
}

int64_t getBiasBytes(const AttentionShape &s) {
  return hasBias(s) ? getBiasShape(s).getBytes(s.t) : 0;
}

/// What is needed for a part besides operands and a plan's workspace, in one
/// block; what a call does not have is not to be used.
struct Scratch {
  size_t sums, lse; ///< [b, h, t] floats, bytes from the block's begin
  size_t bias, marks;
  size_t size = 0;

  Scratch(const AttentionShape &p, bool backward) {
    size_t rows = size_t(p.b * p.h * p.t) * sizeof(float);
    auto add = [&](size_t bytes) {
      return std::exchange(size, size + (bytes + 255) / 256 * 256);
    };
    sums = add(backward ? rows : 0);
    lse = add(backward && mayBeMarked(p) ? rows : 0);
    bias = add(size_t(getBiasBytes(p)));
    marks = add(hasBias(p) ? getMarkBytes(p) : 0);
  }

  /// In a step nothing is allocated.
  bool isThere() const {
    return !cuda::rehearsed || size <= cuda::scratchBytes(kPurpose);
  }
  template <typename T> T *at(size_t place) const {
    auto *begin =
        static_cast<char *>(size ? cuda::scratch(kPurpose, size) : nullptr);
    return reinterpret_cast<T *>(begin + place);
  }

private:
  static constexpr int kPurpose = 2;
};

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
    if (getBiasBytes(part.shape) > allowedWorkspace() ||
        !Scratch(part.shape, whole.backward).isThere())
      return false;
    const Plan &plan = keptPlan({part.shape, whole.backward});
    part.plan = plan.plan ? &plan : nullptr;
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
  int64_t q, k, v, o, dq, dk, dv, row, mask;
  int64_t b;   ///< the first of the batch
  bool biased; ///< another part has made its bias
};

/// Calls run(begin) for each part `p` of `s`.
template <typename Run>
void forEachPart(const AttentionShape &s, const AttentionShape &p, Run run) {
  for (int64_t b = 0; b < s.b; b += p.b)
    for (int64_t h = 0; h < s.h; h += p.h) {
      int64_t kv = h / (s.h / s.hk);
      auto at = [&](const HeadStrides &by, int64_t head) {
        return b * by.batch + head * by.head;
      };
      run(Begin{at({s.qb, s.qt, s.qh}, h), at({s.kb, s.ks, s.kh}, kv),
                at({s.vb, s.vs, s.vh}, kv), at({s.ob, s.ot, s.oh}, h),
                at(s.getDq(), h), at(s.getDk(), kv), at(s.getDv(), kv),
                (b * s.h + h) * s.t, b * s.maskB + h * s.maskH, b,
                h > 0 && getBiasShape(p).h == 1});
    }
}

/// A part's call; `addresses` as the graph has them, up to the bias.
void queue(const Part &part, const Scratch &scratch,
           std::vector<void *> addresses, void *stream) {
  void *workspace = workspaceFor(*part.plan);
  if (!queues(*part.plan))
    return;
  if (hasBias(part.shape))
    addresses.push_back(scratch.at<bf16>(scratch.bias));
  if (hidesInGraph(part.shape))
    addresses.push_back(const_cast<float *>(&kHidden));
  execute(*part.plan, addresses, workspace, stream);
}

const void *behind(const void *begin, int64_t bytes) {
  return begin ? static_cast<const char *>(begin) + bytes : nullptr;
}

/// The masks of a part.
AttentionMask maskAt(const AttentionMask &mask, const AttentionShape &s,
                     const Begin &at) {
  int64_t each = s.mask == MaskKind::Additive         ? 4
                 : s.mask == MaskKind::AdditiveNarrow ? 2
                                                      : 1;
  int64_t number = s.segments == SegmentKind::Int32 ? 4 : 8;
  return {behind(mask.mask, at.mask * each),
          behind(mask.ofQueries, at.b * s.querySegmentB * number),
          behind(mask.ofKeys, at.b * s.keySegmentB * number)};
}

/// A graph's operands are not const.
void *operand(const void *address) { return const_cast<void *>(address); }

} // namespace

bool attend(const AttentionShape &s, const bf16 *q, const bf16 *k,
            const bf16 *v, AttentionMask mask, bf16 *o, float *lse,
            void *stream) {
  if (!isOn() || isEmpty(s))
    return false;
  if (s.softCap != 0)
    return refuse(s, false, kCapped);
  if (!hasWholePacks(s))
    return refuse(s, false, kUnpacked);
  if (!isAligned({q, k, v, o}))
    return refuse(s, false, kUnaligned);
  Part part = findPart({s, false});
  if (!part.plan)
    return refuse(s, false, kUnplanned);
  const AttentionShape &p = part.shape;
  Scratch scratch(p, false);
  auto *bias = scratch.at<bf16>(scratch.bias);
  auto *marks = scratch.at<uint64_t>(scratch.marks);
  forEachPart(s, p, [&](const Begin &at) {
    AttentionMask itsMask = maskAt(mask, s, at);
    if (hasBias(p) && !at.biased)
      writeBias(p, itsMask, bias, marks, stream);
    queue(part, scratch,
          {operand(q + at.q), operand(k + at.k), operand(v + at.v), o + at.o,
           lse + at.row, operand(&s.scale)},
          stream);
    if (mayBeMarked(p))
      mendForward(q + at.q, k + at.k, v + at.v, itsMask, o + at.o, lse + at.row,
                  p, getMarked(p, marks), stream);
  });
  return true;
}

bool attendBackward(const AttentionShape &s, const bf16 *q, const bf16 *k,
                    const bf16 *v, AttentionMask mask, const bf16 *o,
                    const float *lse, const bf16 *doutput, bf16 *dq, bf16 *dk,
                    bf16 *dv, void *stream) {
  if (!isOn() || isEmpty(s))
    return false;
  if (s.softCap != 0)
    return refuse(s, true, kCapped);
  if (!hasWholePacks(s))
    return refuse(s, true, kUnpacked);
  if (!isAligned({q, k, v, o, doutput, dq, dk, dv}))
    return refuse(s, true, kUnaligned);
  Part part = findPart({s, true});
  if (!part.plan)
    return refuse(s, true, kUnplanned);
  const AttentionShape &p = part.shape;
  Scratch scratch(p, true);
  auto *bias = scratch.at<bf16>(scratch.bias);
  auto *marks = scratch.at<uint64_t>(scratch.marks);
  auto *sums = scratch.at<float>(scratch.sums),
       *covered = scratch.at<float>(scratch.lse);
  forEachPart(s, p, [&](const Begin &at) {
    AttentionMask itsMask = maskAt(mask, s, at);
    const float *itsLse = lse + at.row;
    Queries marked = getMarked(p, marks);
    if (hasBias(p) && !at.biased)
      writeBias(p, itsMask, bias, marks, stream);
    if (mayBeMarked(p))
      coverMarked(p, itsLse, covered, marked, stream);
    queue(part, scratch,
          {operand(q + at.q), operand(k + at.k), operand(v + at.v),
           operand(o + at.o), operand(doutput + at.o),
           mayBeMarked(p) ? covered : operand(itsLse), dq + at.dq, dk + at.dk,
           dv + at.dv, sums, operand(&s.scale), operand(&kOne)},
          stream);
    if (mayBeMarked(p))
      mendBackward(q + at.q, k + at.k, v + at.v, itsMask, o + at.o, itsLse,
                   doutput + at.o, dq + at.dq, dk + at.dk, dv + at.dv, p,
                   marked, stream);
  });
  return true;
}

} // namespace dt::rt::cudnn
