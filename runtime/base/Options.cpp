//===- Options.cpp - the command line of a training program -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Options.h"
#include "runtime/EnumTexts.h"
#include "runtime/base/Cores.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace dt::rt {

namespace {

using Setter = std::function<void(const std::string &value)>;

[[noreturn]] void bad(const std::string &flag, const std::string &value,
                      const char *expected) {
  throw Error(flag + ": '" + value + "' is not " + expected);
}

int64_t integer(const std::string &flag, const std::string &value,
                int64_t least, int64_t most) {
  errno = 0;
  char *end;
  long long number = std::strtoll(value.c_str(), &end, 10);
  if (value.empty() || *end || errno || number < least || number > most)
    bad(flag, value, least > 0 ? "a positive number" : "a non-negative number");
  return number;
}

/// "4096", "512M", "8G": with K, M, G or T it counts 1024s.
uint64_t size(const std::string &flag, const std::string &value, uint64_t least,
              const char *expected) {
  static const std::string units = "KMGT";
  errno = 0;
  char *end;
  unsigned long long number = std::strtoull(value.c_str(), &end, 10);
  size_t unit = *end ? units.find(*end) + 1 : 0;
  bool good = !value.empty() && std::isdigit(uint8_t(value[0])) && !errno &&
              (!*end || (unit > 0 && !end[1]));
  if (!good || number > (UINT64_MAX >> 10 * unit) ||
      number << 10 * unit < least)
    bad(flag, value, expected);
  return number << 10 * unit;
}

double real(const std::string &flag, const std::string &value, bool zero) {
  char *end;
  double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end || !std::isfinite(number) || number < 0 ||
      (!zero && number == 0))
    bad(flag, value, zero ? "a non-negative number" : "a positive number");
  return number;
}

std::vector<int64_t> ascending(const std::string &flag,
                               const std::string &value) {
  std::vector<int64_t> out;
  for (size_t at = 0; at <= value.size();) {
    size_t end = std::min(value.find(',', at), value.size());
    out.push_back(integer(flag, value.substr(at, end - at), 1, 1 << 20));
    if (out.size() > 1 && out.back() <= out[out.size() - 2])
      bad(flag, value, "a list of ascending numbers");
    at = end + 1;
  }
  return out;
}

Reorder reorderMode(const std::string &value) {
  if (std::optional<Reorder> mode = fromText<Reorder>(value))
    return *mode;
  bad("--reorder", value, "none, intra, inter or both");
}

OnNaN onNaN(const std::string &value) {
  if (value == "stop")
    return OnNaN::Stop;
  if (value == "skip")
    return OnNaN::Skip;
  if (value == "back")
    return OnNaN::Back;
  bad("--on-nan", value, "stop, skip or back");
}

std::map<std::string, Setter> settersFor(Options &o) {
  auto text = [](std::string &field) {
    return [&field](const std::string &v) { field = v; };
  };
  auto list = [](std::vector<std::string> &field) {
    return [&field](const std::string &v) { field.push_back(v); };
  };
  return {
      {"--program", text(o.program)},
      {"--data", text(o.data)},
      {"--batch", list(o.batch)},
      {"--steps",
       [&](auto &v) { o.steps = integer("--steps", v, 0, INT64_MAX / 2); }},
      {"--threads",
       [&](auto &v) { o.threads = int(integer("--threads", v, 1, 4096)); }},
      {"--workers",
       [&](auto &v) { o.workers = int(integer("--workers", v, 1, 1024)); }},
      {"--checkpoint", text(o.checkpoint)},
      {"--save-every",
       [&](auto &v) {
         o.saveEvery = integer("--save-every", v, 1, INT64_MAX / 2);
       }},
      {"--keep", [&](auto &v) { o.keep = integer("--keep", v, 1, INT32_MAX); }},
      {"--snapshot-memory",
       [&](auto &v) {
         o.snapshotMemory = size("--snapshot-memory", v, 4096,
                                 "a size of 4K or more (512M, 8G)");
       }},
      {"--resume",
       [&](auto &v) {
         if (v != "newest" && v != "best")
           bad("--resume", v, "newest or best");
         o.resume = true, o.best = v == "best";
       }},
      {"--validate", text(o.validate)},
      {"--validate-every",
       [&](auto &v) {
         o.validateEvery = integer("--validate-every", v, 1, INT64_MAX / 2);
       }},
      {"--tensorboard", text(o.tensorboard)},
      {"--init-from", list(o.initFrom)},
      {"--init-skip", list(o.initSkip)},
      {"--init-rename", list(o.initRename)},
      {"--metrics", text(o.metrics)},
      {"--trace", text(o.trace)},
      {"--save-outputs", text(o.saveOutputs)},
      {"--save-gradients", text(o.saveGradients)},
      {"--export", text(o.exportTo)},
      {"--export-ema", text(o.exportAverages)},
      {"--export-precision",
       [&](auto &v) {
         if (v != "bf16" && v != "f32")
           bad("--export-precision", v, "f32 or bf16");
         o.exportNarrow = v == "bf16";
       }},
      {"--seed",
       [&](auto &v) { o.seed = uint64_t(integer("--seed", v, 0, INT64_MAX)); }},
      {"--lr", [&](auto &v) { o.lr = real("--lr", v, true); }},
      {"--reorder", [&](auto &v) { o.reorder = reorderMode(v); }},
      {"--log-every",
       [&](auto &v) { o.logEvery = real("--log-every", v, true); }},
      {"--ranks",
       [&](auto &v) { o.ranks = int(integer("--ranks", v, 1, 1 << 20)); }},
      {"--traffic", text(o.traffic)},
      {"--report", text(o.report)},
      {"--profile", text(o.profile)},
      {"--rows", [&](auto &v) { o.rows = ascending("--rows", v); }},
      {"--on-nan", [&](auto &v) { o.onNaN = onNaN(v); }},
      {"--check-replicas",
       [&](auto &v) {
         o.checkReplicas = integer("--check-replicas", v, 0, INT64_MAX / 2);
       }},
      {"--stall", [&](auto &v) { o.stall = real("--stall", v, false); }},
  };
}

