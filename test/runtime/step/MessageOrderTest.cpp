//===- MessageOrderTest.cpp - one order of all messages ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/MessageOrder.h"
#include "runtime/step/Routes.h"
#include "test/runtime/SmallProgram.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <deque>

using namespace dt::rt;

namespace {

/// What a rank calls for: a message to or from `other`.
struct Call {
  int other;
  bool sends;
  bool gradient;
  int64_t number;
};

std::vector<std::deque<Call>> callsOf(const ProgramInfo &program) {
  int ranks = int(program.ranks.size);
  std::vector<std::deque<Call>> calls(program.ranks.size);
  for (int r = 0; r < ranks; ++r) {
    const Span<TaskRow> &rows = program.ranks[size_t(r)].rows;
    Placement placement(program, r, ranks);
    std::vector<CallPlace> places = orderMessages(program, r);
    size_t next = 0;
    for (size_t i = 0; i < rows.size; ++i) {
      for (; next < places.size() && places[next].before <= i; ++next) {
        const TaskRow &row = rows[places[next].row];
        EXPECT_LE(places[next].row, i);
        calls[size_t(r)].push_back({places[next].from, false, row.gradient,
                                    messageNumber(program, row, false)});
      }
      if (rows[i].kind != TaskKind::Send)
        continue;
      for (int other : ranksAcross(program, placement, rows[i], true))
        if (other >= 0 && other != r)
          calls[size_t(r)].push_back({other, true, rows[i].gradient,
                                      messageNumber(program, rows[i], true)});
    }
    EXPECT_EQ(next, places.size());
  }
  return calls;
}

/// Ranks that do one call after another, each until its other end is there,
/// without tags: whether all end, and what meets is one message.
void expectToMeet(std::vector<std::deque<Call>> calls) {
  size_t left = 0;
  for (const auto &list : calls)
    left += list.size();
  EXPECT_GT(left, 0u);
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t r = 0; r < calls.size(); ++r) {
      if (calls[r].empty() || !calls[r].front().sends)
        continue;
      Call sent = calls[r].front();
      auto &theirs = calls[size_t(sent.other)];
      if (theirs.empty() || theirs.front().sends ||
          theirs.front().other != int(r))
        continue;
      EXPECT_EQ(theirs.front().number, sent.number);
      EXPECT_EQ(theirs.front().gradient, sent.gradient);
      theirs.pop_front();
      calls[r].pop_front();
      left -= 2;
      moves = true;
    }
  }
  EXPECT_EQ(left, 0u);
}

} // namespace

TEST(MessageOrder, RanksMeet) {
  for (small::SmallPlan plan :
       {small::SmallPlan{1, 1}, small::SmallPlan{2, 1},
        small::SmallPlan{3, 2, 2}, small::SmallPlan{2, 2, 1, 0, 2, 2},
        small::SmallPlan{1, 2, 2, 1, 2, 1}}) {
    small::SmallProgram program(3, plan); // two microbatches
    expectToMeet(callsOf(program.info));
  }
}

/// Towers send all microbatches before they ask for a gradient; heads have
/// buffers for two.
TEST(MessageOrder, RanksThatWaitForEachOther) {
  small::SmallProgram program(1, {1, 1});
  EXPECT_ERROR(orderMessages(program.info, 0),
               "rank 0, row 5 (send, microbatch 2) waits for ranks that wait "
               "for it");
}

/// What comes to a place that another message comes to.
TEST(MessageOrder, ReceivesThatWait) {
  small::SmallProgram program(3, {1, 1});
  std::vector<TaskRow> rows = program.rows[1];
  std::vector<int32_t> receives;
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].kind == TaskKind::Receive)
      receives.push_back(int32_t(i));
  ASSERT_EQ(receives.size(), 2u);
  rows[size_t(receives[1])].waits = {receives.data(), 1};
  program.rankTable[1].rows = {rows.data(), rows.size()};
  std::vector<CallPlace> places = orderMessages(program.info, 1);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].row, size_t(receives[0]));
  EXPECT_LE(places[0].before, size_t(receives[1]));
}

TEST(MessageOrder, MessagesWithOneEnd) {
  small::SmallProgram program(3, {1, 1});
  std::vector<TaskRow> rows = program.rows[1];
  rows.erase(std::find_if(rows.begin(), rows.end(), [](const TaskRow &row) {
    return row.kind == TaskKind::Receive;
  }));
  program.rankTable[1].rows = {rows.data(), rows.size()};
  EXPECT_ERROR(orderMessages(program.info, 0), "has no row that receives it");
  program.rankTable[1].rows = {program.rows[1].data(), program.rows[1].size()};
  rows = program.rows[0];
  rows.erase(std::find_if(rows.begin(), rows.end(), [](const TaskRow &row) {
    return row.kind == TaskKind::Send;
  }));
  program.rankTable[0].rows = {rows.data(), rows.size()};
  EXPECT_ERROR(orderMessages(program.info, 0), "has no row that sends it");
}
