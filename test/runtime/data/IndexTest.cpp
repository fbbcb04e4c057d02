//===- IndexTest.cpp - shards whole and broken ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One shard after another with a single fault: it is named, counted and kept
// out; the samples beside it stay.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Fixture.h"

#include "runtime/data/DecodeMemory.h"
#include "runtime/data/Index.h"

#include <archive.h>
#include <archive_entry.h>

#include <cctype>
#include <chrono>
#include <filesystem>

using namespace dt;
using namespace dt::rt::data;
using namespace dt::test;

namespace {
class IndexTest : public DataTest {
protected:
  Config config = parseConfig(demoRecipe());

  /// The problem of sample "b" in a shard with good samples "a" and "c" around
  /// it.
  std::string problemOf(const Files &files, const Config &config) {
    std::string shard =
        writeShard("s.tar", documentFiles("a") + files + documentFiles("c"));
    ShardIndex index = buildIndex(config, shard, 1);
    EXPECT_EQ(index.samples.size(), 3u);
    EXPECT_TRUE(index.samples.front().ok()) << index.samples.front().problem;
    EXPECT_TRUE(index.samples.back().ok()) << index.samples.back().problem;
    return index.samples[1].problem;
  }
  std::string problemOf(const Files &files) { return problemOf(files, config); }
  std::string jsonProblem(const std::string &json) {
    return problemOf({{"b.json", json}, {"b.0.png", png(1)}});
  }
};

TEST_F(IndexTest, GoodSamples) {
  std::string shard =
      writeShard("s.tar", documentFiles("dir.x/a") + documentFiles("dir.x/b") +
                              Files{{"README", "hello"}});
  ShardIndex index = buildIndex(config, shard, 3);
  ASSERT_EQ(index.samples.size(), 2u);
  const IndexedSample &s = index.samples[1];
  EXPECT_EQ(s.key, "dir.x/b");
  EXPECT_EQ(s.tokens, 16);
  EXPECT_EQ(s.labels, 8);
  EXPECT_EQ(s.items, (std::vector<int32_t>{1, 1}));
  ASSERT_EQ(s.members.size(), 3u);
  EXPECT_EQ(s.members[1].name, "0.png");
  EXPECT_EQ(PositionedFile(shard).read(s.members[1].offset, s.members[1].size),
            png(10));
  EXPECT_EQ(index.broken(), 0);
  EXPECT_GE(DecodeLease::most(), 4 * 4 * 4); // pictures were decoded within it
}

TEST_F(IndexTest, LongNamesHaveTheRightOffset) {
  std::string key = std::string(180, 'k') + "/" + std::string(120, 'l');
  std::string shard = writeShard("s.tar", documentFiles(key));
  ShardIndex index = buildIndex(config, shard, 1);
  ASSERT_EQ(index.samples.size(), 1u);
  EXPECT_TRUE(index.samples[0].ok()) << index.samples[0].problem;
  EXPECT_EQ(PositionedFile(shard).read(index.samples[0].members[1].offset,
                                       index.samples[0].members[1].size),
            png(10));
}

TEST_F(IndexTest, NamesOutsideAscii) {
  for (std::string key : {std::string("k\xc3\xa4tzchen"),
                          "\xf0\x9f\x90\x88/" + std::string(150, 'x')}) {
    ShardIndex index =
        buildIndex(config, writeShard("s.tar", documentFiles(key)), 1);
    ASSERT_EQ(index.samples.size(), 1u);
    EXPECT_EQ(index.samples[0].key, key);
    EXPECT_TRUE(index.samples[0].ok()) << index.samples[0].problem;
  }
}

TEST_F(IndexTest, ShortForm) {
  EXPECT_EQ(problemOf({{"b.png", png(5)}, {"b.txt", "cat face\n"}})
                .find("1 pictures"),
            std::string::npos);
  EXPECT_EQ(problemOf({{"b.png", png(5)},
                       {"b.txt", "cat"},
                       {"b.json", R"({"author": "x"})"},
                       {"b.log", "ignored"}}),
            "");
  EXPECT_CONTAINS(problemOf({{"b.log", "ignored"}}), "no segments");
  EXPECT_CONTAINS(problemOf({{"b.txt", "cat"}}),
                  "no segment kind of the recipe has the parts text (it has ");
}

/// As cameras write names, and as WebDataset reads them.
TEST_F(IndexTest, ShortFormInCapitals) {
  std::string good = problemOf({{"b.png", png(5)}, {"b.txt", "cat"}});
  EXPECT_EQ(problemOf({{"b.PNG", png(5)}, {"b.TXT", "cat"}}), good);
  EXPECT_EQ(problemOf({{"b.Jpg", png(5)}, {"b.Txt", "cat"}}), good);
}

TEST_F(IndexTest, PicturesOfOtherFormats) {
  for (std::string name : {"webp", "GIF", "bmp", "tiff", "heic"})
    EXPECT_EQ(problemOf({{"b." + name, "bytes"}, {"b.txt", "cat"}}),
              "member '" + name +
                  "': expected a picture as PNG or JPEG (png, jpg, jpeg); "
                  "other formats are not read");
  // Beside a picture that is read it is as good as not there.
  EXPECT_EQ(problemOf({{"b.png", png(5)}, {"b.txt", "cat"}, {"b.webp", "x"}}),
            problemOf({{"b.png", png(5)}, {"b.txt", "cat"}}));
}

/// What the recipe does not use cannot break a sample.
TEST_F(IndexTest, MembersThatAreNotUsed) {
  Files pair = {{"b.png", png(5)}, {"b.txt", "cat"}};
  auto with = [&](const std::string &name, const std::string &content) {
    Files files = pair;
    files.push_back({name, content});
    return problemOf(files);
  };
  std::string good = problemOf(pair);
  EXPECT_EQ(with("b.json", R"({"similarity": NaN})"), good);
  EXPECT_EQ(with("b.json", "no JSON"), good);
  EXPECT_EQ(with("b.json", R"({"label": "a cat"})"), good);
  EXPECT_EQ(with("b.cls", "n02123045"), good);
  EXPECT_EQ(with("b.json", R"({"segments": [)"), "bad JSON");
}

/// Sizes of pictures are known before these are decoded.
TEST_F(IndexTest, SquaresOfPictures) {
  config = parseConfig(patchRecipe());
  auto pair = [](const std::string &key, const std::string &picture) {
    return Files{
        {key + ".json",
         R"({"segments": [[{"text": "dog"}, {"image": "1.png"}, {"image": "0.png"}]]})"},
        {key + ".0.png", encodePng(solid(8, 4, 1, 2, 3))},
        {key + ".1.png", picture}};
  };
  std::string shard =
      writeShard("s.tar", pair("a", png(3)) +
                              pair("b", encodePng(solid(201, 1, 1, 2, 3))) +
                              pair("c", "no picture"));
  ShardIndex built = buildIndex(config, shard, 1), read;
  ASSERT_TRUE(saveIndex(config, shard, built));
  ASSERT_TRUE(loadIndex(config, shard, read));
  for (const ShardIndex &index : {built, read}) {
    EXPECT_EQ(index.samples[0].squares, (SampleSquares{{{1, 1}, {1, 2}}}));
    EXPECT_EQ(index.samples[0].tokens, 4);
    EXPECT_EQ(index.samples[1].problem,
              "member '1.png': a picture of 201 x 1, more than 200 times as "
              "long as wide");
    EXPECT_EQ(index.samples[2].problem, "member '1.png': neither PNG nor JPEG");
  }
  // What is known is not read again.
  DataSet data(config, shard, 1);
  DecodedSample sample =
      data.decode(config, 0, [](size_t, size_t item) { return item == 1; });
  EXPECT_EQ(sample.document.items[0][0].squares, (Squares{1, 1}));
  EXPECT_EQ(sample.pixels[0].size(), size_t(3 * 4 * 24));
  EXPECT_EQ(sample.pixels[0][0], 0); // not wanted
}

/// What editors of other systems add.
TEST_F(IndexTest, LineEndsAndMarksOfTexts) {
  auto tokensOf = [&](const std::string &text) {
    std::vector<Member> members = {{"txt", 0, int64_t(text.size())},
                                   {"png", 0, 1}};
    return readDocument(config, members, [&](const Member &) { return text; })
        .ids;
  };
  std::vector<int32_t> plain = tokensOf("cat face");
  for (const char *text : {"cat face\n", "cat face\r\n",
                           "\xef\xbb\xbf"
                           "cat face\r\n"})
    EXPECT_EQ(tokensOf(text), plain);
}

TEST_F(IndexTest, BrokenJson) {
  EXPECT_EQ(jsonProblem("{\"segments\": ["), "bad JSON");
  EXPECT_EQ(jsonProblem("\xff"), "bad JSON");
  EXPECT_EQ(jsonProblem(std::string(500000, '[')), "bad JSON");
  EXPECT_EQ(jsonProblem(R"({"segments": )" + std::string(1000, '[') +
                        std::string(1000, ']') + "}"),
            "bad JSON");
  EXPECT_CONTAINS(jsonProblem(std::string(1100000, ' ')),
                  "the limit is 1048576");
  EXPECT_CONTAINS(jsonProblem(R"({"segments": []})"), "at least one segment");
  EXPECT_CONTAINS(jsonProblem(R"({"segments": [3]})"),
                  "a segment must be a list");
  EXPECT_CONTAINS(jsonProblem(R"({"segments": [[{"text": 3}]]})"),
                  "a part must be");
  EXPECT_CONTAINS(
      jsonProblem(R"({"segments": [[{"text": "a", "image": "0.png"}]]})"),
      "a part must be");
  EXPECT_CONTAINS(jsonProblem(R"({"segments": [[{"sound": "a"}]]})"),
                  "'sound' is neither text nor");
  EXPECT_CONTAINS(jsonProblem(R"({"segments": [[{"image": "0.png"}]]})"),
                  "has the parts image");
}

TEST_F(IndexTest, NamesReachNothingOutside) {
  for (const char *name :
       {"9.png", "../a.0.png", "/etc/passwd", "", "json/../0.png"})
    EXPECT_CONTAINS(jsonProblem(std::string(R"({"segments": [[{"image": ")") +
                                name + R"("}, {"text": "cat"}]]})"),
                    "is missing");
}

