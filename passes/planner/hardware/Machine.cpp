//===- Machine.cpp - This machine as a cluster ----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/hardware/Machine.h"

#include "runtime/base/Cores.h"
#include "runtime/base/HostMemory.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

/// Cycles a second that a core has while all of them multiply.
constexpr double kClock = 2e9;
/// Bytes a second that a core streams, and all cores together at most: eight
/// memory channels.
constexpr double kCoreBandwidth = 20e9, kBandwidth = 160e9;

} // namespace

Machine getThisMachine() {
  Machine machine;
  machine.cores = rt::usableCores();
  machine.memory = double(rt::hostMemory());
  StringMap<bool> features = sys::getHostCPUFeatures();
  // Two units that multiply and add vectors; one of a core's two threads has
  // half of that at worst.
  if (features.lookup("avx512f")) {
    machine.instructions = "AVX-512";
    machine.flopsPerCycle = 64;
  } else if (features.lookup("avx2") && features.lookup("fma")) {
    machine.instructions = "AVX2";
    machine.flopsPerCycle = 32;
  } else if (features.lookup("neon")) {
    machine.instructions = "NEON";
    machine.flopsPerCycle = 16;
  } else {
    machine.instructions = "128-bit vectors";
  }
  if (features.lookup("amx-bf16")) {
    machine.bf16 = "AMX";
    machine.bf16PerF32 = 8;
  } else if (features.lookup("avx512bf16") || features.lookup("bf16")) {
    machine.bf16 = "bf16 instructions";
    machine.bf16PerF32 = 2;
  }
  return machine;
}

Cluster describeMachine(const Machine &machine, Cluster typical, int devices) {
  if (devices == 0)
    devices = machine.cores;
  Cluster cluster = std::move(typical);
  cluster.name = "here";
  DeviceKind &core = cluster.devices[0];
  double cores = machine.cores, f32 = machine.flopsPerCycle * kClock;
  double part = cores / devices; // of the cores that a device has
  core.flops = {{"f32", part * f32}, {"bf16", part * machine.bf16PerF32 * f32}};
  core.memory = machine.memory / devices;
  core.reserve = std::min(core.reserve, core.memory / 4);
  core.bandwidth = part * std::min(kCoreBandwidth, kBandwidth / cores);
  NodeKind &node = cluster.nodes[0];
  node.devices = devices;
  node.cores = machine.cores;
  node.count = 1;
  cluster.assumed = formatv(
      "cluster 'here': {0} core{1} of this machine{9}, {2:f1} GiB each; {3:f0} "
      "GFLOP/s a {10} in f32 ({4} at {5:f0} GHz), {6:f0} in bf16 ({7}), {8:f1} "
      "GB/s: typical rates, not measured (tools/dt-profile measures a recipe's "
      "layers for --profile)",
      machine.cores, machine.cores == 1 ? "" : "s",
      core.memory / double(1 << 30), f32 * 1e-9, machine.instructions,
      kClock * 1e-9, core.flops["bf16"] * 1e-9, machine.bf16,
      core.bandwidth * 1e-9,
      devices == machine.cores
          ? std::string()
          : formatv(" as {0} device{1}", devices, devices == 1 ? "" : "s")
                .str(),
      devices == machine.cores ? "core" : "device");
  return cluster;
}

} // namespace dt::planner
