//===- Order.cpp - Which microbatch goes first ----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reorder/Order.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dt::reorder {

namespace {

using Ids = std::vector<int32_t>;

/// The problem in arrays, and the ends of all tasks under the order at hand, so
/// that a change late in the order recomputes only what comes after it.
class Evaluator {
public:
  explicit Evaluator(const OrderProblem &problem)
      : microbatches(problem.microbatches), numTasks(problem.tasks.size()) {
    for (const auto &row : problem.durations)
      durations.insert(durations.end(), row.begin(), row.end());
    firstTask.assign(microbatches, int32_t(numTasks));
    // Entry 0 is "nothing": it ends at 0.
    for (const auto &task : problem.tasks) {
      Entry entry;
      entry.row = task.row * microbatches;
      entry.place = task.place;
      for (size_t i = 0; i < task.waits.size() && i < 2; ++i) {
        entry.wait[i] = task.waits[i].task + 1;
        entry.delay[i] = task.waits[i].delay;
      }
      entry.moreBegin = int32_t(more.size());
      if (task.waits.size() > 2)
        more.insert(more.end(), task.waits.begin() + 2, task.waits.end());
      entry.moreEnd = int32_t(more.size());
      int32_t index = int32_t(entries.size());
      firstTask[task.place] = std::min(firstTask[task.place], index);
      entries.push_back(entry);
    }
    ends.assign(numTasks + 1, 0);
    trial = ends;
    // Longest end among tasks before each, under the order at hand.
    longest.assign(numTasks + 1, 0);
    trialLongest = longest;
  }

  /// Sets the order at hand; its length.
  int64_t set(const Ids &order) {
    compute(order, 0);
    accept(0);
    return longest[numTasks];
  }

  /// Length under an order that differs from the one at hand from `place` on
  /// (and perhaps at later places). Gives up above `limit`.
  int64_t tryFrom(const Ids &order, int32_t task, int64_t limit) {
    return compute(order, task, limit);
  }
  void accept(int32_t task) {
    std::copy(trial.begin() + task + 1, trial.end(), ends.begin() + task + 1);
    std::copy(trialLongest.begin() + task, trialLongest.end(),
              longest.begin() + task);
  }
  void reject(int32_t task) {
    int32_t until = std::min<int32_t>(computed, int32_t(numTasks));
    std::copy(ends.begin() + task + 1, ends.begin() + until + 1,
              trial.begin() + task + 1);
  }

  int32_t firstTaskOf(int32_t place) const { return firstTask[place]; }
  int64_t work(int32_t task) const { return int64_t(numTasks) - task; }

private:
  struct Entry {
    int32_t row = 0, place = 0;
    int32_t wait[2] = {0, 0};
    int64_t delay[2] = {0, 0};
    int32_t moreBegin = 0, moreEnd = 0;
  };

  int64_t compute(const Ids &order, int32_t from,
                  int64_t limit = std::numeric_limits<int64_t>::max()) {
    int64_t high = longest[from];
    int64_t *end = trial.data();
    for (int32_t i = from; i < int32_t(numTasks); ++i) {
      const Entry &entry = entries[i];
      int64_t start = std::max(end[entry.wait[0]] + entry.delay[0],
                               end[entry.wait[1]] + entry.delay[1]);
      for (int32_t k = entry.moreBegin; k < entry.moreEnd; ++k)
        start = std::max(start, end[more[k].task + 1] + more[k].delay);
      int64_t stop = start + durations[entry.row + order[entry.place]];
      end[i + 1] = stop;
      trialLongest[i] = high;
      high = std::max(high, stop);
      if (high > limit) {
        computed = i + 1;
        return high;
      }
    }
    computed = int32_t(numTasks);
    trialLongest[numTasks] = high;
    return high;
  }

  int32_t microbatches;
  size_t numTasks;
  int32_t computed = 0;
  std::vector<int64_t> durations;
  std::vector<Entry> entries;
  std::vector<OrderProblem::Task::Wait> more;
  std::vector<int32_t> firstTask;
  std::vector<int64_t> ends, trial, longest, trialLongest;
};

/// xorshift64*: the same numbers everywhere.
class Random {
public:
  uint32_t below(uint32_t n) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return uint32_t(
        (uint64_t(uint32_t((state * 0x2545F4914F6CDD1Dull) >> 32)) * n) >> 32);
  }

private:
  uint64_t state = 0x9E3779B97F4A7C15ull;
};

/// Work of every microbatch over all rows that differ between microbatches.
std::vector<int64_t> sizes(const OrderProblem &problem) {
  std::vector<int64_t> size(problem.microbatches, 0);
  for (const auto &row : problem.durations)
    for (int32_t k = 0; k < problem.microbatches; ++k)
      size[k] += row[k];
  return size;
}

