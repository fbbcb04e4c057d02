//===- WeightMatcher.h - which tensor a parameter takes ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_WEIGHTMATCHER_H
#define DT_RUNTIME_SAVE_WEIGHTMATCHER_H

#include "runtime/save/InitialWeights.h"
#include "runtime/state/Pieces.h"

#include <map>
#include <string>
#include <vector>

namespace dt::rt {

/// A parameter with all its copies, and what files may call it.
struct WeightTarget {
  size_t row; ///< the original's
  std::vector<std::string> names{};
  bool skipped = false, given = false;
};

/// A source's tensors under the names that renaming gives them.
class RenamedTensors {
public:
  /// Throws Error if two get one name. Notes which rules were used.
  RenamedTensors(const std::vector<std::string> &names,
                 std::vector<NameRule> &rules, const std::string &where);

  /// The tensor's name in the file; empty if there is none.
  std::string find(const std::string &name) const;
  /// Those that no exact name has taken, by their bare names (bareName()).
  std::map<std::string, std::vector<std::string>>
  byBareName(const std::vector<std::string> &taken) const;

private:
  std::map<std::string, std::string> files; ///< by new name
};

/// A name without the wrappers in front that modules and files differ in:
/// "model.net.transformer.wte.weight" is "wte.weight".
std::string bareName(const std::string &name);

/// Which tensor of a source each target takes; empty: none.
using Choice = std::vector<std::string>;

/// Finds tensors for parameters: by exact names, then by names without the
/// wrappers in front, where names and shapes leave no doubt.
class WeightMatcher {
public:
  /// Throws Error if a pattern of `skip` matches nothing.
  WeightMatcher(const Trainer &trainer, const std::vector<std::string> &skip);

  /// Throws Error if the program has no such module.
  void expectModule(const std::string &name) const;
  /// Throws Error if the source has nothing, something of another shape or
  /// type, or a tensor that two parameters would take.
  Choice choose(const PieceReader &reader, const WeightSource &source,
                const RenamedTensors &tensors, const std::string &where) const;
  /// Whether the source is to give values to the target.
  bool wanted(size_t t, const WeightSource &source) const;
  const char *nameOf(size_t t) const {
    return program.parameters[targets[t].row].tensor.name;
  }
  bool isAdapter(size_t t) const {
    return dt::rt::isAdapter(program.parameters[targets[t].row]);
  }
  /// The target of an original row.
  size_t targetOf(size_t original) const { return numbers[original]; }
  /// "; 5 of them BF16", if any are converted; "; 3 of them under names that
  /// begin otherwise ('wte.weight' for 'model.net.wte.weight')".
  std::string conversions(const Choice &choice,
                          const PieceReader &reader) const;
  std::string otherNames(const Choice &choice,
                         const RenamedTensors &tensors) const;

  std::vector<WeightTarget> targets;

private:
  void addNames(WeightTarget &target, const ParameterInfo &p) const;
  void skipMatching(const std::string &pattern);
  std::string exact(size_t t, const RenamedTensors &tensors) const;
  void chooseByBareName(Choice &choice, const PieceReader &reader,
                        const WeightSource &source,
                        const RenamedTensors &tensors,
                        const std::string &where) const;
  bool fits(size_t t, const std::string &tensor,
            const PieceReader &reader) const;
  [[noreturn]] void failAmbiguous(size_t first, size_t second,
                                  const std::string &tensor,
                                  const std::string &where) const;
  [[noreturn]] void failNothing(const PieceReader &reader,
                                const WeightSource &source,
                                const std::string &where) const;
  void expectShapes(const Choice &choice, const PieceReader &reader,
                    const std::string &where) const;

  const ProgramInfo &program;
  const ParameterValues &values;
  std::vector<size_t> numbers; ///< of targets, by original row
};

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_WEIGHTMATCHER_H
