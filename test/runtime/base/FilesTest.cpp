//===- FilesTest.cpp - files in folders that anybody may have made --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Files.h"
#include "runtime/base/OutputClaim.h"

#include "test/runtime/TestSupport.h"

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace dt::rt;
namespace fs = std::filesystem;

namespace {

/// A folder with a file of somebody's, and links that lead to it.
class LinksTest : public ::testing::Test {
protected:
  void SetUp() override {
    writeFile(folder / "victim", "precious");
    fs::create_directory(folder / "victims");
    fs::create_symlink("victim", folder / "file");
    fs::create_symlink("nowhere", folder / "dangling");
    fs::create_directory_symlink("victims", folder / "linked");
  }
  void TearDown() override {
    EXPECT_EQ(readFile(folder / "victim"), "precious");
    EXPECT_TRUE(fs::is_empty(folder / "victims"));
    EXPECT_FALSE(fs::exists(folder / "nowhere"));
  }
  TemporaryFolder folder;
};

TEST_F(LinksTest, AreNoFiles) {
  for (const char *name : {"file", "dangling"}) {
    std::string path = folder / name,
                line = std::string(name) + ": is a link, expected a file";
    EXPECT_ERROR(FileWriter{path}, line.c_str());
    EXPECT_ERROR(FileWriter(path, /*append=*/true), line.c_str());
    EXPECT_ERROR(Replacement{path}, line.c_str());
    EXPECT_ERROR(writeWhole(path, "x"), line.c_str());
    EXPECT_ERROR(expectWritable("--metrics", path), line.c_str());
  }
}

TEST_F(LinksTest, InPlaceOfTemporaryFilesGo) {
  fs::create_symlink("victim", folder / "new.tmp");
  writeWhole(folder / "new", "text");
  EXPECT_EQ(readFile(folder / "new"), "text");
  EXPECT_FALSE(fs::is_symlink(folder / "new"));
}

TEST_F(LinksTest, AreNoFoldersThatWereMade) {
  // The user's own link is followed.
  FileWriter(folder / "linked/x").close();
  EXPECT_TRUE(fs::remove(folder / "victims/x"));
  EXPECT_ERROR(FileWriter(folder / "linked/x", /*append=*/false, Folder::Made),
               "linked: is a link, expected a folder");
  EXPECT_ERROR(makeFoldersIn(folder.path, "linked/deep"),
               "linked: is a link, expected a folder");
  EXPECT_ERROR(makeFoldersIn(folder.path, "victim"),
               "victim: is a file, expected a folder");
  makeFoldersIn(folder.path, "a/b");
  FileWriter(folder / "a/b/x", /*append=*/false, Folder::Made).close();
  EXPECT_TRUE(fs::exists(folder / "a/b/x"));
}

TEST(Files, OwnStreamsAreLinksOfTheSystem) {
  EXPECT_NO_THROW(openToWrite("/dev/stderr", O_WRONLY));
  EXPECT_NO_THROW(expectWritable("--metrics", "/dev/stderr"));
}

TEST(Files, PipesAreNotWaitedFor) {
  TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(readText(folder / "pipe", 1), "not a regular file");
}

TEST(Files, FoldersTakeTheirPlace) {
  TemporaryFolder folder;
  auto make = [&](const char *name) {
    fs::create_directory(folder / name);
    writeFile(folder / name + "/is", name);
  };
  make("fresh");
  EXPECT_EQ(swapFolders(folder / "fresh", folder / "place", folder / "aside"),
            0);
  EXPECT_EQ(readFile(folder / "place/is"), "fresh");
  make("fresh");
  writeFile(folder / "fresh/is", "newer");
  EXPECT_EQ(swapFolders(folder / "fresh", folder / "place", folder / "aside"),
            0);
  EXPECT_EQ(readFile(folder / "place/is"), "newer");
  EXPECT_EQ(readFile(folder / "fresh/is"), "fresh");
  EXPECT_FALSE(fs::exists(folder / "aside"));
  EXPECT_FALSE(restoreFolder(folder / "place", folder / "fresh"));
  fs::remove_all(folder / "place");
  EXPECT_TRUE(restoreFolder(folder / "place", folder / "fresh"));
  EXPECT_EQ(readFile(folder / "place/is"), "fresh");
}

/// In a child, since a process may claim for itself alone.
std::string claimOfAnother(const std::string &path) {
  int ends[2];
  if (::pipe(ends) != 0)
    return "no pipe";
  if (::fork() == 0) {
    OutputClaim claim;
    std::string text = claim.take(path);
    (void)!::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char byte;
  while (::read(ends[0], &byte, 1) == 1)
    text += byte;
  ::close(ends[0]);
  ::wait(nullptr);
  return text;
}

TEST(OutputClaim, OneProcess) {
  TemporaryFolder folder;
  fs::create_directory_symlink(folder.path, folder / "again");
  std::string holder = ": process " + std::to_string(::getpid()) + " writes it";
  {
    OutputClaim claim;
    EXPECT_EQ(claim.take(folder / "m.jsonl"), "");
    for (const char *name : {"m.jsonl", "./m.jsonl", "again/m.jsonl"})
      EXPECT_EQ(claimOfAnother(folder / name), folder / name + holder);
    EXPECT_EQ(claimOfAnother(folder / "other"), "");
    writeFile(folder / "m.jsonl", "there now");
    EXPECT_EQ(claimOfAnother(folder / "m.jsonl"), folder / "m.jsonl" + holder);
  }
  EXPECT_EQ(claimOfAnother(folder / "m.jsonl"), "");
  OutputClaim place;
  EXPECT_EQ(place.take(folder / "out/"), "");
  EXPECT_EQ(claimOfAnother(folder / "out"), folder / "out" + holder);
  // Any number may write to these.
  OutputClaim null;
  EXPECT_EQ(null.take("/dev/null"), "");
  EXPECT_EQ(claimOfAnother("/dev/null"), "");
}

} // namespace