Ids bySize(const OrderProblem &problem) {
  std::vector<int64_t> size = sizes(problem);
  Ids order(problem.microbatches);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return size[a] != size[b] ? size[a] < size[b] : a < b;
  });
  return order;
}

/// Orders worth starting from.
std::vector<Ids> starts(const OrderProblem &problem) {
  int32_t n = problem.microbatches;
  Ids given(n), ascending = bySize(problem);
  std::iota(given.begin(), given.end(), 0);
  Ids descending(ascending.rbegin(), ascending.rend());
  std::vector<Ids> result = {given, orderByIntervals(problem), ascending,
                             descending};
  // Small ones at both ends, where the pipeline fills and drains.
  Ids ends;
  for (int32_t i = 0; i < n; i += 2)
    ends.push_back(ascending[i]);
  for (int32_t i = n - 1 - (n & 1); i > 0; i -= 2)
    ends.push_back(ascending[i]);
  if (int32_t(ends.size()) == n)
    result.push_back(ends);
  // The same ends, the rest alternating large and small.
  int32_t edge = std::min(problem.inFlight, n / 4);
  Ids mixed;
  for (int32_t i = 0; i < edge; ++i)
    mixed.push_back(ascending[2 * i]);
  int32_t low = 2 * edge, high = n - 1;
  for (bool large = true; low <= high; large = !large)
    mixed.push_back(ascending[large ? high-- : low++]);
  for (int32_t i = edge; i-- > 0;)
    mixed.push_back(ascending[2 * i + 1]);
  result.push_back(mixed);
  return result;
}

/// Threshold accepting: exchanges and moves of microbatches; an order that is
/// a little longer may be taken, less and less so.
class OrderSearch {
public:
  OrderSearch(const OrderProblem &problem, int64_t effort)
      : problem(problem), evaluator(problem), left(effort), total(effort) {}

  Order run() {
    for (Ids &start : starts(problem)) {
      int64_t length = evaluator.set(start);
      left -= evaluator.work(0);
      if (best.order.empty() || length < best.length)
        best = {start, length};
    }
    current = best;
    evaluator.set(current.order);
    if (problem.microbatches > 1)
      improve();
    return best;
  }

private:
  void improve() {
    int64_t begin = left;
    // The first threshold: a fortieth of the time of a microbatch.
    int64_t scale = best.length / (40 * problem.microbatches);
    for (int64_t round = 0; left > 0 && round < 4 * total; ++round) {
      int64_t threshold = int64_t(double(scale) * left / begin * left / begin);
      change(threshold);
    }
  }

  void change(int64_t threshold) {
    int32_t n = problem.microbatches;
    int32_t i = int32_t(random.below(n)), j = int32_t(random.below(n - 1));
    j += j >= i;
    Ids &order = current.order;
    bool exchange = random.below(4) != 0;
    if (exchange)
      std::swap(order[i], order[j]);
    else
      move(order, i, j);
    int32_t task = evaluator.firstTaskOf(std::min(i, j));
    for (int32_t place = std::min(i, j); place <= std::max(i, j); ++place)
      if (place == i || place == j || !exchange)
        task = std::min(task, evaluator.firstTaskOf(place));
    left -= evaluator.work(task) + 20;
    int64_t limit = current.length + threshold;
    int64_t length = evaluator.tryFrom(order, task, limit);
    if (length > limit) {
      evaluator.reject(task);
      if (exchange)
        std::swap(order[i], order[j]);
      else
        move(order, j, i);
      return;
    }
    evaluator.accept(task);
    current.length = length;
    if (length < best.length)
      best = current;
  }

  /// Takes the microbatch at place i to place j.
  static void move(Ids &order, int32_t i, int32_t j) {
    if (i < j)
      std::rotate(order.begin() + i, order.begin() + i + 1,
                  order.begin() + j + 1);
    else
      std::rotate(order.begin() + j, order.begin() + i, order.begin() + i + 1);
  }

  const OrderProblem &problem;
  Evaluator evaluator;
  Random random;
  int64_t left, total;
  Order best, current;
};

/// The k-th task of a stage under 1F1B: (is forward, place).
std::pair<bool, int32_t> task1F1B(int32_t warm, int32_t n, int32_t k) {
  if (k < warm)
    return {true, k};
  if (k < 2 * n - warm)
    return (k - warm) % 2 == 0 && warm + (k - warm) / 2 < n
               ? std::pair<bool, int32_t>{true, warm + (k - warm) / 2}
               : std::pair<bool, int32_t>{false, (k - warm) / 2};
  return {false, k - n};
}

} // namespace

