//===- Rules.cpp - which system calls go wrong, and how -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Runs inside other programs at any moment, so it allocates nothing, and its
// own system calls go past the wrappers.
//
//===----------------------------------------------------------------------===//

#include "Rules.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace faults {

namespace {

struct Rule {
  const char *call, *pattern;
  int error = 0, signal = 0, rank = -1;
  bool hang = false, launcher = false;
  double delay = 0;
  size_t most = size_t(-1), least = 0;
  long flip = -1;
  long cut = -1;                    ///< the file is made so short
  long after = 0, times = LONG_MAX; ///< matches passed over; acted on
  const char *when = nullptr;       ///< only while this file exists
  std::atomic<long> seen{0};
};

constexpr int kMost = 32;
Rule rules[kMost];
int count = 0;
char text[8192];

struct Name {
  const char *name;
  int value;
};
constexpr Name kErrors[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EACCES", EACCES},
    {"EROFS", EROFS},   {"EDQUOT", EDQUOT}, {"EMFILE", EMFILE},
    {"ENFILE", ENFILE}, {"ENOENT", ENOENT}, {"ENOMEM", ENOMEM},
    {"EINTR", EINTR},   {"EAGAIN", EAGAIN}, {"EPERM", EPERM},
    {"ESTALE", ESTALE}, {"EINVAL", EINVAL}, {"ENOSYS", ENOSYS},
    {"EFBIG", EFBIG},   {"EEXIST", EEXIST}, {"ENOTSUP", ENOTSUP}};
constexpr Name kSignals[] = {{"KILL", SIGKILL}, {"STOP", SIGSTOP},
                             {"TERM", SIGTERM}, {"INT", SIGINT},
                             {"SEGV", SIGSEGV}, {"ABRT", SIGABRT}};

[[noreturn]] void refuse(const char *what, const char *value) {
  char line[256];
  int n = std::snprintf(line, sizeof line, "DT_FAULTS: %s '%s'\n", what, value);
  ::syscall(SYS_write, STDERR_FILENO, line, size_t(n));
  ::_exit(99);
}

template <size_t N> int valueOf(const Name (&names)[N], const char *name) {
  for (const Name &n : names)
    if (!std::strcmp(n.name, name))
      return n.value;
  refuse("unknown name", name);
}

/// Seconds: "2s", "200ms", "2".
double secondsOf(const char *value) {
  char *end;
  double number = std::strtod(value, &end);
  return std::strcmp(end, "ms") ? number : number / 1000;
}

void set(Rule &rule, const char *key, const char *value) {
  auto is = [&](const char *name) { return !std::strcmp(key, name); };
  if (is("hang"))
    rule.hang = true;
  else if (is("errno"))
    rule.error = valueOf(kErrors, value);
  else if (is("signal"))
    rule.signal = valueOf(kSignals, value);
  else if (is("delay"))
    rule.delay = secondsOf(value);
  else if (is("short"))
    rule.most = size_t(std::atol(value));
  else if (is("flip"))
    rule.flip = std::atol(value);
  else if (is("min"))
    rule.least = size_t(std::atol(value));
  else if (is("cut"))
    rule.cut = std::atol(value);
  else if (is("after"))
    rule.after = std::atol(value);
  else if (is("times"))
    rule.times = std::atol(value);
  else if (is("when"))
    rule.when = value;
  else if (is("rank"))
    rule.launcher = !std::strcmp(value, "launcher"),
    rule.rank = rule.launcher ? -1 : std::atoi(value);
  else
    refuse("unknown key", key);
}

/// This process's rank; -1: not one of several (the launcher, or alone).
int ownRank() {
  const char *rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank)
    rank = std::getenv("RANK"); // over TCP
  return rank ? std::atoi(rank) : -1;
}

/// DT_FAULTS_PROGRAM: only processes of this program have faults.
bool isMeant() {
  const char *program = std::getenv("DT_FAULTS_PROGRAM");
  char own[PATH_MAX];
  ssize_t n = ::readlink("/proc/self/exe", own, sizeof own - 1);
  if (!program || n < 0)
    return true;
  own[n] = 0;
  return !std::strcmp(own, program);
}

