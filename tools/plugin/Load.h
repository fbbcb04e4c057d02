//===- Load.h - Tools load plugins ------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_PLUGIN_LOAD_H
#define TOOLS_PLUGIN_LOAD_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dt {

/// The values of an option on a command line, however they are written: those
/// that must be known before LLVM's parser has run.
std::vector<std::string> valuesOf(llvm::StringRef option,
                                  llvm::ArrayRef<char *> arguments);

/// Loads what --load-plugin names: its passes become options, so it is called
/// before these are parsed. One error, that names the file, if it cannot be
/// loaded, is no plugin, was built against another version, or brings a name
/// that is taken; also if two things of the compiler itself have one name.
llvm::Error loadPlugins(llvm::ArrayRef<char *> arguments,
                        mlir::DialectRegistry &dialects);

/// The category of --load-plugin.
llvm::cl::OptionCategory &getPluginOptions();

} // namespace dt

#endif // TOOLS_PLUGIN_LOAD_H
