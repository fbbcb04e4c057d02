//===- Order.h - Which microbatch goes first --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Inter-microbatch reordering: microbatches differ (images, targets), and a
// pipeline's length depends on their order. DistTrain's algorithm 2 fills the
// intervals of the first stage; here the length itself is computed for an order
// (a longest path) and orders are searched, from algorithm 2's among others.
//
// Works for any schedule that says which *place* of the order runs when: 1F1B,
// interleaved, split backwards, several units. Pure, integer, the work bounded
// by a count; plain C++17, since emitted programs have a copy.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_REORDER_ORDER_H
#define DT_RUNTIME_REORDER_ORDER_H

#include <cstdint>
#include <vector>

namespace dt::reorder {

/// Work in the order it can be done, for places 0..microbatches-1 of the order.
struct OrderProblem {
  struct Task {
    int32_t row = 0;   ///< of durations
    int32_t place = 0; ///< which microbatch, by its place in the order
    /// Tasks that end before this one starts, and delay after them; earlier in
    /// the list.
    struct Wait {
      int32_t task;
      int64_t delay;
    };
    std::vector<Wait> waits;
  };
  int32_t microbatches = 0;
  std::vector<std::vector<int64_t>> durations; ///< [row][microbatch]
  std::vector<Task> tasks;
  /// Rows of the first stage's forward and backward and how many microbatches
  /// are in flight there: what algorithm 2 looks at.
  int32_t firstForward = 0, firstBackward = 0, inFlight = 1;
};

/// 1F1B of one pipeline: forward[stage][microbatch], backward likewise, `delay`
/// between neighbouring stages.
OrderProblem make1F1B(const std::vector<std::vector<int64_t>> &forward,
                      const std::vector<std::vector<int64_t>> &backward,
                      int64_t delay);

/// Length of the pipeline when place i holds microbatch order[i].
int64_t evaluateOrder(const OrderProblem &problem,
                      const std::vector<int32_t> &order);

/// Algorithm 2 of DistTrain (section 5.2): the smallest microbatch first, the
/// inFlight - 1 next smallest last, between them for each interval of the first
/// stage, as the timeline of those placed so far leaves it, the microbatch that
/// fills it best.
std::vector<int32_t> orderByIntervals(const OrderProblem &problem);

struct OrderOptions {
  /// Work, in tasks evaluated; 2 to 3 ns each.
  int64_t effort = 3000000;
};

struct Order {
  std::vector<int32_t> order;
  int64_t length = 0;
};

/// The best order found; never longer than the given one (0, 1, 2, …).
Order reorder(const OrderProblem &problem, const OrderOptions &options = {});

} // namespace dt::reorder

#endif // DT_RUNTIME_REORDER_ORDER_H
