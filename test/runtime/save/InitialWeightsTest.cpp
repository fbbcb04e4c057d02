//===- InitialWeightsTest.cpp - weights by name -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/InitialWeights.h"
#include "runtime/save/Checkpoint.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

using namespace dt::rt;
using namespace small;

namespace {

using Lines = std::vector<std::string>;

class InitialWeights : public testing::Test {
protected:
  /// The values of a parameter after --init-from.
  std::vector<float> take(const std::vector<WeightSource> &sources, size_t row,
                          const Lines &skip = {}) {
    Trainer trainer(program.info, Trainer::defaults(program.info), solo());
    trainer.initializeParameters(folder / "weights.safetensors");
    InitialValues request{sources, skip, {}, partial};
    for (const std::string &text : renames)
      request.renames.push_back(NameRule::parse(text));
    said = initializeFrom(trainer, request);
    const ParameterInfo &p = program.info.parameters[row];
    auto *values =
        reinterpret_cast<const float *>(trainer.regions().parameter(p));
    return {values, values + partElements(p)};
  }
  std::string failure(const std::vector<WeightSource> &sources,
                      const Lines &skip = {}) {
    return errorOf([&] { take(sources, 0, skip); });
  }
  static WeightSource from(const std::string &path) {
    return WeightSource::parse(path);
  }
  std::string write(const std::string &name,
                    const std::function<void(SafetensorsWriter &)> &fill) {
    SafetensorsWriter writer;
    fill(writer);
    writer.write(folder / name);
    return folder / name;
  }
  bool saidThat(const std::string &part) const {
    for (const std::string &line : said)
      if (line.find(part) != std::string::npos)
        return true;
    return false;
  }