TEST_F(IndexTest, BrokenPictures) {
  auto with = [&](const std::string &picture) {
    return problemOf({{"b.png", picture}, {"b.txt", "cat"}});
  };
  EXPECT_CONTAINS(with(png(1).substr(0, 40)), "member 'png': bad PNG");
  EXPECT_CONTAINS(with(""), "neither PNG nor JPEG");
  EXPECT_CONTAINS(with("\x89PNG\r\n\x1a\n"), "bad PNG");
  Json recipe = demoRecipe();
  recipe["data"]["limits"]["pixels"] = 16;
  std::string large = encodePng(solid(5, 4, 0, 0, 0));
  EXPECT_CONTAINS(
      problemOf({{"b.png", large}, {"b.txt", "cat"}}, parseConfig(recipe)),
      "5 x 4 pixels; the limit is 16");
  recipe["data"]["limits"] = {{"bytes", 200}};
  EXPECT_CONTAINS(
      problemOf({{"b.png", std::string(300, 'x')}, {"b.txt", "cat"}},
                parseConfig(recipe)),
      "300 bytes; the limit is 200");
}

TEST_F(IndexTest, BoundsOfTheRecipe) {
  std::string names =
      R"([{"text": "cat face dog"}, {"text": "cat face dog"}])"; // 9 tokens
  EXPECT_EQ(jsonProblem("{\"segments\": [" + names + "," + names + "," + names +
                        "]}"),
            "more than 24 tokens");
  std::string image = R"([{"image": "0.png"}, {"text": "x"}])";
  EXPECT_CONTAINS(jsonProblem("{\"segments\": [" + image + "]}"),
                  "the word 'x' is not in the vocabulary");
  image = R"([{"image": "0.png"}, {"text": ""}])"; // 6 tokens
  EXPECT_EQ(jsonProblem("{\"segments\": [" + image + "," + image + "," + image +
                        "]}"),
            "");
  EXPECT_CONTAINS(jsonProblem("{\"segments\": [" + image + "," + image + "," +
                              image + "," + image + "]}"),
                  "4 pictures of the kind image");
  std::string draw =
      R"([{"text": "cat cat cat cat cat cat"}, {"target": "0.png"}])";
  EXPECT_CONTAINS(jsonProblem("{\"segments\": [" + draw + "]}"),
                  "7 tokens belong to one target; at most 6 fit");
}

