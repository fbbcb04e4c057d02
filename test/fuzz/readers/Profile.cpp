//===- Profile.cpp - fuzz target of profiles --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Profile.h"
#include "test/fuzz/readers/Refusal.h"
#include "test/passes/planner/PrintProfile.h"

using namespace dt;
using namespace dt::planner;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto profile = fuzz::accepted(parseProfile(text, "profile.json"));
  if (!profile)
    return 0;
  std::string printed = printProfile(*profile);
  auto again = parseProfile(printed, "printed.json");
  if (!again)
    fuzz::fail("what is printed is refused: " +
               llvm::toString(again.takeError()));
  fuzz::expect(printProfile(*again) == printed,
               "a profile changes in a round trip");
  return 0;
}
