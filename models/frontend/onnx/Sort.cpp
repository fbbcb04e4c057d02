//===- Sort.cpp - Nodes behind what they use --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// ONNX demands this order; not all that write files keep to it.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/onnx/Convert.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <queue>

using namespace dt::onnx;
using llvm::createStringError;
using llvm::Error;
using llvm::Expected;

namespace {
/// Names a node uses, those of its subgraphs included.
void collectUses(const Node &node, std::vector<std::string> &uses) {
  for (const std::string &s : node.inputs)
    if (!s.empty())
      uses.push_back(s);
  for (const auto &[name, a] : node.attributes) {
    if (!a.graph)
      continue;
    llvm::StringSet<> own;
    for (const Tensor &t : a.graph->initializers)
      own.insert(t.name);
    for (const ValueInfo &v : a.graph->inputs)
      own.insert(v.name);
    std::vector<std::string> inner;
    for (const Node &n : a.graph->nodes) {
      collectUses(n, inner);
      for (const std::string &s : n.outputs)
        own.insert(s);
    }
    for (const ValueInfo &v : a.graph->outputs)
      inner.push_back(v.name);
    for (const std::string &s : inner)
      if (!own.count(s))
        uses.push_back(s);
  }
}

std::string describe(const Node &n) {
  return "node '" + n.name + "' (" + n.op + ")";
}

/// Who makes what each node uses, and an order in which makers come first.
class Sorter {
public:
  Sorter(Graph &graph, llvm::ArrayRef<std::string> known)
      : nodes(graph.nodes), needs(nodes.size()) {
    for (const std::string &s : known)
      available.insert(s);
  }

  Expected<std::string> run() {
    if (Error e = findMakers())
      return std::move(e);
    if (Error e = findNeeds())
      return std::move(e);
    std::string disorder = firstDisorder();
    if (disorder.empty())
      return disorder;
    if (Error e = sort())
      return std::move(e);
    return disorder;
  }

private:
  /// A value that a node uses, and the node that makes it.
  struct Need {
    std::string value;
    size_t maker;
  };

  Error findMakers() {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const std::string &s : nodes[i].outputs)
        if (!s.empty() &&
            (available.count(s) || !makers.try_emplace(s, i).second))
          return createStringError(describe(nodes[i]) + ": defines '" + s +
                                   "' a second time");
    return Error::success();
  }

  Error findNeeds() {
    for (size_t i = 0; i < nodes.size(); ++i) {
      std::vector<std::string> uses;
      collectUses(nodes[i], uses);
      for (const std::string &s : uses) {
        if (available.count(s))
          continue;
        auto it = makers.find(s);
        if (it == makers.end())
          return createStringError(
              describe(nodes[i]) + ": uses '" + s +
              "', which is no input, no initializer and made by no node");
        needs[i].push_back({s, it->second});
      }
    }
    return Error::success();
  }

  std::string firstDisorder() const {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const Need &need : needs[i])
        if (need.maker >= i)
          return describe(nodes[i]) + " uses '" + need.value + "', which " +
                 describe(nodes[need.maker]) + " makes after it";
    return "";
  }

  Error sort() {
    std::vector<std::vector<size_t>> users(nodes.size());
    std::vector<size_t> waiting(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      waiting[i] = needs[i].size();
      for (const Need &need : needs[i])
        users[need.maker].push_back(i);
    }
    // Smallest index first: what is in order stays so.
    std::priority_queue<size_t, std::vector<size_t>, std::greater<size_t>>
        ready;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (!waiting[i])
        ready.push(i);
    std::vector<size_t> order;
    while (!ready.empty()) {
      size_t i = ready.top();
      ready.pop();
      order.push_back(i);
      for (size_t u : users[i])
        if (--waiting[u] == 0)
          ready.push(u);
    }
    if (order.size() != nodes.size())
      return cycle(waiting);
    std::vector<Node> sorted;
    for (size_t i : order)
      sorted.push_back(std::move(nodes[i]));
    nodes = std::move(sorted);
    return Error::success();
  }

  /// Nodes that wait for ever are on a cycle or behind one; going from any of
  /// them to the makers of what it waits for ends on one.
  Error cycle(llvm::ArrayRef<size_t> waiting) const {
    auto needOf = [&](size_t i) {
      return *llvm::find_if(
          needs[i], [&](const Need &need) { return waiting[need.maker] > 0; });
    };
    size_t at = size_t(llvm::find_if(waiting, [](size_t n) { return n > 0; }) -
                       waiting.begin());
    for (size_t steps = 0; steps < nodes.size(); ++steps)
      at = needOf(at).maker;
    // The first of the cycle's nodes in the file.
    size_t first = at;
    for (size_t i = needOf(at).maker; i != at; i = needOf(i).maker)
      first = std::min(first, i);
    Need need = needOf(first);
    return createStringError(
        describe(nodes[first]) + ": depends on its own result: it uses '" +
        need.value + "', which " +
        (need.maker == first ? "it makes itself"
                             : describe(nodes[need.maker]) + " makes of it"));
  }

  std::vector<Node> &nodes;
  std::vector<std::vector<Need>> needs; ///< of each node
  llvm::StringSet<> available;
  llvm::StringMap<size_t> makers; ///< by value
};
} // namespace

Expected<std::string> dt::onnx::sortNodes(Graph &graph,
                                          std::vector<std::string> known) {
  return Sorter(graph, known).run();
}