TEST_F(IndexTest, LongCut) {
  Json recipe = demoRecipe();
  recipe["data"]["long"] = "cut";
  std::string names = R"([{"text": "cat face dog"}, {"text": "cat face dog"}])";
  std::string json = "{\"segments\": [" + names + "," + names + "," + names;
  EXPECT_EQ(problemOf({{"b.json", json + "]}"}}, parseConfig(recipe)), "");
  json += R"(, [{"text": "cat"}, {"target": "0.png"}]]})";
  EXPECT_EQ(
      problemOf({{"b.json", json}, {"b.0.png", png(1)}}, parseConfig(recipe)),
      "more than 24 tokens");
}

TEST_F(IndexTest, Classes) {
  Json recipe = {
      {"data", {{"labels", 10}, {"pictures", {{"image", {{"size", {4, 4}}}}}}}},
      {"inputs", {{"x", {{"pixels", "image"}}}, {"y", {{"label", "sample"}}}}}};
  Config c = parseConfig(recipe);
  auto problem = [&](const Files &files) {
    return buildIndex(c, writeShard("s.tar", files), 1).samples.at(0).problem;
  };
  EXPECT_EQ(problem({{"b.png", png(1)}, {"b.cls", "9\n"}}), "");
  EXPECT_CONTAINS(problem({{"b.png", png(1)}, {"b.cls", "10"}}),
                  "class 10 is outside 0..9");
  EXPECT_CONTAINS(problem({{"b.png", png(1)}, {"b.cls", "cat"}}),
                  "cls: expected a whole number");
  EXPECT_CONTAINS(problem({{"b.png", png(1)}}), "no class");
  EXPECT_CONTAINS(problem({{"b.cls", "1"}}),
                  "0 pictures of the kind image; exactly 1");
}

