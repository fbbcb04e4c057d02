//===- History.h - what was drawn and said on the way -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_EXAMPLES_DEMO_HISTORY_H
#define MODELS_EXAMPLES_DEMO_HISTORY_H

#include "Evaluate.h"

namespace dt::demo {

/// A folder that page.py reads: truth.png has a few pictures side by side,
/// step-N.png how they were drawn after step N, and history.jsonl a line for
/// every evaluation with its figures and their captions. Lines are added, so
/// that a resumed run goes on.
class History {
public:
  /// Throws Error if the folder cannot be written.
  History(const std::string &folder, const Evaluator &evaluator);

  /// Numbers of the emoji that are kept.
  const std::vector<int> &shown() const { return which; }
  /// `said` are captions of shown(), `drawn` pictures of everyone; `seconds`
  /// of training. Throws Error.
  void add(int64_t step, double seconds, const CaptionScore &captions,
           const DrawScore &score, const std::vector<std::string> &said,
           const std::vector<Pixels> &drawn) const;

private:
  void writeStrip(const std::string &name,
                  const std::vector<rt::data::Picture> &pictures) const;

  std::string folder;
  const Evaluator &evaluator;
  std::vector<int> which;
};

} // namespace dt::demo

#endif // MODELS_EXAMPLES_DEMO_HISTORY_H
