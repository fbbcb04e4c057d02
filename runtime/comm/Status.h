//===- Status.h - who is doing what, and who has stopped --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A killed rank cannot speak, so every rank writes what it does to a board: a
// file in shared memory that the ranks of one node map. A record says at which
// task a rank is, what it waits for and from whom, and how often it has moved
// on. A thread of each rank reads it (Watchdog.h). No message is needed for it,
// so it works whatever the network and MPI are doing (docs/watchdog.md).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_STATUS_H
#define DT_RUNTIME_COMM_STATUS_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace dt::rt {

/// Exit code of a rank that ends because another one failed.
constexpr int exitAfterFault = 75;

/// What a rank does not go on without.
struct Awaited {
  enum Kind : int32_t {
    Nothing,    ///< it works
    Message,    ///< from or to `peer`
    Collective, ///< number `number` of group `group`
    Own,        ///< its own readers or writers
    Hook,       ///< nobody knows: it runs functions that are not the runtime's
  };
  int32_t kind = Nothing;
  int32_t peer = -1;
  int32_t group = -1;
  uint32_t number = 0;
  const char *label = ""; ///< what a message or collective is for
};

/// Groups whose collectives are counted on the board; those of other groups
/// wait for all of their ranks.
constexpr int kWatchedGroups = 256;
/// All ranks at the start and at the end of a run; then come those that Comm
/// numbers from 0 (all ranks) on.
constexpr int kStartGroup = 0, kEndGroup = 1, kFirstGroup = 2;

/// The records of the ranks of one node. Ranks of one launch have the same
/// parent (mpirun, orted, slurmstepd), which names the file (launchedBoard).
class StatusBoard {
public:
  /// A board of this process alone, in its own memory.
  StatusBoard();
  /// Maps the board `name` for ranks 0 to `ranks` - 1, of which only those of
  /// this node ever write. Rank -1: the launcher, who looks only and removes it
  /// in the end. What killed processes have left there is forgotten. Throws
  /// Error.
  StatusBoard(const std::string &name, int rank, int ranks);
  ~StatusBoard();
  StatusBoard(const StatusBoard &) = delete;
  StatusBoard &operator=(const StatusBoard &) = delete;

  /// This rank begins row `row` of step `step`; row -1: between steps.
  void begin(int64_t step, int32_t row);
  /// This rank waits for something; with nothing it works again.
  void await(const Awaited &what);
  Awaited awaited() const;
  /// This rank has begun collectives of a group up to this number.
  void enter(int group, uint32_t number);
  /// Something has moved on inside a task.
  void tick();
  /// Its own writer waits for what another rank's writes; -1: it does not.
  void awaitWriter(int rank);
  /// This rank ends as it should; from now on it may vanish.
  void leave();

  /// True for the first caller on the node: it has the word, says it itself,
  /// and `code` is the launcher's; 0: unknown. Safe inside a signal handler.
  bool claimReport(int code = 0);
  /// Says the one line, "error: …", if nobody has said one: leaves it and the
  /// launcher's exit code to the launcher that this program started itself with
  /// (announceLauncher), which prints it when mpirun has ended, else prints it.
  void report(const std::string &line, int code);

  /// Called by report() in any thread when this process has had the word about
  /// another rank (exitAfterFault) and is about to end.
  void onFault(std::function<void()> tell);

  /// Some process of the node was asked to end. Safe inside a signal handler.
  void requestStop();
  bool isStopRequested() const;

  int rank() const { return self; }
  int ranks() const { return count; }

  /// What another rank's record says.
  struct Record {
    int pid = 0, thread = 0; ///< 0: never began on this node
    bool left = false;
    int64_t step = 0;
    int32_t row = -1;
    Awaited waits; ///< without its label
    std::string label;
    int32_t writer = -1;   ///< of whose writer this rank's waits
    uint64_t progress = 0; ///< changes whenever the rank moves on
  };
  Record read(int rank) const;
  /// The last collective of a group that a rank has begun.
  uint32_t entered(int rank, int group) const;

  /// For the launcher: the board of the ranks whose parent is `parent`. Throws
  /// Error if the system does not say, for some seconds, which process it is.
  static std::string nameFor(int parent);
  /// What the launcher is to say of ranks that have ended with an error, and
  /// its code: the line that one of them left, else who never began or did not
  /// leave. Empty: somebody has said it, or ranks of other nodes say it.
  struct Report {
    std::string line;
    int code = 0; ///< 0: unknown
  };
  Report takeReport() const;
  /// Whether a rank of this node has ended that did not leave.
  bool failedHere() const;
  /// Whether all ranks, none of another node, have begun and ended.
  bool allGone() const;
  /// Whether any rank has come to a step; begun at all.
  bool anyTrains() const;
  bool anyBegan() const;

private:
  struct Cell;
  struct Text;
  Cell *cells() const;
  Text *text() const;
  void forgetDead();
  void moveIn();
  std::string path;
  void *memory = nullptr;
  size_t bytes = 0;
  int self, count;
  std::mutex telling; ///< guards `tell`
  std::function<void()> tell;
};

/// Counts as waiting as long as this object lives; what was waited for before
/// is put back. `board` may be null.
class Waits {
public:
  Waits(StatusBoard *board, const Awaited &what) : board(board) {
    if (!board)
      return;
    before = board->awaited();
    board->await(what);
  }
  ~Waits() {
    if (board)
      board->await(before);
  }
  Waits(const Waits &) = delete;
  Waits &operator=(const Waits &) = delete;

private:
  StatusBoard *board;
  Awaited before;
};

/// Ranks that are started now know this process as their launcher.
void announceLauncher();
/// Whether a launcher was announced to this rank, and whether it is gone.
bool hasLauncher();
bool isLauncherGone();

/// What a process is found to be: stopped by a signal, gone (also a zombie), or
/// running; that too if the system does not let this process look (no
/// descriptor is left, /proc is hidden), which says nothing about the other.
enum class ProcessState { Running, Stopped, Gone };
ProcessState stateOf(int pid);

/// How much a thread of a process has run: seconds on a core, and how often it
/// has come to one. A thread that hangs in a call has no more of either.
struct ThreadTime {
  double seconds = 0;
  uint64_t turns = 0;
  bool known = false; ///< the system has said it
};
ThreadTime timeOf(int pid, int thread);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_STATUS_H