TEST_F(IndexTest, RepeatedNames) {
  EXPECT_CONTAINS(
      problemOf({{"b.png", png(1)}, {"b.txt", "cat"}, {"b.png", png(2)}}),
      "'png' is there twice");
  std::string shard = writeShard(
      "s.tar", documentFiles("a") + documentFiles("b") + documentFiles("a"));
  EXPECT_EQ(buildIndex(config, shard, 1).samples[2].problem,
            "its name occurred before");
}

TEST_F(IndexTest, TruncatedShards) {
  std::string shard = writeShard(
      "s.tar", documentFiles("a") + documentFiles("b") + documentFiles("c"));
  std::string bytes = readFile(shard);
  ShardIndex whole = buildIndex(config, shard, 1);
  size_t inPicture = size_t(whole.samples[2].members[2].offset) + 10,
         inHeader = size_t(whole.samples[2].members[2].offset) - 100;
  for (size_t length : {inPicture, inHeader}) {
    writeFile("t.tar", bytes.substr(0, length));
    ShardIndex index = buildIndex(config, path("t.tar"), 1);
    ASSERT_EQ(index.samples.size(), 3u);
    EXPECT_TRUE(index.samples[1].ok());
    EXPECT_FALSE(index.samples[2].ok());
    EXPECT_FALSE(index.problem.empty());
  }
  for (size_t length = 0; length < bytes.size();
       length += 97) { // any cut: an error or an index, never a crash
    writeFile("t.tar", bytes.substr(0, length));
    try {
      buildIndex(config, path("t.tar"), 1);
    } catch (const rt::Error &) {
    }
  }
}