  ProgramFolder folder;
  SmallProgram program{6};
  Lines said, renames;
  bool partial = true;
  std::vector<float> w = {1, 2, 3, 4, 5, 6}, two = {7, -8};
};

/// As a file of the model that the graphs were exported from: names are those
/// of the ONNX files, some values are of half the size.
TEST_F(InitialWeights, OfAnothersFile) {
  const uint16_t half[] = {0x3c00, 0xc100};  // 1, -2.5
  const uint16_t brain[] = {0x3fc0, 0x8000}; // 1.5, -0
  double twice[] = {0.25, 3};
  std::string path = write("hf.safetensors", [&](SafetensorsWriter &f) {
    f.add("w", DType::F32, {2, 3}, w.data());
    f.add("u", DType::F16, {2}, half);
    f.add("v", DType::BF16, {2}, brain);
    f.add("frozen", DType::F64, {2}, twice);
    f.add("rotary.inv_freq", DType::F32, {2}, two.data());
  });
  EXPECT_EQ(take({from(path)}, 0), w);
  EXPECT_EQ(take({from(path)}, 1), (std::vector<float>{1, -2.5f}));
  std::vector<float> v = take({from(path)}, 2);
  EXPECT_EQ(v[0], 1.5f);
  EXPECT_TRUE(v[1] == 0 && std::signbit(v[1]));
  EXPECT_EQ(take({from(path)}, 3), (std::vector<float>{0.25f, 3}));
  EXPECT_EQ(said, (Lines{"initial values of 4 of 4 parameters from " + path +
                             "; 1 of them BF16; 1 of them F16; 1 of them F64",
                         "not used of it: 1 (rotary.inv_freq)"}));
}

/// Buffers are no parameters; one beside weights that were taken is named.
TEST_F(InitialWeights, BuffersAreTheFiles) {
  std::string path = write("bn.safetensors", [&](SafetensorsWriter &f) {
    f.add("head.u", DType::F32, {2}, two.data());
    f.add("head.running_mean", DType::F32, {2}, two.data());
    f.add("other.bias", DType::F32, {2}, two.data());
  });
  take({from(path)}, 1);
  EXPECT_TRUE(saidThat("warning: left out beside weights that were taken: "
                       "head.running_mean; buffers stay as the ONNX file has "
                       "them"));
}

TEST_F(InitialWeights, WhatIsMissingStaysAsItBegins) {
  std::string path = write("part.safetensors", [&](SafetensorsWriter &f) {
    f.add("head.u", DType::F32, {2}, two.data());
  });
  EXPECT_EQ(take({from(path)}, 1), two);
  EXPECT_EQ(take({from(path)}, 2), (std::vector<float>{0.3f, -0.2f}));
  EXPECT_TRUE(saidThat("initial values of 1 of 4 parameters from " + path));
  EXPECT_TRUE(
      saidThat("as the program begins: 3 (tower.w, head.v, head.frozen)"));
}

TEST_F(InitialWeights, OfAFolder) {
  std::string sub = folder / "hf";
  std::filesystem::create_directory(sub);
  write("hf/model-1.safetensors", [&](SafetensorsWriter &f) {
    f.add("w", DType::F32, {2, 3}, w.data());
  });
  write("hf/model-2.safetensors",
        [&](SafetensorsWriter &f) { f.add("u", DType::F32, {2}, two.data()); });
  EXPECT_EQ(take({from(sub)}, 0), w);
  EXPECT_EQ(take({from(sub)}, 1), two);
  std::string index = sub + "/model.safetensors.index.json";
  auto map = [&](const std::string &text) {
    writeFile(index, "{\"metadata\": {}, \"weight_map\": " + text + "}");
  };
  map(R"({"u": "model-2.safetensors"})");
  take({from(sub)}, 0);
  EXPECT_TRUE(saidThat("initial values of 1 of 4"));
  take({from(index)}, 0);
  EXPECT_TRUE(saidThat("initial values of 1 of 4"));
  map(R"({"u": "model-2.safetensors", "v": "model-2.safetensors"})");
  EXPECT_ERROR(take({from(sub)}, 0),
               "its index names tensor 'v', which is in none of its files");
  for (const char *bad :
       {"\"../x\"", "\"/etc/passwd\"", "3", "\"\"", "\"..\""}) {
    map("{\"u\": " + std::string(bad) + "}");
    EXPECT_ERROR(take({from(sub)}, 0),
                 "the file of tensor 'u' is no name of a file beside it");
  }
  map("[]");
  EXPECT_ERROR(take({from(sub)}, 0), "expected a JSON object with");
  map(R"({"u": "model-3.safetensors"})");
  EXPECT_ERROR(take({from(sub)}, 0), "model-3.safetensors: cannot open");
  std::filesystem::remove(index);
  write("hf/model-3.safetensors",
        [&](SafetensorsWriter &f) { f.add("u", DType::F32, {2}, two.data()); });
  EXPECT_ERROR(take({from(sub)}, 0), "tensor 'u' has elements twice");
}

TEST_F(InitialWeights, OfACheckpoint) {
  Trainer trainer(program.info, Trainer::defaults(program.info), solo());
  trainer.initializeParameters(folder / "weights.safetensors");
  auto *p = reinterpret_cast<float *>(trainer.regions().at(0).parameters);
  for (float first : {1.f, 2.f}) {
    p[0] = first;
    saveCheckpoint(trainer, folder / "c", int64_t(first), 7);
  }
  EXPECT_EQ(take({from(folder / "c")}, 0)[0], 2);
  EXPECT_EQ(said, Lines{"initial values of 4 of 4 parameters from " +
                        (folder / "c/step-2")});
  EXPECT_EQ(take({from(folder / "c/step-1")}, 0)[0], 1);
  std::filesystem::copy(folder / "c/step-1", folder / "mine");
  EXPECT_EQ(take({from(folder / "mine")}, 0)[0], 1);
  std::string file = folder / "c/step-2/rank-0.safetensors";
  writeFile(file, readFile(file) + "x");
  EXPECT_EQ(take({from(folder / "c")}, 0)[0], 1);
  EXPECT_TRUE(saidThat("; taking " + (folder / "c/step-1")));
  EXPECT_ERROR(take({from(folder / "c/step-2")}, 0), "rank-0.safetensors: ");
}

TEST_F(InitialWeights, OtherShapesAreErrors) {
  std::string path = write("other.safetensors", [&](SafetensorsWriter &f) {
    f.add("w", DType::F32, {3, 2}, w.data());
    f.add("u", DType::F32, {2}, two.data());
  });
  EXPECT_ERROR(take({from(path)}, 0),
               "tensor 'w' is F32 [3, 2], parameter 'tower.w' F32 [2, 3] "
               "(--init-skip 'tower.w' keeps the program's own value)");
  EXPECT_EQ(take({from(path)}, 1, {"tow*"}), two);
  EXPECT_ERROR(take({from(path)}, 0, {"tow"}),
               "--init-skip: no parameter \"module.name\" matches 'tow'");
  const int64_t numbers[] = {1, 2};
  path = write("ids.safetensors", [&](SafetensorsWriter &f) {
    f.add("u", DType::I64, {2}, numbers);
    f.add("v", DType::I64, {1, 2}, numbers);
  });
  std::string text = failure({from(path)});
  EXPECT_CONTAINS(text, "tensor 'u' is I64 [2], parameter 'head.u' F32 [2]");
  EXPECT_CONTAINS(text, "; so are 1 more");
}

TEST_F(InitialWeights, NothingIsAnError) {
  std::string path = write("none.safetensors", [&](SafetensorsWriter &f) {
    f.add("model.w\n", DType::F32, {2, 3}, w.data());
  });
  EXPECT_ERROR(take({from(path)}, 0),
               "none of its 1 tensors has the name of a parameter: it has "
               "model.w?; the program has tower.w, head.u, head.v");
  std::filesystem::create_directory(folder / "empty");
  EXPECT_ERROR(take({from(folder / "empty")}, 0),
               "empty: has neither a checkpoint nor a .safetensors file");
  EXPECT_ERROR(take({from(folder / "nowhere")}, 0), "nowhere: cannot open");
  EXPECT_ERROR(take({from(folder / "data.json")}, 0), "not a safetensors file");
}

/// Hugging Face's files have names of the bare model, graphs those of what was
/// exported around it; or the other way.
TEST_F(InitialWeights, WrappersInFrontOfNames) {
  program.parameters[0].onnx = {};
  program.parameters[0].tensor.name = "tower.net.transformer.wte.weight";
  program.parameters[1].onnx = {};
  program.parameters[1].tensor.name = "head.net.lm_head.weight";
  program.parameters[2].onnx = {};
  program.parameters[2].tensor.name = "head.ln_f.weight";
  write("weights.safetensors", [&](SafetensorsWriter &f) {
    f.add("head.ln_f.weight", DType::F32, {2}, w.data() + 2);
    f.add("head.frozen", DType::F32, {2}, w.data());
  });
  std::string path = write("hf.safetensors", [&](SafetensorsWriter &f) {
    f.add("wte.weight", DType::F32, {2, 3}, w.data());
    f.add("lm_head.weight", DType::F32, {2}, two.data());
    f.add("model.language_model.ln_f.weight", DType::F32, {2}, w.data());
    f.add("frozen", DType::F32, {2}, two.data());
  });
  partial = false;
  EXPECT_EQ(take({from(path)}, 0), w);
  EXPECT_EQ(take({from(path)}, 1), two);
  EXPECT_EQ(take({from(path)}, 2), (std::vector<float>{1, 2}));
  EXPECT_EQ(said, Lines{"initial values of 4 of 4 parameters from " + path +
                        "; 3 of them under names that begin otherwise "
                        "('wte.weight' for "
                        "'tower.net.transformer.wte.weight')"});
}

TEST_F(InitialWeights, NamesThatOnlyBeginAlikeAreOthers) {
  program.parameters[0].onnx = {};
  program.parameters[0].tensor.name = "tower.net.w.weight";
  partial = false;
  auto withTensor = [&](const std::string &name) {
    return write("one.safetensors", [&](SafetensorsWriter &f) {
      f.add(name, DType::F32, {2, 3}, w.data());
      f.add("u", DType::F32, {2}, two.data());
      f.add("v", DType::F32, {2}, two.data());
      f.add("frozen", DType::F32, {2}, two.data());
    });
  };
  for (const char *other : {"decoder.w.weight", "xmodel.w.weight", "w.w.weight",
                            "weight", "model.weight", "model.w"})
    EXPECT_ERROR(take({from(withTensor(other))}, 0),
                 "--init-from: 1 of 4 parameters are in no source "
                 "(tower.net.w.weight); 1 tensor is no parameter's (" +
                     std::string(other) + ")");
  EXPECT_EQ(take({from(withTensor("module.model.w.weight"))}, 0), w);
}

/// What no graph has and no model's file: it begins as the program says, and
/// from a file of adapters as that does.
TEST_F(InitialWeights, Adapters) {
  program.parameters[0].onnx = {};
  program.parameters[0].tensor.name = "tower.net.q.lora_A.weight";
  partial = false;
  std::string model = write("model.safetensors", [&](SafetensorsWriter &f) {
    for (const char *name : {"u", "v", "frozen"})
      f.add(name, DType::F32, {2}, two.data());
  });
  EXPECT_NE(take({from(model)}, 0), w);
  EXPECT_EQ(said.back(),
            "as the program begins: 1 (tower.net.q.lora_A.weight)");
  std::string adapter = write("adapter.safetensors", [&](SafetensorsWriter &f) {
    f.add("base_model.model.q.lora_A.weight", DType::F32, {2, 3}, w.data());
  });
  EXPECT_EQ(take({from(model), from(adapter)}, 0), w);
}

/// Shapes tell apart what names do not; else it must be said.
TEST_F(InitialWeights, WrappersThatLeaveADoubt) {
  program.parameters[0].onnx = {};
  program.parameters[0].tensor.name = "tower.net.n.weight";
  std::vector<int64_t> shape = {2, 3};
  std::string path;
  auto withShape = [&](std::vector<int64_t> second) {
    return write("two.safetensors", [&](SafetensorsWriter &f) {
      f.add("model.n.weight", DType::F32, {2, 3}, w.data());
      f.add("language_model.n.weight", DType::F32, second, w.data());
    });
  };
  EXPECT_EQ(take({from(withShape({2}))}, 0), w);
  EXPECT_ERROR(take({from(withShape({2, 3}))}, 0),
               "parameter 'tower.net.n.weight' may be tensor "
               "'language_model.n.weight' or 'model.n.weight'; --init-rename "
               "FROM=TO says which");
  renames = {"model.=net."};
  EXPECT_EQ(take({from(path = withShape({2, 3}))}, 0), w);
  renames = {};
  program.parameters[1].onnx = {};
  program.parameters[1].tensor.name = "head.module.n.weight";
  path = write("one.safetensors", [&](SafetensorsWriter &f) {
    f.add("n.weight", DType::F32, {2, 3}, w.data());
  });
  EXPECT_EQ(take({from(path)}, 0), w); // the other has another shape
  program.parameters[1].tensor.name = "head.v";
  // The only one of that name, but of another shape.
  path = write("other.safetensors", [&](SafetensorsWriter &f) {
    f.add("model.n.weight", DType::F32, {3, 2}, w.data());
  });
  EXPECT_ERROR(take({from(path)}, 0),
               "tensor 'model.n.weight' is F32 [3, 2], parameter "
               "'tower.net.n.weight' F32 [2, 3]");
}

TEST_F(InitialWeights, RenamedTensors) {
  std::string path = write("named.safetensors", [&](SafetensorsWriter &f) {
    f.add("decoder.w", DType::F32, {2, 3}, w.data());
    f.add("decoder.head.u", DType::F32, {2}, two.data());
    f.add("v", DType::F32, {2}, two.data());
    f.add("frozen", DType::F32, {2}, two.data());
  });
  partial = false;
  renames = {"decoder.head.=", "decoder.=tower."};
  EXPECT_EQ(take({from(path)}, 0), w);
  EXPECT_EQ(take({from(path)}, 1), two);
  EXPECT_EQ(said, Lines{"initial values of 4 of 4 parameters from " + path});
  renames = {"decoder.="};
  EXPECT_EQ(take({from(path)}, 1), two);
  renames = {"decoder.=", "decoder.head.="};
  EXPECT_ERROR(take({from(path)}, 0),
               "--init-rename decoder.head.=: no tensor's name begins with "
               "'decoder.head.', or an earlier one has it");
  renames = {"decoder.head.u=v"};
  EXPECT_ERROR(take({from(path)}, 0),
               "--init-rename gives the tensors 'decoder.head.u' and 'v' one "
               "name, 'v'");
  for (const char *bad : {"=", "decoder"}) {
    renames = {bad};
    EXPECT_ERROR(take({from(path)}, 0), "' is not FROM=TO");
  }
}

TEST_F(InitialWeights, AllOrAnError) {
  partial = false;
  std::string path = write("part.safetensors", [&](SafetensorsWriter &f) {
    f.add("head.u", DType::F32, {2}, two.data());
    f.add("score", DType::F32, {2}, two.data());
    f.add("more", DType::F32, {2}, two.data());
  });
  EXPECT_ERROR(take({from(path)}, 0),
               "--init-from: 3 of 4 parameters are in no source (tower.w, "
               "head.v, head.frozen); 2 tensors are no parameter's (more, "
               "score); --init-rename FROM=TO maps names, --init-partial keeps "
               "the program's own values");
  // What is skipped, or of a module that no source is for, is not missed.
  EXPECT_EQ(take({from(path)}, 1, {"tower.w", "head.v", "*.frozen"}), two);
  EXPECT_EQ(take({from("head=" + path)}, 1, {"head.[vf]*"}), two);
  EXPECT_ERROR(take({from("head=" + path)}, 1), "2 of 4 parameters are in no");
  // Several sources together.
  std::string rest = write("rest.safetensors", [&](SafetensorsWriter &f) {
    f.add("w", DType::F32, {2, 3}, w.data());
    f.add("v", DType::F32, {2}, two.data());
    f.add("frozen", DType::F32, {2}, two.data());
  });
  EXPECT_EQ(take({from(path), from(rest)}, 0), w);
}

/// A tensor of a type that is not read matters only if it is asked for.
TEST_F(InitialWeights, TypesThatAreNotRead) {
  std::string header =
      R"({"u":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[8,14]}})";
  uint64_t size = header.size();
  std::string path = folder / "narrow.safetensors";
  writeFile(path, std::string(reinterpret_cast<const char *>(&size), 8) +
                      header + std::string(14, '\0'));
  EXPECT_ERROR(take({from(path)}, 0),
               "tensor 'w' is F8_E4M3, a type that is not read");
  EXPECT_EQ(take({from(path)}, 1, {"tower.w"}), (std::vector<float>{0, 0}));
  EXPECT_TRUE(saidThat("not used of it: 1 (w)"));
}

/// Two modules with a parameter of one name.
TEST_F(InitialWeights, OfOneModule) {
  program.parameters[1].tensor.name = "head.w";
  program.parameters[1].onnx = kOnnxW;
  std::string path = write("w.safetensors", [&](SafetensorsWriter &f) {
    f.add("w", DType::F32, {2}, two.data());
  });
  EXPECT_ERROR(take({from(path)}, 0),
               "tensor 'w' may be parameter 'tower.w' or 'head.w'; say "
               "--init-from MODULE=" +
                   path + " or --init-rename FROM=TO");
  EXPECT_EQ(take({from("head=" + path)}, 1), two);
  EXPECT_TRUE(
      saidThat("initial values of 1 of 3 parameters of head from " + path));
  EXPECT_ERROR(take({from("heat=" + path)}, 0),
               "--init-from heat=...: the program has no such module, it has "
               "head, tower");
  // Later ones count.
  std::string more = write("more.safetensors", [&](SafetensorsWriter &f) {
    f.add("head.w", DType::F32, {2}, w.data());
    f.add("tower.w", DType::F32, {2, 3}, w.data());
  });
  EXPECT_EQ(take({from(more), from("head=" + path)}, 0), w);
  EXPECT_EQ(take({from(more), from("head=" + path)}, 1), two);
  EXPECT_EQ(WeightSource::parse("a/lr=0.1/x").module, "");
}

} // namespace
