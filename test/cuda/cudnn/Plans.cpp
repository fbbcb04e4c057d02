//===- Plans.cpp - what the real cuDNN has for us -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// cuDNN makes plans for a GPU that is not there, if it is told what that GPU
// is: so the runtime's descriptors meet the real library, though nothing runs.
// Prints, a convolution a line, which heuristic gave the plan, the number of
// its engine and its workspace; fails where there is no plan. Engines for
// attention are compiled when a plan is made, which takes a driver: of these it
// prints how many are offered, and fails where none is. Some cuDNNs need the
// driver for all of that: then there is nothing to see here (exit code 77).
//
// cudnn-plans DEVICE.json
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Log.h"
#include "runtime/device/cuda/Cuda.h"
#include "runtime/device/cuda/Cudnn.h"

#include <cudnn.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

using namespace dt::rt;

// What cuDNN's files take from the rest of the runtime.
void cuda::fail(const char *call, const char *reason) {
  char detail[1024] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  std::fprintf(stderr, "error: CUDA: %s: %s %s\n", call, reason, detail);
  std::exit(1);
}
void *cuda::scratch(int, size_t) { return nullptr; }
size_t cuda::scratchBytes(int) { return 0; }
void dt::rt::printError(const char *, ...) {}

namespace {

cudnn::Descriptor deviceOf(const char *path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  cudnnBackendDescriptor_t d;
  if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d) ||
      cudnnBackendSetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                               CUDNN_TYPE_CHAR, int64_t(text.size()),
                               text.data()) ||
      cudnnBackendFinalize(d)) {
    std::printf("skipped: cuDNN %zu plans nothing on this machine\n",
                cudnnGetVersion());
    std::exit(77);
  }
  return cudnn::Descriptor(d);
}

struct Case {
  const char *name;
  ConvShape shape;
};

const Case kConvolutions[] = {
    // n, c, o, groups, dims, in, kernel, stride, dilation, before, after
    {"3x3",
     {8, 64, 128, 1, 2, {32, 32}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
    {"1x1", {8, 64, 32, 1, 2, {16, 16}, {1, 1}, {1, 1}, {1, 1}, {}, {}}},
    {"strided",
     {3, 5, 7, 1, 2, {17, 19}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}},
    {"patches", {8, 3, 64, 1, 2, {32, 32}, {4, 4}, {4, 4}, {1, 1}, {}, {}}},
    {"uneven",
     {8, 64, 128, 1, 2, {32, 32}, {3, 3}, {2, 1}, {1, 2}, {0, 1}, {1, 2}}},
    {"groups",
     {8, 64, 128, 4, 2, {32, 32}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
    {"depthwise",
     {8, 64, 64, 64, 2, {32, 32}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
    {"one dim", {3, 5, 7, 1, 1, {17}, {3}, {1}, {1}, {1}, {1}}},
    {"three dims",
     {2,
      16,
      32,
      1,
      3,
      {8, 8, 8},
      {3, 3, 3},
      {1, 1, 1},
      {1, 1, 1},
      {1, 1, 1},
      {1, 1, 1}}},
};

bool show(const cudnn::ConvProblem &p, const char *name,
          const cudnn::Descriptor &device) {
  const char *wanted[] = {"output", "input", "weights"};
  cudnn::Plan plan = cudnn::findPlan(p, {nullptr, device.get()});
  std::printf("%-10s %-7s %-4s aligned %2d %s: ", name,
              wanted[size_t(p.wanted)], p.narrow ? "bf16" : "f32",
              int(p.alignment), p.beta != 0 ? "added" : "     ");
  if (plan.plan)
    std::printf("engine %ld, %zu bytes, mode %s\n", long(plan.engine),
                plan.workspace, plan.mode);
  else
    std::printf("no plan\n");
  return plan.plan != nullptr;
}

struct AttentionCase {
  const char *name;
  int64_t b, t, s, h, hk, d, dv;
  bool causal;
  bool masked = false, byHead = false; ///< a mask of its own a sample, a head
  bool columns = false; ///< gradients are columns of the same rows
};

const AttentionCase kAttentions[] = {
    {"plain", 2, 128, 128, 8, 8, 64, 64, false},
    {"causal", 2, 4096, 4096, 32, 32, 128, 128, true},
    {"grouped", 1, 1024, 1024, 32, 8, 128, 128, true},
    {"cross", 2, 77, 100, 8, 8, 64, 64, false},
    {"uneven", 3, 100, 100, 8, 2, 16, 24, true},
    {"masked", 8, 512, 512, 12, 12, 64, 64, false, true},
    {"packed", 1, 4096, 4096, 32, 8, 128, 128, true, true},
    {"by head", 2, 77, 77, 8, 8, 64, 64, false, true, true},
    {"odd keys", 2, 64, 77, 8, 8, 64, 64, false, true},
    {"later", 2, 64, 128, 8, 8, 64, 64, true},
    {"relative", 4, 128, 128, 8, 8, 64, 64, false, false, true},
    {"columns", 2, 1024, 1024, 32, 8, 128, 128, true, false, false, true},
};

/// [b, t, h, d] in memory.
AttentionShape shapeOf(const AttentionCase &c) {
  AttentionShape s{};
  s.b = c.b, s.t = c.t, s.s = c.s, s.h = c.h, s.hk = c.hk, s.d = c.d,
  s.dv = c.dv;
  s.qh = s.d, s.qt = s.h * s.d, s.qb = s.t * s.qt;
  s.kh = s.d, s.ks = s.hk * s.d, s.kb = s.s * s.ks;
  s.vh = s.dv, s.vs = s.hk * s.dv, s.vb = s.s * s.vs;
  s.oh = s.dv, s.ot = s.h * s.dv, s.ob = s.t * s.ot;
  s.causal = c.causal;
  if (c.masked || c.byHead)
    s.mask = MaskKind::Boolean, s.maskT = s.s, s.maskS = 1;
  if (c.byHead)
    s.maskH = s.t * s.s;
  if (c.masked)
    s.maskB = (c.byHead ? s.h : 1) * s.t * s.s;
  if (c.columns) {
    int64_t pitch = s.qt + s.ks + s.vs;
    s.dqStrides = {s.t * pitch, pitch, s.qh};
    s.dkStrides = {s.s * pitch, pitch, s.kh};
    s.dvStrides = {s.s * pitch, pitch, s.vh};
  }
  return s;
}

bool show(const AttentionCase &c, bool backward,
          const cudnn::Descriptor &device) {
  cudnn::Plan plan =
      cudnn::findPlan({shapeOf(c), backward}, {nullptr, device.get()});
  std::printf("attention %-8s %-9s: %d offered%s\n", c.name,
              backward ? "gradients" : "forward", plan.offered,
              plan.plan ? ", a plan" : "");
  return plan.plan || plan.offered > 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  cudnn::Descriptor device = deviceOf(argv[1]);
  bool all = true;
  for (const Case &c : kConvolutions)
    for (auto wanted :
         {cudnn::Wanted::Output, cudnn::Wanted::Input, cudnn::Wanted::Weights})
      for (bool narrow : {false, true})
        for (int64_t alignment : {narrow ? 2 : 4, 16})
          all &= show({c.shape, wanted, narrow,
                       wanted == cudnn::Wanted::Weights ? 1.f : 0.f, alignment},
                      c.name, device);
  for (const AttentionCase &c : kAttentions)
    for (bool backward : {false, true})
      all &= show(c, backward, device);
  return !all;
}
