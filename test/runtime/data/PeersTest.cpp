//===- PeersTest.cpp - ranks that open the same shards ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Each shard is indexed by one of them, what is broken is said once, and all of
// them fail together.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Fixture.h"

#include "runtime/data/Index.h"

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

using namespace dt;
using namespace dt::rt::data;
using namespace dt::test;

namespace {
/// Threads that stand for the ranks of one machine.
struct Crew {
  explicit Crew(int count) : texts(size_t(count)) {}
  struct Member final : IndexPeers {
    Member(Crew &crew, int number) : crew(crew), number(number) {}
    int rank() const override { return number; }
    std::vector<std::string> exchange(const std::string &mine) override {
      crew.texts[size_t(number)] = mine;
      crew.meet();
      std::vector<std::string> all = crew.texts;
      crew.meet();
      return all;
    }
    Crew &crew;
    int number;
  };
  void meet() {
    std::unique_lock<std::mutex> lock(mutex);
    size_t round = rounds;
    if (++there == texts.size()) {
      there = 0, ++rounds;
      all.notify_all();
    }
    all.wait(lock, [&] { return rounds != round; });
  }
  std::vector<std::string> texts;
  std::mutex mutex;
  std::condition_variable all;
  size_t there = 0, rounds = 0;
};

class PeersTest : public DataTest {
protected:
  Config config = parseConfig(demoRecipe());
};

TEST_F(PeersTest, IndexEachShardOnce) {
  for (int i = 0; i < 5; ++i)
    writeShard("s" + std::to_string(i) + ".tar",
               documentFiles("a" + std::to_string(i)) +
                   Files{{"x" + std::to_string(i) + ".txt", "zebra"}});
  // The index of one of them cannot be kept.
  std::filesystem::create_directory(path("s3.tar.idx.json"));
  writeFile("s3.tar.idx.json/x", "");
  Crew crew(3);
  std::vector<std::string> errors(3);
  std::vector<uint64_t> hashes(3);
  captureErrors();
  auto open = [&](const char *pattern) {
    std::vector<std::thread> threads;
    for (int r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        Crew::Member member(crew, r);
        errors[size_t(r)] = errorOf([&] {
          DataSet data(config, path(pattern), 0, &member);
          hashes[size_t(r)] = data.hash();
          EXPECT_EQ(data.size(), 5);
          EXPECT_EQ(data.broken(), 5);
        });
      });
    for (std::thread &thread : threads)
      thread.join();
  };
  open("s*.tar");
  std::string said = capturedErrors();
  for (int i = 0; i < 5; ++i) {
    std::string line = "sample 'x" + std::to_string(i) + "'";
    size_t first = said.find(line);
    EXPECT_NE(first, std::string::npos) << said;
    EXPECT_EQ(said.find(line, first + 1), std::string::npos) << said;
  }
  EXPECT_EQ(errors, std::vector<std::string>(3));
  EXPECT_EQ(hashes, std::vector<uint64_t>(3, hashes[0]));
  EXPECT_TRUE(std::filesystem::exists(path("s4.tar.idx.json")));
  open("none*.tar");
  for (const std::string &error : errors)
    EXPECT_CONTAINS(error, "no such shard");
}
} // namespace
