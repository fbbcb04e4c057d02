//===- dt-data.cpp - build, index, check and describe data ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The command line: docs/data.md has the page. Errors are one line and exit
// code 1; wrong flags exit as LLVM's command line does.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Cores.h"
#include "runtime/base/Error.h"
#include "tools/common/Output.h"
#include "tools/dt-data/Build.h"
#include "tools/dt-data/Inspect.h"
#include "tools/dt-data/Measured.h"

#include "llvm/Support/CommandLine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace dt;
using namespace dt::tools;
namespace cl = llvm::cl;
using rt::Error;

namespace {
/// All flags, so that none is a global.
struct Options {
  cl::SubCommand build{"build", "write a shard"};
  cl::SubCommand vocabulary{"vocabulary",
                            "write the words of all texts, sorted"};
  cl::SubCommand index{"index", "build the indices of shards"};
  cl::SubCommand check{"check",
                       "decode everything; fail if any sample is broken"};
  cl::SubCommand stats{"stats", "histograms of tokens, items and measures"};

  cl::opt<std::string> font{"from-emoji",
                            cl::desc("colour bitmap font to draw emoji with"),
                            cl::value_desc("font.ttf"), cl::sub(build)};
  cl::opt<std::string> names{
      "names", cl::desc("Unicode's emoji-test.txt"), cl::value_desc("file"),
      cl::init("/usr/share/unicode/emoji/emoji-test.txt"), cl::sub(build)};
  cl::list<std::string> groups{
      "groups",
      cl::desc("groups or subgroups of emoji, or all (default animal-mammal, "
               "animal-bird, food-fruit, food-vegetable)"),
      cl::CommaSeparated, cl::sub(build)};
  cl::opt<std::string> folder{"from-dir",
                              cl::desc("folder whose files become the shard"),
                              cl::value_desc("folder"), cl::sub(build)};
  cl::opt<bool> pairs{
      "pairs", cl::desc("one picture and name an emoji instead of documents"),
      cl::sub(build)};
  cl::opt<unsigned> size{"size", cl::desc("pixels a side"), cl::init(32),
                         cl::sub(build)};
  cl::opt<unsigned> sequences{"sequences", cl::desc("documents"),
                              cl::init(12000), cl::sub(build)};
  cl::opt<unsigned> tokens{"tokens", cl::desc("most tokens of a document"),
                           cl::init(44), cl::sub(build)};
  cl::opt<unsigned> imageTokens{"image-tokens",
                                cl::desc("tokens that stand for a picture"),
                                cl::init(4), cl::sub(build)};
  cl::opt<std::string> images{
      "images", cl::desc("pictures to describe in a document"),
      cl::value_desc("low-high"), cl::init("0-3"), cl::sub(build)};
  cl::opt<std::string> targets{
      "targets", cl::desc("pictures to draw in a document"),
      cl::value_desc("low-high"), cl::init("0-4"), cl::sub(build)};
  cl::opt<unsigned long long> seed{"seed", cl::desc("of the composition"),
                                   cl::init(0), cl::sub(build)};
  cl::opt<std::string> wordsOut{"vocabulary",
                                cl::desc("also write the words of the names"),
                                cl::value_desc("file"), cl::sub(build)};
  cl::opt<std::string> output{"o",
                              cl::desc("output; of stats a page (HTML)"),
                              cl::value_desc("file"),
                              cl::sub(build),
                              cl::sub(vocabulary),
                              cl::sub(stats)};

