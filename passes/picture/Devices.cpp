//===- Devices.cpp - Which ranks run what, as a picture -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/picture/Devices.h"

#include "passes/picture/Markup.h"

#include <algorithm>

using namespace llvm;

namespace dt::picture {

namespace {

constexpr double kCanvas = 1400, kPositionGap = 14, kBlockGap = 36, kNote = 17;

/// How large a rank is drawn, and how many replicas stand below one another.
struct Scale {
  double cell;
  int64_t rows;

  bool hasNumbers() const { return cell > 20; }
  double getGap() const { return cell > 5 ? 4 : 2; }

  /// Replicas that do not fit below one another stand side by side.
  int64_t columnsOf(const DeviceBlock &block) const {
    return (block.replicas + rows - 1) / rows;
  }
  int64_t rowsOf(const DeviceBlock &block) const {
    int64_t columns = std::max<int64_t>(1, columnsOf(block));
    return (block.replicas + columns - 1) / columns;
  }
  double groupWidth(const DeviceBlock &block) const {
    return double(block.group) * cell + getGap();
  }
  double positionWidth(const DeviceBlock &block) const {
    return double(columnsOf(block)) * groupWidth(block) - getGap() +
           kPositionGap;
  }
  double widthOf(const DeviceBlock &block) const {
    double width = double(block.positions) * positionWidth(block);
    width = std::max(width, 1.1 * getTextWidth(block.name, 12) + 20);
    for (const std::string &note : block.notes)
      width = std::max(width, getTextWidth(note, 12));
    return width;
  }
};

/// The largest scale at which all units stand beside one another; of so many
/// ranks that there is none the smallest, in several lines.
Scale getScale(const std::vector<DeviceBlock> &blocks) {
  constexpr Scale scales[] = {{34, 4}, {24, 8}, {14, 12}, {9, 18},
                              {6, 30}, {4, 60}, {3, 100}};
  for (const Scale &scale : scales) {
    double width = -kBlockGap;
    for (const DeviceBlock &block : blocks)
      width += scale.widthOf(block) + kBlockGap;
    if (width <= kCanvas)
      return scale;
  }
  return scales[std::size(scales) - 1];
}

class DevicesPicture {
public:
  explicit DevicesPicture(const std::vector<DeviceBlock> &blocks)
      : blocks(blocks), scale(getScale(blocks)),
        svg(kCanvas, "ranks of every unit") {}

  void draw(raw_ostream &os) {
    double x = 0, y = 0, below = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      double width = scale.widthOf(blocks[i]);
      if (x > 0 && x + width > kCanvas) {
        x = 0;
        y = below + 18;
      }
      below = std::max(below, drawBlock(int(i), x, y));
      x += width + kBlockGap;
    }
    svg.write(os, below + 4, false);
  }

private:
  /// Returns y below it.
  double drawBlock(int unit, double x, double y) {
    const DeviceBlock &block = blocks[size_t(unit)];
    svg.rect(x, y + 3, 13, 13, getUnitClass(unit), "", 2);
    svg.text(x + 20, y + 14, fitText(block.name, kCanvas - 20, 13), "strong");
    y += 22;
    for (const std::string &note : block.notes) {
      svg.text(x, y + 12, note, "soft");
      y += kNote;
    }
    bool stages = block.positions > 1;
    y += stages ? 20 : 8;
    double pitch = scale.positionWidth(block);
    if (double(block.positions) * pitch > kCanvas) // a pipeline beyond all use
      pitch = kCanvas / double(block.positions);
    for (int64_t p = 0; p < block.positions; ++p) {
      double left = x + double(p) * pitch;
      if (stages && getTextWidth(std::to_string(p), 11) < pitch)
        svg.text(left, y - 4, std::to_string(p), "tick");
      for (int64_t r = 0; r < block.replicas; ++r)
        drawGroup(unit, p, r, left, y);
    }
    return y + double(scale.rowsOf(block)) * (scale.cell + scale.getGap());
  }

  void drawGroup(int unit, int64_t position, int64_t replica, double left,
                 double top) {
    const DeviceBlock &block = blocks[size_t(unit)];
    int64_t rows = scale.rowsOf(block);
    double x = left + double(replica / rows) * scale.groupWidth(block),
           y = top + double(replica % rows) * (scale.cell + scale.getGap());
    for (int64_t t = 0; t < block.group; ++t) {
      size_t at =
          size_t((position * block.replicas + replica) * block.group + t);
      if (at >= block.ranks.size())
        return;
      std::string rank = std::to_string(block.ranks[at]);
      std::string hover = "rank " + rank + ": " + block.name;
      if (block.positions > 1)
        hover += ", pipeline position " + std::to_string(position);
      if (block.replicas > 1)
        hover += ", replica " + std::to_string(replica);
      if (block.group > 1)
        hover += ", " + std::to_string(t) + " of its tensor-parallel group";
      double side = scale.cell - (scale.hasNumbers() ? 1 : 0.5);
      svg.rect(x + double(t) * scale.cell, y, side, side, getUnitClass(unit),
               hover, scale.hasNumbers() ? 3 : 1);
      if (scale.hasNumbers() && getTextWidth(rank, 10) <= side)
        svg.text(x + double(t) * scale.cell + side / 2, y + side / 2 + 3.6,
                 rank, "in on " + getUnitClass(unit), "middle");
    }
  }

  const std::vector<DeviceBlock> &blocks;
  Scale scale;
  Svg svg;
};

} // namespace

void drawDevices(raw_ostream &os, const std::vector<DeviceBlock> &blocks) {
  DevicesPicture(blocks).draw(os);
}

} // namespace dt::picture
