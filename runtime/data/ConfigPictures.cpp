//===- ConfigPictures.cpp - pictures of a recipe's data section -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/ConfigPictures.h"

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
constexpr int64_t maxSide = 16384;

enum class Bounds { Unit, AboveZero };

/// Means are of pictures from 0 to 1.
std::vector<float> perChannel(const JsonView &view, int channels,
                              Bounds bounds) {
  std::vector<float> out;
  if (view.raw().is_array())
    for (const JsonView &v : view.list())
      out.push_back(float(v.number()));
  else
    out.push_back(float(view.number()));
  if (out.size() != 1 && out.size() != size_t(channels))
    view.fail("expected a number or " + std::to_string(channels) + " numbers");
  for (float v : out)
    if (bounds == Bounds::AboveZero && !(v > 0))
      view.fail("expected numbers above 0");
    else if (bounds == Bounds::Unit && !(v >= 0 && v <= 1))
      view.fail("expected numbers from 0 to 1: pictures are divided by 255 "
                "before");
  return out;
}

/// Of pictures of any size.
void readGrid(PictureKind &kind, const ItemKind &item, const JsonView &view) {
  if (view.has("size") || view.has("fit"))
    view.fail("pictures are cut into patches or have one size; expected "
              "\"patches\" alone, or \"size\"");
  JsonView patches = view.at("patches");
  if (item.measure.empty())
    patches.fail("expected a measure in items." + kind.name +
                 ".measures, which counts squares of patches");
  patches.only({"size", "merge", "frames", "min_pixels", "max_pixels"});
  PatchGrid &grid = kind.grid;
  grid.size = patches.at("size").integer(1, maxSide);
  if (patches.has("merge"))
    grid.merge = patches.at("merge").integer(1, 64);
  if (patches.has("frames"))
    grid.frames = patches.at("frames").integer(1, 64);
  kind.measure = item.measure;
  kind.mostSquares = item.most;
  int64_t square = grid.side() * grid.side();
  grid.minPixels = square;
  grid.maxPixels = square * item.most;
  if (patches.has("min_pixels"))
    grid.minPixels = patches.at("min_pixels").integer(1);
  if (patches.has("max_pixels"))
    grid.maxPixels = patches.at("max_pixels").integer(square);
  if (grid.maxPixels / square > item.most)
    patches.at("max_pixels")
        .fail("that is " + std::to_string(grid.maxPixels / square) +
              " squares of " + std::to_string(grid.side()) + " x " +
              std::to_string(grid.side()) + " pixels; items." + kind.name +
              ".measures." + item.measure + ".max is " +
              std::to_string(item.most));
  if (grid.minPixels > grid.maxPixels)
    patches.fail("min_pixels is above max_pixels, " +
                 std::to_string(grid.maxPixels));
}

void readSize(PictureKind &kind, const ItemKind *item, const JsonView &view) {
  if (item && !item->measure.empty())
    view.fail("pictures of items." + kind.name +
              ".measures have any size; expected \"patches\"");
  JsonView size = view.at("size");
  if (size.list().size() != 2)
    size.fail("expected [height, width]");
  kind.height = size.at(size_t(0)).integer(1, maxSide);
  kind.width = size.at(size_t(1)).integer(1, maxSide);
  if (view.has("fit"))
    kind.fit = Fit(view.at("fit").choice({"stretch", "crop", "pad"}));
}

} // namespace

void data::readPictures(Config &config, const JsonView &data,
                        const ItemKinds &items) {
  if (data.has("pictures"))
    for (auto &entry : data.at("pictures").object().raw().items()) {
      JsonView view = data.at("pictures").at(entry.key());
      view.only({"size", "patches", "fit", "channels", "mean", "std"});
      PictureKind kind;
      kind.name = entry.key();
      if (kind.name == "text" || kind.name == "sample" || kind.name == "label")
        view.fail("this name is taken; choose another for the picture kind");
      auto item = items.find(kind.name);
      kind.ragged = item != items.end();
      if (view.has("patches"))
        readGrid(kind, kind.ragged ? item->second : ItemKind(), view);
      else
        readSize(kind, kind.ragged ? &item->second : nullptr, view);
      if (view.has("channels")) {
        kind.channels = int(view.at("channels").integer(1, 3));
        if (kind.channels == 2)
          view.at("channels").fail("expected 1 or 3");
      }
      if (view.has("mean"))
        kind.mean = perChannel(view.at("mean"), kind.channels, Bounds::Unit);
      if (view.has("std"))
        kind.std = perChannel(view.at("std"), kind.channels, Bounds::AboveZero);
      kind.max = kind.ragged ? item->second.max : 1;
      config.pictures.push_back(std::move(kind));
    }
  for (auto &item : items)
    if (config.findPicture(item.first) < 0)
      data.fail("the item kind \"" + item.first +
                "\" has no entry in pictures");
}