TEST_F(IndexTest, NotATar) {
  EXPECT_ERROR(listTar(writeFile("x.tar", std::string(4096, 'x'))),
               "not an uncompressed tar file");
  EXPECT_NE(errorOf([&] { listTar(writeFile("e.tar", "")); }), "");
  EXPECT_ERROR(listTar(path("none.tar")), "No such file");
  EXPECT_ERROR(listTar(folder.path), "not a regular file");
}

TEST_F(IndexTest, LinksAreBroken) {
  archive *out = archive_write_new();
  archive_write_set_format_ustar(out);
  archive_write_open_filename(out, path("l.tar").c_str());
  archive_entry *entry = archive_entry_new();
  archive_entry_set_pathname(entry, "a.txt");
  archive_entry_set_filetype(entry, AE_IFLNK);
  archive_entry_set_symlink(entry, "/etc/passwd");
  archive_write_header(out, entry);
  archive_entry_free(entry);
  archive_write_free(out);
  EXPECT_CONTAINS(buildIndex(config, path("l.tar"), 1).samples.at(0).problem,
                  "is a link");
}

TEST_F(IndexTest, SavedAndLoaded) {
  std::string shard =
      writeShard("s.tar", documentFiles("a") + Files{{"b.txt", "zebra \xff"}} +
                              documentFiles("c\xff"));
  ShardIndex built = buildIndex(config, shard, 2), loaded;
  EXPECT_FALSE(loadIndex(config, shard, loaded));
  ASSERT_TRUE(saveIndex(config, shard, built));
  ASSERT_TRUE(loadIndex(config, shard, loaded));
  ASSERT_EQ(loaded.samples.size(), built.samples.size());
  for (size_t i = 0; i < loaded.samples.size(); ++i) {
    EXPECT_EQ(loaded.samples[i].key, built.samples[i].key);
    EXPECT_EQ(loaded.samples[i].problem, built.samples[i].problem);
    EXPECT_EQ(loaded.samples[i].items, built.samples[i].items);
    EXPECT_EQ(loaded.samples[i].members.size(),
              built.samples[i].members.size());
  }
  EXPECT_EQ(loaded.samples[2].key, "c\\xff");
}

TEST_F(IndexTest, StaleOrDamagedFilesAreNotUsed) {
  std::string shard = writeShard("s.tar", documentFiles("a"));
  ShardIndex index = buildIndex(config, shard, 1);
  saveIndex(config, shard, index);
  Json recipe = demoRecipe();
  recipe["items"]["image"]["max"] = 2;
  EXPECT_FALSE(loadIndex(parseConfig(recipe), shard, index));
  std::string file = readFile(indexPath(shard));
  for (auto &change :
       {std::make_pair(std::string("\"items\":[[1,1]]"),
                       std::string("\"items\":[[1,99]]")),
        std::make_pair(std::string("\"0.png\","), std::string("\"0.png\",9")),
        std::make_pair(std::string("\"tokens\":[16]"),
                       std::string("\"tokens\":[16,16]"))}) {
    std::string damaged = file;
    ASSERT_NE(damaged.find(change.first), std::string::npos) << file;
    damaged.replace(damaged.find(change.first), change.first.size(),
                    change.second);
    writeFile("s.tar.idx.json", damaged);
    EXPECT_FALSE(loadIndex(config, shard, index)) << change.second;
  }
  // Deeper than the stack is.
  const size_t deep = 300000;
  writeFile("s.tar.idx.json", R"({"check": "0", "samples": )" +
                                  std::string(deep, '[') +
                                  std::string(deep, ']') + "}");
  EXPECT_FALSE(loadIndex(config, shard, index));
  writeFile("s.tar.idx.json", file.substr(0, file.size() / 2));
  EXPECT_FALSE(loadIndex(config, shard, index));
  writeFile("s.tar.idx.json", file);
  EXPECT_TRUE(loadIndex(config, shard, index));
  writeShard("s.tar", documentFiles("a") + documentFiles("b"));
  EXPECT_FALSE(loadIndex(config, shard, index));
}

