//===- Comm.cpp - the ranks of a run over TCP -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Clock.h"
#include "runtime/base/Stop.h"
#include "runtime/comm/Launch.h"
#include "runtime/comm/OwnMail.h"
#include "runtime/comm/tcp/Group.h"
#include "runtime/comm/tcp/Rendezvous.h"

#include <algorithm>
#include <cstdlib>

namespace dt::rt {

namespace {

/// Seconds that ranks still have to come when the run is asked to end.
constexpr double kStillCome = 3;

/// Called while ranks meet. Where some are on other machines, how long they may
/// take is the meeting's business, and who waits for them is alive; those of
/// this machine are started together, and the watchdog names who does not
/// begin. Throws CommonError when the run is asked to end and ranks are
/// missing.
class WhileMeeting {
public:
  explicit WhileMeeting(StatusBoard *board) : board(board) {}
  void operator()() {
    if (board && launchedHere() < launchedRanks())
      board->tick();
    if (!isStopRequested())
      return;
    asked = asked ? asked : now();
    if (now() - asked > kStillCome)
      throw CommonError("asked to end while ranks were still to come");
  }

private:
  StatusBoard *board;
  double asked = 0;
};

class Tcp final : public Comm {
public:
  Tcp(StatusBoard *board, AddGroup addGroup)
      : addGroup(std::move(addGroup)), place(launchedRank()),
        ranks(launchedRanks()), starts(begin(board)),
        messages(
            place,
            tcp::meet(tcp::meetingPlace(), place, ranks, WhileMeeting(board)),
            board) {
    std::vector<int> everybody;
    for (int r = 0; r < ranks; ++r)
      everybody.push_back(r);
    all = tcp::makeGroup(shared, everybody, place, /*number=*/0);
    starts.reset();
  }
  ~Tcp() override { groups.clear(); }

  int rank() const override { return place; }
  int size() const override { return ranks; }

  Request isend(const void *data, size_t bytes, int to, int tag,
                const char *label) override {
    expectRank(to);
    count(label, bytes);
    if (!bytes)
      return {};
    if (to == place)
      return mail.send(data, bytes, tag);
    return message(messages.send(to, uint64_t(tag), data, bytes), to, label);
  }
  Request irecv(void *data, size_t bytes, int from, int tag) override {
    expectRank(from);
    if (!bytes)
      return {};
    if (from == place)
      return mail.receive(data, bytes, tag);
    return message(messages.receive(from, uint64_t(tag), data, bytes), from,
                   "");
  }
  void poll() override { shared.advanceAll(); }

  Group *group(const std::vector<int> &members,
               const std::string &purpose) override {
    auto known = groups.find({purpose, members});
    if (known != groups.end())
      return known->second.get();
    expectMembers(members);
    // Everybody counts them, so that the number is the same on all ranks; one
    // rank alone needs nobody.
    int number = members.size() > 1 ? watch(members) : 0;
    std::unique_ptr<Group> &result = groups[{purpose, members}];
    if (std::find(members.begin(), members.end(), place) != members.end())
      result = tcp::makeGroup(shared, members, place, number);
    return result.get();
  }
  Group &world() override { return *all; }
  int watch(const std::vector<int> &members) override {
    int number = ++made;
    if (addGroup)
      addGroup(number, members);
    return number;
  }

  Carrier carrier() const override { return Carrier::Tcp; }
  std::string describe() const override {
    return "TCP, " + std::to_string(ranks) +
           " ranks; messages move on in a thread; ranks that wait sleep";
  }

  void finish() override {
    Waits waits(blocked.board, meets(kEndGroup, "the end"));
    messages.close();
  }
  [[noreturn]] void abort(int code) override {
    messages.warn();
    std::_Exit(code);
  }

private:
  std::unique_ptr<Waits> begin(StatusBoard *board) {
    blocked.board = board;
    blocked.polls = false;
    return std::make_unique<Waits>(board, meets(kStartGroup, "the start"));
  }
  /// All ranks meet, outside of any group's collectives.
  Awaited meets(int group, const char *label) {
    if (blocked.board)
      blocked.board->enter(group, 1);
    return {Awaited::Collective, -1, group, 1, label};
  }
  void expectRank(int rank) const {
    if (rank < 0 || rank >= ranks)
      throw Error("there is no rank " + std::to_string(rank) + " among " +
                  std::to_string(ranks));
  }
  Request message(tcp::TransferPtr transfer, int peer, const char *label) {
    return Request(std::make_unique<tcp::Message>(
        shared, std::move(transfer),
        Awaited{Awaited::Message, peer, -1, 0, label}));
  }

  AddGroup addGroup;
  int place, ranks, made = 0;
  std::unique_ptr<Waits> starts;
  tcp::Messages messages;
  tcp::Shared shared{messages, counters, blocked, combining()};
  OwnMail mail;
  std::unique_ptr<Group> all;
  /// By purpose and members; null on ranks outside.
  std::map<std::pair<std::string, std::vector<int>>, std::unique_ptr<Group>>
      groups;
};

} // namespace

std::unique_ptr<Comm> startTcp(StatusBoard *board, Comm::AddGroup addGroup) {
  return std::make_unique<Tcp>(board, std::move(addGroup));
}

} // namespace dt::rt