void checkTogether(const Options &o) {
  if (!o.data.empty() && !o.batch.empty())
    throw Error("--data and --batch exclude each other");
  if (o.checkpoint.empty() && (o.resume || o.saveEvery))
    throw Error(std::string(o.resume ? "--resume" : "--save-every") +
                " needs --checkpoint DIR");
  if (!o.exportTo.empty() && o.exportTo == o.exportAverages)
    throw Error("--export and --export-ema name the same folder, " +
                o.exportTo);
  if (o.exports().empty() && o.exportNarrow)
    throw Error(
        "--export-precision goes with --export DIR or --export-ema DIR");
  if (o.checkpoint.empty() && o.onNaN == OnNaN::Back)
    throw Error("--on-nan back needs --checkpoint DIR");
  if (o.resume && !o.initFrom.empty())
    throw Error("--init-from begins a new run, --resume goes on with one: they "
                "exclude each other");
  if (o.initFrom.empty())
    for (auto [flag, isGiven] : {std::pair("--init-skip", !o.initSkip.empty()),
                                 {"--init-rename", !o.initRename.empty()},
                                 {"--init-partial", o.initPartial}})
      if (isGiven)
        throw Error(std::string(flag) + " goes with --init-from PATH");
  if (o.newData && !o.resume)
    throw Error("--new-data goes with --resume");
  if (o.validateEvery && o.validate.empty())
    throw Error("--validate-every goes with --validate FILE");
  if (!o.validate.empty() && o.data.empty() && o.batch.empty())
    throw Error("--validate goes with --data or --batch");
  if (!o.rows.empty() && o.profile.empty())
    throw Error("--rows goes with --profile F.json");
}

} // namespace

/// Flags that may differ between ranks, and why; every other one may not.
Sameness sameness(const std::string &flag) {
  static const std::map<std::string, Sameness> others = {
      // Machines may have other numbers of cores, or less memory; no result
      // depends on it.
      {"--threads", Sameness::Free},
      {"--workers", Sameness::Free},
      {"--snapshot-memory", Sameness::Free},
      // For whoever starts ranks; what it says is compared with the plan.
      {"--ranks", Sameness::Free},
      // Copies of what is read. Batches are compared in every step, weights
      // before the first.
      {"--program", Sameness::Free},
      {"--data", Sameness::Given},
      {"--batch", Sameness::Given},
      {"--validate", Sameness::Given},
      {"--init-from", Sameness::Given}};
  auto found = others.find(flag);
  return found == others.end() ? Sameness::Value : found->second;
}

/// Characters to insert, drop or replace between two words.
static size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// "; did you mean '--steps'?" for the nearest flag, or "".
static std::string nearestFlag(const std::string &flag,
                               const std::map<std::string, Setter> &setters,
                               const std::map<std::string, bool *> &switches) {
  std::vector<std::string> known;
  for (auto &[name, setter] : setters)
    known.push_back(name);
  for (auto &[name, given] : switches)
    known.push_back(name);
  auto nearer = [&](const std::string &a, const std::string &b) {
    return distance(flag, a) < distance(flag, b);
  };
  std::string best = *std::min_element(known.begin(), known.end(), nearer);
  return 3 * distance(flag, best) > flag.size()
             ? ""
             : "; did you mean '" + best + "'?";
}

