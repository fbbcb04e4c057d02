//===- BatchFilesTest.cpp - a batch a step, of files and pipes --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Stop.h"
#include "runtime/data/Parcels.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace dt::rt;
using namespace small;

namespace {

const nlohmann::json kSections = {
    {"inputs", {{"head.positions", {{"index", {"sample", "token"}}}}}}};

/// The only rank.
struct Alone : BatchPeers {
  void share(std::string &) override {}
  void deal(std::vector<Parcel> &) override {}
};

/// Keeps what the first rank says and gives.
struct First : BatchPeers {
  void share(std::string &text) override { texts.push_back(text); }
  void deal(std::vector<Parcel> &all) override { parcels = all; }
  std::vector<std::string> texts;
  std::vector<Parcel> parcels;
};
/// Another rank, which gets that.
struct Other : BatchPeers {
  Other(const First &first, int rank) : first(first), rank(rank) {}
  void share(std::string &text) override { text = first.texts[said++]; }
  void deal(std::vector<Parcel> &parcels) override {
    ASSERT_EQ(parcels.size(), first.parcels.size());
    for (size_t i = 0; i < parcels.size(); ++i) {
      EXPECT_EQ(parcels[i].ranks, first.parcels[i].ranks);
      EXPECT_EQ(parcels[i].size, first.parcels[i].bytes.size());
      if (parcels[i].isFor(rank))
        parcels[i].bytes = first.parcels[i].bytes;
    }
  }
  const First &first;
  int rank;
  size_t said = 0;
};

void expectSame(const Batch &have, const Batch &want) {
  EXPECT_EQ(have.hash, want.hash);
  EXPECT_EQ(have.samples, want.samples);
  ASSERT_EQ(have.modules.size(), want.modules.size());
  for (size_t m = 0; m < want.modules.size(); ++m) {
    ASSERT_EQ(have.modules[m].size(), want.modules[m].size());
    for (size_t p = 0; p < want.modules[m].size(); ++p) {
      const Part &a = have.modules[m][p], &b = want.modules[m][p];
      EXPECT_EQ(a.dims, b.dims);
      EXPECT_EQ(a.items, b.items);
      ASSERT_EQ(a.inputs.size(), b.inputs.size());
      for (size_t i = 0; i < b.inputs.size(); ++i) {
        ASSERT_EQ(a.inputs[i].size, b.inputs[i].size);
        if (b.inputs[i].size) {
          EXPECT_EQ(
              std::memcmp(a.inputs[i].data, b.inputs[i].data, b.inputs[i].size),
              0);
        }
      }
    }
  }
}

class BatchFilesTest : public ::testing::Test {
protected:
  /// A batch whose ids all are `id`, which says of which step it is if that is
  /// not negative.
  void write(const std::string &name, int64_t id, int64_t step = -1) {
    SafetensorsFile file(folder / "batch");
    SafetensorsWriter writer;
    std::vector<int64_t> ids(kSamples * kTokens, id);
    for (auto &[other, view] : file.tensors())
      writer.add(other, view.type, view.shape,
                 other == "ids" ? static_cast<const void *>(ids.data())
                                : view.data);
    if (step >= 0)
      writer.note("step", std::to_string(step));
    writer.write(folder / name);
  }
  std::string bytesOf(const std::string &name) {
    return readText(folder / name, 1 << 20);
  }
  std::unique_ptr<BatchSource> open(const std::vector<std::string> &names) {
    return open(names, program, 0, std::make_shared<Alone>());
  }
  std::unique_ptr<BatchSource> open(const std::vector<std::string> &names,
                                    const SmallProgram &program, int rank,
                                    std::shared_ptr<BatchPeers> peers) {
    std::vector<std::string> paths;
    for (const std::string &name : names)
      paths.push_back(folder / name);
    return openBatches(program.info, kSections, paths,
                       viewOf(program.info, rank), Reorder::None,
                       std::move(peers));
  }
  int64_t idOf(const Batch &batch) {
    int64_t id;
    std::memcpy(&id, batch.modules[1][0].inputs[1].data, sizeof id);
    return id;
  }
  /// A pipe, and a thread that writes `content` into it.
  std::unique_ptr<BatchSource> openPipe(std::string content) {
    return openPipe(std::move(content), program, std::make_shared<Alone>());
  }
  std::unique_ptr<BatchSource> openPipe(std::string content,
                                        const SmallProgram &program,
                                        std::shared_ptr<BatchPeers> peers) {
    ::mkfifo((folder / "pipe").c_str(), 0600);
    auto source = open({"pipe"}, program, 0, std::move(peers));
    writer = std::thread([this, content = std::move(content)] {
      int file = ::open((folder / "pipe").c_str(), O_WRONLY);
      for (size_t at = 0; at < content.size();) {
        ssize_t n = ::write(file, content.data() + at, content.size() - at);
        if (n <= 0)
          break;
        at += size_t(n);
      }
      ::close(file);
    });
    return source;
  }
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }
  void TearDown() override {
    if (writer.joinable())
      writer.join();
  }

