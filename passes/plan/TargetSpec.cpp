//===- TargetSpec.cpp - The hardware as attributes --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/TargetSpec.h"

#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace dt::plan {

void setTargetSpec(mlir::ModuleOp program, const planner::Cluster &cluster) {
  MLIRContext *context = program.getContext();
  Builder b(context);
  SmallVector<DataLayoutEntryInterface> nodes;
  for (auto [i, node] : llvm::enumerate(cluster.nodes)) {
    const planner::DeviceKind &device = cluster.devices[node.device];
    SmallVector<DataLayoutEntryInterface> entries;
    auto add = [&](const Twine &name, Attribute value) {
      entries.push_back(DataLayoutEntryAttr::get(b.getStringAttr(name), value));
    };
    add("device", b.getStringAttr(device.name));
    add("nodes", b.getI64IntegerAttr(node.count));
    add("devices", b.getI64IntegerAttr(node.devices));
    add("cores", b.getI64IntegerAttr(node.cores));
    add("nics", b.getI64IntegerAttr(node.nics));
    for (auto &[precision, flops] : device.flops)
      add("flops." + precision, b.getF64FloatAttr(flops));
    add("memory", b.getF64FloatAttr(device.memory));
    add("bandwidth", b.getF64FloatAttr(device.bandwidth));
    add("inside.bandwidth", b.getF64FloatAttr(node.inside.bandwidth));
    add("inside.latency", b.getF64FloatAttr(node.inside.latency));
    if (node.network.bandwidth > 0) {
      add("network.bandwidth", b.getF64FloatAttr(node.network.bandwidth));
      add("network.latency", b.getF64FloatAttr(node.network.latency));
    }
    std::string name = device.name;
    for (const planner::NodeKind &other : ArrayRef(cluster.nodes).take_front(i))
      if (other.device == node.device)
        name = device.name + "." + std::to_string(i);
    nodes.push_back(DataLayoutEntryAttr::get(
        b.getStringAttr(name), TargetDeviceSpecAttr::get(context, entries)));
  }
  program->setAttr(DLTIDialect::kTargetSystemDescAttrName,
                   TargetSystemSpecAttr::get(context, nodes));
}

} // namespace dt::plan
