//===- CommandLine.h - Wrong flags in one line ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// LLVM says of a wrong flag what its parser met, on several lines, and guesses
// among hundreds of options of its own. Here that is one line with the flag and
// what was expected, before LLVM looks.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_COMMON_COMMANDLINE_H
#define TOOLS_COMMON_COMMANDLINE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/LogicalResult.h"

#include <cstdint>

namespace dt {

/// Prints "error: …" and fails if an argument is no option that is known now
/// (with the nearest that --help shows), has no value and needs one or the
/// other way round, stands twice, or is one file too many.
llvm::LogicalResult checkArguments(llvm::ArrayRef<char *> arguments,
                                   bool takesFile);

/// Of a cl::opt<int64_t, false, dt::NumberParser>: what is no whole number
/// ends the program with one line.
class NumberParser : public llvm::cl::parser<long long> {
public:
  using parser::parser;
  bool parse(llvm::cl::Option &option, llvm::StringRef name,
             llvm::StringRef text, long long &value);
  llvm::StringRef getValueName() const override { return "number"; }
};

using NumberOption = llvm::cl::opt<int64_t, false, NumberParser>;

} // namespace dt

#endif // TOOLS_COMMON_COMMANDLINE_H