  ProgramFolder folder;
  SmallProgram program{2};
  std::thread writer;
};

TEST_F(BatchFilesTest, AreTakenInTurn) {
  for (int64_t id : {1, 2, 3})
    write("b" + std::to_string(id) + ".safetensors", id);
  auto source = open({"b*.safetensors"});
  EXPECT_EQ(source->batches(), 3);
  for (int64_t step : {0, 1, 2, 3, 4, 1, 7})
    EXPECT_EQ(idOf(source->next(step)), 1 + step % 3) << "step " << step;
  EXPECT_EQ(open({"b{1..3}.safetensors"})->batches(), 3);
  // In the order in which they are named, each pattern's by name.
  source = open({"b3.safetensors", "b[12].safetensors"});
  EXPECT_EQ(idOf(source->next(0)), 3);
  EXPECT_EQ(idOf(source->next(1)), 1);
  EXPECT_EQ(idOf(source->next(2)), 2);
}

TEST_F(BatchFilesTest, AreKnownByNamesAndSizes) {
  write("b1", 1);
  write("b2", 2);
  write("c2", 2);
  uint64_t hash = open({"b1", "b2"})->hash();
  EXPECT_NE(hash, 0u);
  EXPECT_EQ(hash, open({"b[12]"})->hash());
  EXPECT_NE(hash, open({"b2", "b1"})->hash());
  EXPECT_NE(hash, open({"b1", "c2"})->hash());
}

TEST_F(BatchFilesTest, Errors) {
  write("b1.safetensors", 1);
  EXPECT_ERROR(open({"x*"}), "x*: no batch file (safetensors) has such a name");
  EXPECT_ERROR(open({"b1.safetensors", "none"}),
               "none: cannot open: No such file or directory");
  std::ofstream(folder / "b2.safetensors") << "no such file at all";
  auto source = open({"b1.safetensors", "b2.safetensors"});
  EXPECT_EQ(idOf(source->next(0)), 1);
  EXPECT_ERROR(source->next(1), "b2.safetensors: not a safetensors file");
  EXPECT_EQ(idOf(source->next(2)), 1); // a later step has its own
  // A pattern takes what is a batch.
  EXPECT_EQ(open({"b*.safetensors"})->batches(), 1);
  ::mkfifo((folder / "pipe").c_str(), 0600);
  EXPECT_ERROR(open({"b1.safetensors", "pipe"}),
               "expected no other --batch beside it");
}

TEST_F(BatchFilesTest, ComeThroughAPipe) {
  std::string content;
  for (int64_t id : {5, 6, 7, 8}) {
    write("one", id);
    content += bytesOf("one");
  }
  auto source = openPipe(content);
  EXPECT_EQ(idOf(source->next(0)), 5);
  EXPECT_EQ(idOf(source->next(0)), 5);
  // A run that is resumed reads over what it has had.
  EXPECT_EQ(idOf(source->next(2)), 7);
  EXPECT_ERROR(source->next(1), "the batch of step 3 has come where that of "
                                "step 1 is to come");
  EXPECT_THROW(source->next(4), BatchesEnded);
  EXPECT_ERROR(source->next(4),
               "ended after 4 batches, before the one of step 4");
}