TEST_F(IndexTest, DataSet) {
  writeShard("s1.tar", documentFiles("a") + Files{{"x.txt", "zebra"}} +
                           documentFiles("b"));
  writeShard("s0.tar", documentFiles("c", 50));
  captureErrors();
  DataSet data(config, path("s*.tar"), 2);
  std::string said = capturedErrors();
  EXPECT_CONTAINS(said, "s1.tar: sample 'x': ");
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.broken(), 1);
  EXPECT_EQ(data.sample(0).key, "c");
  EXPECT_EQ(data.decode(config, 0).document.ids.size(), 16u);
  captureErrors();
  DataSet again(config, path("s*.tar"), 2); // from the index: said once only
  EXPECT_EQ(capturedErrors(), "");
  EXPECT_EQ(again.hash(), data.hash());
  EXPECT_ERROR(DataSet none(config, path("z*.tar"), 1), "no such shard");
  writeShard("z.tar", {{"x.txt", "zebra"}});
  captureErrors();
  EXPECT_ERROR(DataSet none(config, path("z.tar"), 1),
               "no good sample (1 broken)");
  capturedErrors();
}

TEST_F(IndexTest, AShardThatChangesUnderTheRun) {
  std::string shard = writeShard("s.tar", documentFiles("a"));
  DataSet data(config, shard, 1);
  data.decode(config, 0); // now it is open
  std::string bytes = readFile(shard);
  size_t picture = bytes.find("IDAT");
  bytes[picture + 6] = char(bytes[picture + 6] ^ 0x7f);
  std::fstream(shard, std::ios::in | std::ios::out | std::ios::binary)
      << bytes; // same file, other bytes
  std::string error = errorOf([&] { data.decode(config, 0); });
  EXPECT_CONTAINS(error, "s.tar: sample 'a': member '0.png': bad PNG");
}

/// Each digit and letter may have changed on the disk.
TEST_F(IndexTest, DamageOfTheIndexIsFound) {
  std::string shard = writeShard("s.tar", documentFiles("a"));
  ShardIndex index = buildIndex(config, shard, 1), loaded;
  saveIndex(config, shard, index);
  std::string file = readFile(indexPath(shard));
  for (size_t i = 0; i < file.size(); ++i) {
    if (!std::isalnum(static_cast<unsigned char>(file[i])))
      continue;
    std::string damaged = file;
    damaged[i] = file[i] == '1' ? '2' : '1';
    EXPECT_FALSE(parseIndex(config, shard, damaged, loaded))
        << i << " of " << damaged;
  }
  EXPECT_TRUE(parseIndex(config, shard, file, loaded));
}

/// More shards than may be open.
TEST_F(IndexTest, FewShardsAreOpenAtOnce) {
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i)
    paths.push_back(writeFile("f" + std::to_string(100 + i),
                              std::string(8, char('a' + i % 26))));
  ShardFiles files(paths, 3);
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 40; ++i) {
      size_t n = size_t(i * 7 % 40);
      EXPECT_EQ(files.read(n, 2, 1), std::string(1, char('a' + n % 26)));
      EXPECT_LE(files.open(), 3u);
    }
  writeFile("other", "anothers"); // as long as the one whose place it takes
  std::filesystem::last_write_time(
      path("other"), std::filesystem::last_write_time(path("f100")) +
                         std::chrono::seconds(10));
  std::filesystem::rename(path("other"), path("f100"));
  for (int i = 1; i < 5; ++i)
    files.read(size_t(i), 0, 8);
  EXPECT_ERROR(files.read(0, 0, 8),
               "f100: the shard has changed under the run");
  EXPECT_ERROR(files.read(1, 0, 9), "no 9 bytes at 0");
}

/// One that got shorter since it was opened says nothing about a sample.
TEST_F(IndexTest, WhatCannotBeReadIsNoBrokenSample) {
  std::string shard = writeShard("s.tar", documentFiles("a"));
  PositionedFile file(shard);
  std::filesystem::resize_file(shard, 100);
  EXPECT_THROW(file.read(50, 100), rt::SystemError);
  EXPECT_ERROR(file.read(50, 100), "became shorter while it was in use");
}
} // namespace
