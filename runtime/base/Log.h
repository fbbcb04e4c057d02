//===- Log.h - lines that training does not wait for ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Standard output and standard error may lead to somebody who does not read: a
// full pipe, a stopped terminal, a server that is gone. So a thread writes what
// is said there. Who says something waits until it is written, but a tenth of a
// second at most, and not at all while earlier text waits. Up to 1 MiB waits;
// what comes beyond is left out, and a line says how many lines that were.
//
// Where a write fails (the reader is gone, a full disk) training goes on: one
// warning on standard error says so, and the next text is tried again.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_LOG_H
#define DT_RUNTIME_BASE_LOG_H

#include <cstddef>
#include <string>

namespace dt::rt {

/// On standard output, or standard error; as printf.
__attribute__((format(printf, 1, 2))) void printLog(const char *format, ...);
__attribute__((format(printf, 1, 2))) void printError(const char *format, ...);

/// Bytes as they are, to descriptor 1 or 2.
void writeLog(int descriptor, const char *text, size_t bytes);

/// On standard error, by a process that is about to end: waits up to `seconds`
/// until all of it is written. `line` has no line break at its end.
void printLast(const std::string &line, double seconds = 2);

/// Waits for what is still to be written while somebody reads it, at most
/// `seconds` from one piece to the next. A process that exits does so itself.
void flushLog(double seconds = 2);

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_LOG_H