OrderProblem make1F1B(const std::vector<std::vector<int64_t>> &forward,
                      const std::vector<std::vector<int64_t>> &backward,
                      int64_t delay) {
  OrderProblem problem;
  int32_t p = int32_t(forward.size());
  int32_t n = p ? int32_t(forward[0].size()) : 0;
  problem.microbatches = n;
  problem.durations = forward;
  problem.durations.insert(problem.durations.end(), backward.begin(),
                           backward.end());
  problem.firstBackward = p;
  problem.inFlight = std::min(p, n);
  // Task numbers by (row, place); -1: not yet in the list.
  std::vector<Ids> number(2 * p, Ids(n, -1));
  Ids cursor(p, 0), last(p, -1);
  auto emit = [&](int32_t s) {
    auto [isForward, place] = task1F1B(std::min(p - s - 1, n), n, cursor[s]);
    OrderProblem::Task task;
    task.row = isForward ? s : p + s;
    task.place = place;
    int32_t needed = -1;
    if (isForward ? s > 0 : s + 1 < p) {
      needed = number[isForward ? s - 1 : p + s + 1][place];
      if (needed < 0)
        return false;
    }
    if (last[s] >= 0)
      task.waits.push_back({last[s], 0});
    if (needed >= 0)
      task.waits.push_back({needed, delay});
    last[s] = number[task.row][place] = int32_t(problem.tasks.size());
    problem.tasks.push_back(std::move(task));
    ++cursor[s];
    return true;
  };
  // One task a stage and sweep, so that tasks of a time stand together and a
  // change of a late place leaves most of the list as it is.
  while (int32_t(problem.tasks.size()) < 2 * n * p)
    for (int32_t s = 0; s < p; ++s)
      if (cursor[s] < 2 * n)
        emit(s);
  return problem;
}

int64_t evaluateOrder(const OrderProblem &problem, const Ids &order) {
  return Evaluator(problem).set(order);
}

namespace {

/// The timeline of the microbatches that have their places, as it grows.
class Intervals {
public:
  explicit Intervals(const OrderProblem &problem)
      : problem(problem), ends(problem.tasks.size(), 0),
        idle(problem.tasks.size() + 1, 0),
        begin(problem.microbatches + 1, problem.tasks.size()) {
    for (size_t i = problem.tasks.size(); i-- > 0;)
      begin[problem.tasks[i].place] = i;
    for (int32_t place = problem.microbatches; place-- > 0;)
      begin[place] = std::min(begin[place], begin[place + 1]);
  }

  /// How long the first stage would wait after what is placed: from its last
  /// task to its next backward, if the microbatch between them took no time.
  int64_t after(const Ids &order) {
    int32_t place = int32_t(order.size());
    bool reached = false;
    // What is before the last microbatch placed is as it was.
    for (size_t i = begin[place - 1]; i < ends.size(); ++i) {
      const OrderProblem::Task &task = problem.tasks[i];
      int64_t start = 0;
      for (const auto &wait : task.waits)
        start = std::max(start, ends[wait.task] + wait.delay);
      bool forward = task.row == problem.firstForward,
           backward = task.row == problem.firstBackward;
      if (backward && reached)
        return std::max<int64_t>(0, start - idle[i]);
      bool placed = task.place < place;
      reached |= forward && task.place == place;
      ends[i] = start;
      if (placed)
        ends[i] += problem.durations[task.row][order[task.place]];
      idle[i + 1] = idle[i];
      if (placed && (forward || backward))
        idle[i + 1] = std::max(idle[i], ends[i]);
    }
    return 0;
  }

private:
  const OrderProblem &problem;
  /// Ends of tasks; when the first stage has done those before each.
  std::vector<int64_t> ends, idle;
  std::vector<size_t> begin; ///< first task of a place or a later one
};

} // namespace

Ids orderByIntervals(const OrderProblem &problem) {
  Ids rest = bySize(problem), order, tail;
  if (problem.durations.empty() || rest.empty())
    return rest;
  const auto &forward = problem.durations[problem.firstForward];
  auto take = [&](size_t i, Ids &to) {
    to.push_back(rest[i]);
    rest.erase(rest.begin() + i);
  };
  take(0, order);
  for (int32_t i = 1; i < problem.inFlight && !rest.empty(); ++i)
    take(0, tail);
  Intervals intervals(problem);
  // Of equally near ones the more expensive.
  while (!rest.empty()) {
    int64_t interval = intervals.after(order);
    size_t nearest = 0;
    for (size_t i = 1; i < rest.size(); ++i)
      if (std::abs(forward[rest[i]] - interval) <=
          std::abs(forward[rest[nearest]] - interval))
        nearest = i;
    take(nearest, order);
  }
  order.insert(order.end(), tail.rbegin(), tail.rend());
  return order;
}

Order reorder(const OrderProblem &problem, const OrderOptions &options) {
  if (problem.microbatches == 0)
    return {};
  return OrderSearch(problem, options.effort).run();
}

} // namespace dt::reorder