Options parseOptions(int argc, const char *const *argv) {
  Options options;
  std::map<std::string, Setter> setters = settersFor(options);
  std::map<std::string, bool *> switches{
      {"--resume", &options.resume},
      {"--new-data", &options.newData},
      {"--init-partial", &options.initPartial},
      {"--help", &options.help},
      {"-h", &options.help}};
  std::set<std::string> seen;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i], value;
    size_t equals =
        flag.rfind("--", 0) == 0 ? flag.find('=') : std::string::npos;
    bool inlined = equals != std::string::npos;
    if (inlined) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    }
    auto given = switches.find(flag);
    if (given != switches.end() && !inlined) {
      *given->second = true;
      options.given[flag] = flag == "--resume" ? "newest" : "given";
      continue;
    }
    auto setter = setters.find(flag);
    if (setter == setters.end())
      throw Error("unknown flag '" + std::string(argv[i]) +
                  "' (--help lists them)" +
                  nearestFlag(flag, setters, switches));
    if (!inlined) {
      if (++i == argc)
        throw Error(flag + " needs a value");
      value = argv[i];
    }
    static const std::set<std::string> lists = {"--batch", "--init-from",
                                                "--init-skip", "--init-rename"};
    if (!seen.insert(flag).second && !lists.count(flag))
      throw Error(flag + " stands twice");
    setter->second(value);
    std::string &before = options.given[flag];
    before += (before.empty() ? "" : ",") + value;
  }
  if (!options.help)
    checkTogether(options);
  for (const char *flag : {"--keep", "--snapshot-memory"})
    if (seen.count(flag) && options.checkpoint.empty())
      throw Error(std::string(flag) + " needs --checkpoint DIR");
  return options;
}

void expectThreads(const char *flag, int threads) {
  // Tests and small machines ask for some more than there are.
  int cores = usableCores(), most = std::max(16, 4 * cores);
  if (threads > most)
    throw Error(std::string(flag) + " " + std::to_string(threads) +
                ": at most " + std::to_string(most) +
                " (this process may use " + std::to_string(cores) +
                (cores == 1 ? " core)" : " cores)"));
}

const char *optionsHelp() {
  return "  --data 'SHARDS/*.tar'   train on WebDataset shards\n"
         "  --batch F.safetensors   train on this batch (tensors named "
         "module.input or input); a\n"
         "                          batch a step: several files ('DIR/*', or "
         "repeated), or a pipe\n"
         "  --steps N               train until N steps are done (default: "
         "length of the schedule)\n"
         "  --threads N             compute threads (default: OMP_NUM_THREADS "
         "or all cores)\n"
         "  --workers N             threads that decode data (1)\n"
         "  --checkpoint DIR        save there at the end, on Ctrl-C and "
         "SIGTERM\n"
         "  --save-every K          also every K steps\n"
         "  --resume                continue from the newest checkpoint that "
         "is whole\n"
         "  --resume=best           continue from the one with the smallest "
         "validation loss\n"
         "  --keep K                keep the K newest checkpoints (2), and the "
         "best\n"
         "  --snapshot-memory SIZE  host memory for what is saved while "
         "training goes on: 512M, 8G\n"
         "                          (a quarter of the machine's, shared by its "
         "ranks); updates\n"
         "                          wait for what has no room\n"
         "  --on-nan WHAT           after a loss that is no number: stop, skip "
         "the update,\n"
         "                          or go back to the newest checkpoint "
         "(stop)\n"
         "  --new-data              resume although the data set is another\n"
         "  --init-from PATH        begin with the weights of a checkpoint or "
         "of safetensors\n"
         "                          files, by name (MODULE=PATH: of one "
         "module; may be repeated)\n"
         "  --init-rename FROM=TO   names of tensors that begin with FROM "
         "begin with TO instead\n"
         "  --init-skip PATTERN     but keep these parameters (*, ?) as the "
         "program begins\n"
         "  --init-partial          and those that no source has\n"
         "  --ranks N               start N ranks under mpirun\n"
         "  --validate FILE         losses on other data, at the end: batches "
         "or 'SHARDS/*.tar'\n"
         "  --validate-every N      also every N steps; the best checkpoint is "
         "kept as DIR/best\n"
         "  --metrics F.jsonl       a JSON object a step\n"
         "  --tensorboard DIR       the same numbers as TensorBoard events\n"
         "  --trace F.json          times of all tasks, for ui.perfetto.dev\n"
         "  --stall SECONDS         end all ranks when one stands still for so "
         "long (120)\n"
         "  --check-replicas N      compare the parameters of replicas every N "
         "steps (1000; 0: never),\n"
         "                          at the start, at the end and before they "
         "are saved\n"
         "  --report F.json         measured step beside what its tasks' times "
         "give\n"
         "  --profile F.json        measure tasks on made-up parts instead of "
         "training\n"
         "  --rows 1,2,4            samples of these parts (default: the "
         "recipe's microbatch)\n"
         "  --traffic F.json        bytes that ranks sent, by edge and "
         "collective\n"
         "  --save-outputs F        outputs and losses of the first step, as "
         "safetensors\n"
         "  --save-gradients F      gradients of the first step\n"
         "  --export DIR            write the ONNX files with the trained "
         "weights\n"
         "  --export-ema DIR        the same with the averages of a recipe's "
         "ema\n"
         "  --export-precision P    of float32 weights in these files: f32 "
         "(default) or bf16\n"
         "  --seed S, --lr X        replace the recipe's\n"
         "  --reorder MODE          none, intra, inter or both: who works on "
         "what (the plan's)\n"
         "  --log-every SECONDS     between lines when the output is no "
         "terminal (15)\n"
         "  --program DIR           weights.safetensors, data.json and onnx/ "
         "of this program\n";
}

} // namespace dt::rt
