//===- OptionsTest.cpp - the command line -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Options.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

using namespace dt::rt;

namespace {

Options parse(std::vector<const char *> arguments) {
  arguments.insert(arguments.begin(), "train");
  return parseOptions(int(arguments.size()), arguments.data());
}

TEST(Options, BothSpellings) {
  Options o = parse({"--data", "shards/*.tar", "--steps=12", "--checkpoint",
                     "c", "--resume", "--lr", "1e-3", "--seed=7"});
  EXPECT_EQ(o.data, "shards/*.tar");
  EXPECT_EQ(o.steps, 12);
  EXPECT_TRUE(o.resume);
  EXPECT_EQ(*o.lr, 1e-3);
  EXPECT_EQ(*o.seed, 7u);
  EXPECT_FALSE(o.reorder);
  EXPECT_EQ(*parse({"--reorder", "intra"}).reorder, Reorder::Intra);
  EXPECT_EQ(parse({"--profile=p.json", "--rows", "1,4"}).rows,
            (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(o.keep, 2);
  EXPECT_FALSE(o.best);
  o = parse({"--init-from", "a", "--init-from=llm=b", "--init-skip", "*.w"});
  EXPECT_EQ(o.initFrom, (std::vector<std::string>{"a", "llm=b"}));
  EXPECT_EQ(o.initSkip, std::vector<std::string>{"*.w"});
  EXPECT_FALSE(o.initPartial);
  o = parse({"--init-from=a", "--init-rename", "model.=", "--init-partial",
             "--init-rename==net."});
  EXPECT_TRUE(o.initPartial);
  EXPECT_EQ(o.initRename, (std::vector<std::string>{"model.=", "=net."}));
  o = parse({"--checkpoint=c", "--resume=best", "--new-data", "--keep", "5"});
  EXPECT_TRUE(o.resume && o.best && o.newData);
  EXPECT_EQ(o.keep, 5);
  EXPECT_EQ(parse({"--batch", "a", "--batch=b*"}).batch,
            (std::vector<std::string>{"a", "b*"}));
  EXPECT_EQ(o.checkReplicas, 1000);
  EXPECT_EQ(parse({"--check-replicas=0"}).checkReplicas, 0);
  EXPECT_EQ(parse({"--check-replicas", "7"}).checkReplicas, 7);
  EXPECT_EQ(o.onNaN, OnNaN::Stop);
  EXPECT_EQ(parse({"--on-nan", "skip"}).onNaN, OnNaN::Skip);
  EXPECT_EQ(parse({"--on-nan=back", "--checkpoint=c"}).onNaN, OnNaN::Back);
}

TEST(Options, Sizes) {
  auto size = [](const std::string &value) {
    return parse({"--checkpoint=c", "--snapshot-memory", value.c_str()})
        .snapshotMemory;
  };
  EXPECT_EQ(parse({}).snapshotMemory, 0u);
  EXPECT_EQ(size("4096"), 4096u);
  EXPECT_EQ(size("4K"), 4096u);
  EXPECT_EQ(size("512M"), uint64_t(512) << 20);
  EXPECT_EQ(size("8G"), uint64_t(8) << 30);
  EXPECT_EQ(size("2T"), uint64_t(2) << 40);
}

TEST(Options, Errors) {
  EXPECT_ERROR(
      parse({"--stps", "3"}),
      "unknown flag '--stps' (--help lists them); did you mean '--steps'?");
  EXPECT_ERROR(parse({"--tensorbord=x"}), "did you mean '--tensorboard'?");
  EXPECT_ERROR(parse({"data"}), "unknown flag 'data'");
  EXPECT_ERROR(parse({"--steps"}), "--steps needs a value");
  EXPECT_ERROR(parse({"--profile=p.json", "--rows=4,1"}),
               "--rows: '4,1' is not a list of ascending numbers");
  EXPECT_ERROR(parse({"--profile=p.json", "--rows=1,,2"}), "--rows: ''");
  EXPECT_ERROR(parse({"--rows=1"}), "--rows goes with --profile");
  EXPECT_ERROR(parse({"--steps", "3x"}), "--steps: '3x' is not");
  EXPECT_ERROR(parse({"--check-replicas=-1"}), "--check-replicas: '-1' is not");
  EXPECT_ERROR(parse({"--threads", "0"}),
               "--threads: '0' is not a positive number");
  EXPECT_ERROR(parse({"--lr", "nan"}), "--lr");
  EXPECT_ERROR(parse({"--reorder=all"}),
               "--reorder: 'all' is not none, intra, inter or both");
  EXPECT_ERROR(parse({"--resume"}), "--resume needs --checkpoint");
  EXPECT_ERROR(parse({"--checkpoint=c", "--resume=last"}),
               "--resume: 'last' is not newest or best");
  EXPECT_ERROR(parse({"--checkpoint=c", "--resume", "--init-from=a"}),
               "exclude each other");
  EXPECT_ERROR(parse({"--init-skip=a"}), "--init-skip goes with --init-from");
  EXPECT_ERROR(parse({"--init-rename=a=b"}),
               "--init-rename goes with --init-from");
  EXPECT_ERROR(parse({"--init-partial"}),
               "--init-partial goes with --init-from");
  EXPECT_ERROR(parse({"--new-data"}), "--new-data goes with --resume");
  EXPECT_ERROR(parse({"--keep=0"}), "--keep: '0' is not a positive number");
  EXPECT_ERROR(parse({"--validate=a"}),
               "--validate goes with --data or --batch");
  EXPECT_ERROR(parse({"--batch=a", "--validate-every=2"}),
               "--validate-every goes with --validate");
  EXPECT_ERROR(parse({"--data", "a", "--batch", "b"}), "exclude each other");
  EXPECT_ERROR(parse({"--steps=2", "--steps", "3"}), "--steps stands twice");
  EXPECT_ERROR(parse({"--on-nan=go"}),
               "--on-nan: 'go' is not stop, skip or back");
  EXPECT_ERROR(parse({"--on-nan=back"}), "--on-nan back needs --checkpoint");
  EXPECT_ERROR(parse({"--keep=3"}), "--keep needs --checkpoint");
  EXPECT_ERROR(parse({"--snapshot-memory=1G"}),
               "--snapshot-memory needs --checkpoint");
  for (std::string size : {"", "0", "4095", "3K", "G", "1g", "1GB", "-1", "+1G",
                           " 1G", "1.5G", "17000000T", "99999999999999999999"})
    EXPECT_ERROR(parse({"--checkpoint=c", "--snapshot-memory", size.c_str()}),
                 ("--snapshot-memory: '" + size +
                  "' is not a size of 4K or "
                  "more (512M, 8G)")
                     .c_str());
}

} // namespace