  cl::list<std::string> shards{
      cl::Positional, cl::desc("<file>..."), cl::OneOrMore, cl::sub(vocabulary),
      cl::sub(index), cl::sub(check),        cl::sub(stats)};
  cl::opt<std::string> recipe{
      "recipe",
      cl::desc("recipe or data.json that says what samples are"),
      cl::value_desc("file"),
      cl::sub(index),
      cl::sub(check),
      cl::sub(stats)};
  cl::opt<unsigned> workers{
      "workers",      cl::desc("decoding threads (default: cores)"),
      cl::init(0),    cl::sub(index),
      cl::sub(check), cl::sub(stats)};
  cl::opt<bool> json{"json", cl::desc("print one JSON object"), cl::sub(stats)};
  cl::opt<std::string> samples{
      "samples",
      cl::desc("write what samples hold, for the planner (dt-opt --data)"),
      cl::value_desc("file.json"), cl::sub(stats)};
};

void parseRange(const char *flag, const std::string &text, int64_t &low,
                int64_t &high) {
  char *end = nullptr;
  low = std::strtol(text.c_str(), &end, 10);
  bool good = end != text.c_str();
  high = low;
  if (good && *end == '-') {
    const char *second = end + 1;
    high = std::strtol(second, &end, 10);
    good = end != second;
  }
  if (!good || *end || low < 0 || high < low || high > 1000)
    throw Error("--" + std::string(flag) + " " + text +
                ": expected a number or a range such as 0-3");
}

int build(Options &o) {
  if (o.font.empty() == o.folder.empty())
    throw Error("build: expected either --from-emoji or --from-dir");
  if (!o.folder.empty()) {
    writeFolder(o.folder, o.output);
    return 0;
  }
  if (o.size < 1 || o.size > 4096)
    throw Error("--size " + std::to_string(o.size) + ": expected 1 to 4096");
  std::vector<std::string> groups(o.groups.begin(), o.groups.end());
  if (groups.empty())
    groups = {"animal-mammal", "animal-bird", "food-fruit", "food-vegetable"};
  std::vector<Emoji> emoji = readEmojiNames(o.names, groups);
  drawEmoji(o.font, o.size, emoji);
  std::vector<std::string> texts;
  for (const Emoji &e : emoji)
    texts.push_back(e.name);
  if (!o.wordsOut.empty())
    writeVocabulary(texts, o.wordsOut);
  if (o.pairs) {
    writePairs(emoji, o.output);
    std::printf("%zu pictures with names -> %s\n", emoji.size(),
                o.output.c_str());
    return 0;
  }
  DocumentOptions d;
  d.sequences = o.sequences;
  d.tokens = o.tokens;
  d.imageTokens = o.imageTokens;
  d.seed = o.seed;
  parseRange("images", o.images, d.minImages, d.maxImages);
  parseRange("targets", o.targets, d.minTargets, d.maxTargets);
  writeDocuments(emoji, d, o.output);
  std::printf("%lld documents of %zu emoji -> %s\n", (long long)d.sequences,
              emoji.size(), o.output.c_str());
  return 0;
}

/// What `stats` was asked for.
void show(Options &o, const Report &report) {
  if (o.json)
    report.printJson();
  else if (o.output.empty())
    report.print();
  if (o.output.empty())
    return;
  auto write = [&](llvm::raw_ostream &os) {
    report.writePage(os);
    return llvm::Error::success();
  };
  if (llvm::Error error = writeOutput(o.output, write))
    throw Error(llvm::toString(std::move(error)));
}

int useShards(Options &o, const std::vector<std::string> &shards) {
  if (o.recipe.empty())
    throw Error("expected --recipe: " + shards.front() +
                " is read as a shard, of which a recipe says what samples are");
  rt::data::Config config = rt::data::Config::load(o.recipe);
  int workers =
      o.workers ? int(std::min(o.workers.getValue(), 64u)) : rt::usableCores();
  if (o.index)
    return !indexShards(config, shards, workers);
  if (o.check)
    return !checkShards(config, shards, workers);
  if (!o.samples.empty())
    writeSamples(config, shards, workers, o.samples);
  else
    show(o, countSamples(config, shards, workers));
  return 0;
}

int run(Options &o) {
  if ((o.build || o.vocabulary) && o.output.empty())
    throw Error(std::string(o.build ? "build" : "vocabulary") +
                ": expected -o FILE");
  if (o.build)
    return build(o);
  std::vector<std::string> shards(o.shards.begin(), o.shards.end());
  if (o.vocabulary) {
    writeVocabulary(collectTexts(shards), o.output);
    return 0;
  }
  if (!o.index && !o.check && !o.stats)
    throw Error("dt-data: expected a subcommand: build, vocabulary, index, "
                "check or stats (--help)");
  if (o.stats && std::all_of(shards.begin(), shards.end(), isMeasured)) {
    if (!o.samples.empty())
      throw Error("--samples: expected shards, not " + shards.front());
    show(o, reportOf(readMeasured(shards), shards.size()));
    return 0;
  }
  return useShards(o, shards);
}
} // namespace

/// The shared LLVM registers some hundred options of its backends, for all
/// subcommands, just by being loaded. Called before our own exist.
static void hideForeignOptions() {
  for (auto &entry : cl::getRegisteredOptions())
    if (entry.second->getOptionHiddenFlag() == cl::NotHidden &&
        entry.first != "help" && entry.first != "help-list" &&
        entry.first != "version")
      entry.second->setHiddenFlag(cl::Hidden);
}

int main(int argc, char **argv) {
  expectStandardOutput();
  hideForeignOptions();
  Options options;
  cl::ParseCommandLineOptions(
      argc, argv,
      "dt-data: build, index, check and describe WebDataset tar shards\n");
  try {
    return run(options);
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "dt-data: out of memory\n");
  }
  return 1;
}