/// Of a pipe that the first rank reads each rank has the parts that it would
/// cut of the file itself, of replicas, tensor-parallel ranks and pieces; what
/// it was given is the bytes of these parts and no others.
TEST_F(BatchFilesTest, OfAPipeEachRankGetsItsParts) {
  SmallProgram many(2, {2, 2, 2, 0, 1, 2});
  auto first = std::make_shared<First>();
  auto source = openPipe(bytesOf("batch"), many, first);
  auto fromFile = [&](int rank) { return open({"batch"}, many, rank, {}); };
  auto own = fromFile(0);
  const Batch &kept = source->next(0);
  Batch want = own->next(0);
  want.hash = kept.hash; // that of a file is of its bytes, too
  expectSame(kept, want);
  for (int rank = 1; rank < 6; ++rank) {
    auto other = std::make_shared<Other>(*first, rank);
    auto told = open({"pipe"}, many, rank, other);
    auto file = fromFile(rank);
    Batch want = file->next(0);
    want.hash = kept.hash;
    expectSame(told->next(0), want);
    EXPECT_EQ(other->said, first->texts.size());
  }
  size_t given = 0;
  for (const Parcel &parcel : first->parcels) {
    EXPECT_EQ(parcel.ranks.size(), parcel.module == 1 ? 2u : 1u);
    given += parcel.size;
  }
  // Rows of 3 numbers of images; of samples 2, 4 ids and a target; 2 positions
  // of each image of a head: at most so much, with what aligns 2 and 6 parts.
  size_t rows = kImages * (3 * 4 + 2 * 8) + kSamples * (2 * 4 + 4 * 8 + 4);
  EXPECT_GE(given, rows);
  EXPECT_LE(given, rows + 16 * (6 + 12 * 4));
}

TEST_F(BatchFilesTest, WhatIsWrongOfAPipeIsSaidToAll) {
  SmallProgram many(2, {2, 2, 2});
  auto first = std::make_shared<First>();
  auto source = openPipe("abc", many, first);
  EXPECT_ERROR(source->next(0), "pipe: ends in the middle of a batch");
  auto told = open({"pipe"}, many, 3, std::make_shared<Other>(*first, 3));
  EXPECT_ERROR(told->next(0), "pipe: ends in the middle of a batch");
}

TEST_F(BatchFilesTest, OfAPipeMaySayTheirSteps) {
  std::string content;
  for (int64_t step : {10, 11, 13}) {
    write("one", step + 100, step);
    content += bytesOf("one");
  }
  auto source = openPipe(content);
  EXPECT_EQ(idOf(source->next(11)), 111);
  EXPECT_ERROR(source->next(12), "the batch of step 13 has come where that of "
                                 "step 12 is to come");
}

TEST_F(BatchFilesTest, OfAPipeMayBeAnything) {
  write("one", 1);
  std::string good = bytesOf("one");
  EXPECT_ERROR(openPipe(good.substr(0, good.size() - 1))->next(0),
               "pipe: ends in the middle of a batch");
  writer.join();
  EXPECT_ERROR(openPipe("abc")->next(0), "pipe: ends in the middle of a batch");
  writer.join();
  EXPECT_ERROR(openPipe("GET / HTTP/1.1\r\n")->next(0),
               "pipe: not a safetensors file");
  writer.join();
  EXPECT_ERROR(openPipe(std::string("\2\0\0\0\0\0\0\0[]", 10))->next(0),
               "pipe: header: not a JSON object");
  writer.join();
  write("one", 1, 3);
  std::string odd = bytesOf("one");
  odd.replace(odd.find("\"3\""), 3, "\"x\"");
  EXPECT_ERROR(openPipe(odd)->next(0),
               "pipe: metadata: step is 'x', expected a number from 0 on");
}

TEST_F(BatchFilesTest, AreNotWaitedForWhenTheRunIsToEnd) {
  ::mkfifo((folder / "pipe").c_str(), 0600);
  auto source = open({"pipe"});
  requestStop();
  try {
    source->next(0);
    FAIL() << "a batch of nobody";
  } catch (const BatchesEnded &e) {
    EXPECT_TRUE(e.wasAsked());
  }
  clearStopRequest();
}

} // namespace
