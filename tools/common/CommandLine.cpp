//===- CommandLine.cpp - Wrong flags in one line --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/CommandLine.h"
#include "models/frontend/json/JsonReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <utility>

using namespace llvm;

namespace {

LogicalResult fail(const Twine &message) {
  errs() << "error: " << dt::models::oneLine(message.str()) << "\n";
  return failure();
}

/// LLVM's own guess may be any of the hidden ones.
LogicalResult failUnknown(StringRef option) {
  std::vector<std::string> shown;
  for (auto &entry : cl::getRegisteredOptions())
    if (entry.second->getOptionHiddenFlag() == cl::NotHidden)
      shown.push_back(("--" + entry.first).str());
  sort(shown);
  return fail("there is no option '" + option + "'" +
              dt::models::didYouMean(
                  option, std::vector<StringRef>(shown.begin(), shown.end())) +
              " (--help lists them)");
}

/// `value` is what stands behind "=", or null. Whether its value is the next
/// argument is returned in `apart`.
LogicalResult checkOption(const cl::Option &option, StringRef name,
                          const char *value, bool isLast, bool isSecond,
                          bool &apart) {
  cl::ValueExpected expected = option.getValueExpectedFlag();
  apart = !value && expected == cl::ValueRequired;
  if (apart && isLast)
    return fail("--" + name + " needs a value");
  if (value && expected == cl::ValueDisallowed)
    return fail("--" + name + " takes no value, not '" + value + "'");
  bool once = option.getNumOccurrencesFlag() == cl::Optional ||
              option.getNumOccurrencesFlag() == cl::Required;
  if (once && isSecond)
    return fail("--" + name + " stands twice");
  return success();
}

} // namespace

LogicalResult dt::checkArguments(ArrayRef<char *> arguments, bool takesFile) {
  auto &known = cl::getRegisteredOptions();
  StringSet<> seen;
  bool hasFile = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    StringRef argument = arguments[i], rest = argument;
    if (argument == "--")
      break; // files follow
    if (argument == "-" || !rest.consume_front("-")) {
      if (!takesFile)
        return fail("'" + argument + "' is no option (--help lists them)");
      if (std::exchange(hasFile, true))
        return fail("expected one file; '" + argument + "' is a second");
      continue;
    }
    rest.consume_front("-");
    size_t equals = rest.find('=');
    StringRef name = rest.take_front(equals);
    auto found = known.find(name);
    if (found == known.end() && takesFile && name == "o") {
      i += equals == StringRef::npos; // MLIR adds it when it parses
      continue;
    }
    if (found == known.end())
      return failUnknown(
          argument.take_front(argument.size() - rest.size() + name.size()));
    bool apart = false;
    const char *value =
        equals == StringRef::npos ? nullptr : rest.data() + equals + 1;
    if (failed(checkOption(*found->second, name, value,
                           i + 1 == arguments.size(), !seen.insert(name).second,
                           apart)))
      return failure();
    i += apart ? 1 : 0; // its value, whatever it begins with
  }
  return success();
}

bool dt::NumberParser::parse(cl::Option &, StringRef name, StringRef text,
                             long long &value) {
  if (!text.getAsInteger(0, value))
    return false;
  (void)fail("--" + name + ": expected a whole number, not '" + text + "'");
  std::exit(1);
}