void parseRule(char *rule) {
  char *save;
  const char *call = ::strtok_r(rule, ":", &save),
             *pattern = ::strtok_r(nullptr, ":", &save);
  if (!call || !pattern || count == kMost)
    refuse("expected CALL:PATTERN:ACTION", call ? call : "");
  Rule &made = rules[count];
  made.call = call;
  made.pattern = pattern;
  while (char *part = ::strtok_r(nullptr, ":", &save)) {
    char *equals = std::strchr(part, '=');
    if (equals)
      *equals = 0;
    set(made, part, equals ? equals + 1 : "");
  }
  int rank = ownRank();
  if ((made.rank >= 0 && made.rank != rank) || (made.launcher && rank >= 0))
    return;
  ++count;
}

bool parse() {
  const char *given = std::getenv("DT_FAULTS");
  if (!given || !isMeant())
    return false;
  if (std::strlen(given) >= sizeof text)
    refuse("too long", "");
  std::strcpy(text, given);
  char *save;
  for (char *rule = ::strtok_r(text, "; \n", &save); rule;
       rule = ::strtok_r(nullptr, "; \n", &save))
    parseRule(rule);
  return true;
}

/// After the rules above have their defaults, before main().
const bool parsed = parse();

/// A line in DT_FAULTS_LOG, so that a test knows that its fault has happened.
void log(const Rule &rule, const char *path) {
  const char *file = std::getenv("DT_FAULTS_LOG");
  if (!file)
    return;
  char line[PATH_MAX + 128];
  int n = std::snprintf(line, sizeof line, "%d %d %s %s\n", int(::getpid()),
                        ownRank(), rule.call, path);
  long fd = ::syscall(SYS_openat, AT_FDCWD, file,
                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  ::syscall(SYS_write, fd, line, size_t(n));
  ::syscall(SYS_close, fd);
}

void pass(double seconds) {
  timespec time{time_t(seconds),
                long((seconds - double(time_t(seconds))) * 1e9)};
  while (::syscall(SYS_nanosleep, &time, &time) < 0 && errno == EINTR)
    ;
}

bool applies(Rule &rule, const char *call, const char *path, size_t bytes) {
  if (std::strcmp(rule.call, call) || bytes < rule.least ||
      ::fnmatch(rule.pattern, path, 0))
    return false;
  if (rule.when && ::syscall(SYS_faccessat, AT_FDCWD, rule.when, F_OK))
    return false;
  long number = rule.seen.fetch_add(1);
  return number >= rule.after && number - rule.after < rule.times;
}

} // namespace

bool concerns(const char *call) {
  for (int i = 0; i < count; ++i)
    if (!std::strcmp(rules[i].call, call))
      return true;
  return false;
}

Verdict judge(const char *call, const char *path, int descriptor,
              size_t bytes) {
  Verdict verdict;
  int before = errno;
  char link[64], name[PATH_MAX] = "";
  if (!path && descriptor >= 0) {
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t n = ::readlink(link, name, sizeof name - 1);
    name[n < 0 ? 0 : n] = 0;
  }
  path = path ? path : name;
  for (int i = 0; i < count; ++i) {
    Rule &rule = rules[i];
    if (!applies(rule, call, path, bytes))
      continue;
    log(rule, path);
    if (rule.delay > 0)
      pass(rule.delay);
    if (rule.signal)
      ::kill(::getpid(), rule.signal);
    while (rule.hang)
      pass(3600);
    if (rule.cut >= 0)
      ::syscall(SYS_truncate, path, rule.cut);
    if (rule.error)
      verdict.error = rule.error;
    if (rule.flip >= 0)
      verdict.flip = rule.flip;
    if (rule.most < verdict.most)
      verdict.most = rule.most;
  }
  errno = before;
  return verdict;
}

} // namespace faults
