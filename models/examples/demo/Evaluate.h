//===- Evaluate.h - what the demonstration has learned ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// How well the three modules do what they are trained for, over all pictures
// with their names: captions (how improbable the true one is, how often the
// most probable words are exactly it) and drawings (is the drawn picture
// nearest to the one meant).
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_EXAMPLES_DEMO_EVALUATE_H
#define MODELS_EXAMPLES_DEMO_EVALUATE_H

#include "Runner.h"

#include "runtime/data/Picture.h"

namespace dt::demo {

struct Emoji {
  std::string name, png;
  std::vector<float>
      pixels; ///< as the generator's target: [3, height, width], -1..1
};

struct CaptionScore {
  double nats = 0; ///< a caption with its end, the true words before given
  double exact =
      0; ///< share with every word the most probable: equal to greedy decoding
};

struct DrawScore {
  double error = 0;   ///< mean square to the true picture
  double nearest = 0; ///< share nearer to their own picture than to any other
};

using Pixels = std::vector<float>;

class Evaluator {
public:
  /// `directory` has data.json; `pairs` is a shard with KEY.png and KEY.txt.
  /// Throws Error.
  Evaluator(const rt::ProgramInfo &program, const std::string &directory,
            const std::string &pairs);

  const std::vector<Emoji> &emoji() const { return all; }
  /// Numbers of all emoji.
  std::vector<int> everyone() const;

  CaptionScore captions(rt::Evaluation &modules) const;
  /// Greedy captions.
  std::vector<std::string> describe(rt::Evaluation &modules,
                                    const std::vector<int> &which) const;
  /// Pictures from names: rectified flow from noise in `steps` Euler steps; the
  /// model predicts the clean picture.
  std::vector<Pixels> draw(rt::Evaluation &modules,
                           const std::vector<int> &which, int steps) const;
  /// `drawn` are of everyone.
  DrawScore score(const std::vector<Pixels> &drawn) const;
  rt::data::Picture picture(const Pixels &pixels) const;

private:
  enum class Kind { Caption, Draw };
  /// Samples that fit a part and the emoji of their segments in order.
  struct Packed {
    std::vector<rt::data::DecodedSample> samples;
    std::vector<int> shown;
  };
  rt::data::DecodedSample sample(Kind kind, const std::vector<int> &which,
                                 const std::vector<std::string> &texts) const;
  std::vector<Packed> pack(Kind kind, const std::vector<int> &which,
                           const std::string &text = {}) const;
  void addScores(Runner &runner, CaptionScore &sum) const;
  std::vector<std::string> decode(Runner &runner) const;

  rt::data::Config config;
  /// Samples, images and targets that fit a part of every module.
  int64_t partSamples, partImages, partTargets;
  std::vector<Emoji> all;
  size_t longest = 0; ///< words of a name
  std::string filler; ///< as many words as a greedy caption may get
};

} // namespace dt::demo

#endif // MODELS_EXAMPLES_DEMO_EVALUATE_H
