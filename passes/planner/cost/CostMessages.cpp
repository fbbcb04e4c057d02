//===- CostMessages.cpp - What messages inside a layer take ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Collectives of TP groups, beside products or not, and what CP and EP groups
// exchange.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Cost.h"

#include <algorithm>

using namespace llvm;

namespace dt::planner {

double ModuleCost::exposed(const Work &work,
                           const std::vector<Message> &messages,
                           const std::vector<Rate> &list) const {
  const CostOptions &options = work.options;
  double whole = 0, seconds = 0, covered = 0;
  for (const Message &message : messages) {
    double one = stripOf(work, message, 1);
    whole += one;
    if (options.overlap > 1 && !message.beside.empty())
      seconds += inStrips(work, message);
    else
      (isCovered(message.exchange, options) ? covered : seconds) += one;
  }
  if (options.overlap == 0 && cluster.nodes[node].pieces > 1)
    return inStrips(list, whole, work.part);
  if (covered > 0)
    covered = std::max(0.0, covered - sum(list, &Rate::cut, work.part));
  return seconds + covered;
}

double ModuleCost::sum(const std::vector<Rate> &list, bool Rate::*is,
                       const TokenSums &part) {
  double seconds = 0;
  for (const Rate &rate : list)
    seconds += rate.*is ? rate.at(part) : 0;
  return seconds;
}

/// Strips follow one another on both sides, each product behind or before its
/// collective: the first or the last strip of one side has nothing beside it.
double ModuleCost::inStrips(const Work &work, const Message &message) const {
  int strips = work.options.overlap;
  double travels = stripOf(work, message, strips);
  double whole = 0, strip = 0;
  for (const Rate &rate : message.beside) {
    whole += rate.at(work.part);
    strip += rate.at(work.part * (1.0 / strips));
  }
  // Where ranks compute on cores, these also carry the messages.
  double longer =
      cluster.nodes[node].cores ? travels + strip : std::max(travels, strip);
  return travels + strip + (strips - 1) * longer - whole;
}

/// What hides behind which product is not said of every model: all behind all.
double ModuleCost::inStrips(const std::vector<Rate> &list, double collectives,
                            const TokenSums &part) const {
  int strips = cluster.nodes[node].pieces;
  if (strips < 2 || collectives <= 0)
    return collectives;
  // One strip has nothing to hide behind; smaller products are slower.
  double products = 0, slower = 0;
  for (Rate rate : list) {
    if (!rate.cut)
      continue;
    double whole = rate.at(part);
    products += whole;
    rate.least *= strips;
    rate.launch *= strips;
    rate.unit *= strips;
    slower += rate.at(part) - whole;
  }
  double rest = 1 - 1.0 / strips;
  return std::min(collectives,
                  collectives / strips + slower +
                      std::max(0.0, rest * (collectives - products)));
}

bool ModuleCost::exchangesHeads(const CostOptions &options) const {
  const KeyHeads &keys = description.keys;
  return !options.ring && keys.count > 0 &&
         keys.count % (options.tp * options.cp) == 0 &&
         1 + keys.shared < options.cp;
}

/// A rank attends to n blocks of keys, its own first, and merges what they
/// give. The next block comes meanwhile, if there is a stream for it.
double ModuleCost::goRound(const Work &work, bool backward) const {
  const auto &[index, kind, known, options, part] = work;
  bool runsAgain = backward && known.layer && options.save == Save::None;
  double n = options.cp, block = kind.exchanged.at(part) / options.tp / n,
         results = block / 2 * description.keys.shared,
         attention = sum(known.forward, &Rate::attention, part);
  if (backward)
    attention =
        sum(known.input, &Rate::attention, part) - (runsAgain ? attention : 0);
  // Sums are in float32, what is added to them is not. Back, gradients follow
  // their keys.
  double travels =
             (backward ? 2 : 1) *
             cluster.allGather(cluster.getGroup(node, options.cp, options.tp),
                               n * block) /
             (n - 1),
         merges = (5 * results + (backward ? 4 * block : 0)) /
                      (device.bandwidth * device.stream) +
                  2 * device.launch,
         late = cluster.nodes[node].cores
                    ? travels
                    : std::max(0.0, travels - attention / n),
         seconds = (n - 1) * (late + merges);
  return runsAgain ? seconds + goRound(work, false) : seconds;
}

double ModuleCost::exchangeKeys(const Work &work, bool backward) const {
  const Rates &known = work.known;
  const CostOptions &options = work.options;
  double bytes = work.kind.exchanged.at(work.part) / options.tp;
  if (options.cp == 1 || bytes <= 0)
    return 0;
  if (options.ring)
    return goRound(work, backward);
  Group group = cluster.getGroup(node, options.cp, options.tp);
  // Keys, values, queries and results, or the gradients of these.
  if (exchangesHeads(options))
    return cluster.allToAll(group,
                            bytes * (1 + description.keys.shared) / options.cp);
  double once = cluster.allGather(group, bytes);
  if (!backward)
    return once;
  // Back, what was gathered is scattered too: in programs the one beside
  // products of gradients of inputs, the other beside those of weights, if
  // these wait.
  bool covers = known.layer && !cluster.nodes[node].cores;
  auto lateBehind = [&](const std::vector<Rate> &list, bool covered) {
    double products = covered ? sum(list, &Rate::product, work.part) : 0;
    return std::max(0.0, once - products);
  };
  return lateBehind(known.input, covers) +
         lateBehind(known.weight, covers && !options.splitBackward);
}

/// Keys of the other ranks of a CP group; by rule, tokens to experts and back.
double ModuleCost::exchange(const Work &work, bool backward) const {
  const CostOptions &options = work.options;
  double seconds = exchangeKeys(work, backward);
  if (work.known.layer || !options.leavesGroup())
    return seconds;
  int etp = options.getExpertTP();
  double rows = work.kind.dispatched.at(work.part) / options.cp /
                (options.sequenceParallel ? options.tp : 1);
  return seconds +
         2 * (cluster.allToAll(cluster.getGroup(node, options.ep, etp), rows) +
              cluster.allGather(cluster.getGroup(node, etp, 1), rows * etp));
}

double ModuleCost::stripOf(const Work &work, const Message &message,
                           int strips) const {
  const auto &[exchange, group, beside] = message;
  double bytes = exchange.bytes.at(work.part) / work.options.cp / strips;
  switch (rt::formOf(exchange.kind).travel) {
  case rt::Travel::RoundTrip:
    return cluster.allReduce(group, bytes);
  case rt::Travel::Ring:
    return cluster.allGather(group, bytes);
  case rt::Travel::Step: { // of all that go round
    double n = double(group.size());
    return n < 2 ? 0 : cluster.allGather(group, n * bytes) / (n - 1);
  }
  case rt::Travel::Pairs:
    return cluster.allToAll(group, bytes);
  }
  llvm_unreachable("not a way to travel");
}

/// Recomputation of everything repeats the forward's messages too.
void ModuleCost::addMessages(const Work &work, Times &times) const {
  const Rates &known = work.known;
  double there = exposed(work, known.forwardMessages, known.forward) +
                 exchange(work, /*backward=*/false);
  times.forward += there;
  times.reduce += there;
  if (!description.hasBackward())
    return;
  double back = exposed(work, known.backwardMessages, known.input) +
                exchange(work, /*backward=*/true);
  times.reduce += back;
  // A layer that is described says itself what it does again.
  if (work.options.save == Save::None && !known.layer) {
    times.again += there;
    back += there;
  }
  times.input += back;
}

} // namespace dt::planner
