//===- Markup.h - What pictures are written with ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// SVG and HTML as text. Names come from models and are never trusted. Colours
// are classes (picture.css), so that a picture is light or dark as its reader
// likes; widths of texts are estimated, as no font is at hand.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PICTURE_MARKUP_H
#define PASSES_PICTURE_MARKUP_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <string>
#include <vector>

namespace dt::picture {

/// Text for an element or an attribute: well-formed whatever bytes come in.
std::string escape(llvm::StringRef text);

/// Pixels that a text takes at most, in all likelihood.
double getTextWidth(llvm::StringRef text, double size);
/// The text, or as much of it as has room in front of an ellipsis.
std::string fitText(llvm::StringRef text, double width, double size);

/// Pixels, two digits behind the point at most: "3", "12.5".
std::string px(double value);

/// Class of a unit's colour: there are eight, and then they come again.
std::string getUnitClass(int unit);
/// The same of parts of a sum, which are no units.
std::string getPartClass(int part);

/// One picture. Its size is known when all of it has been drawn.
class Svg {
public:
  /// `label`: what it shows, for readers that do not see.
  Svg(double width, std::string label)
      : width(width), label(std::move(label)), os(body) {}

  /// With `hover`, pointing at it shows that.
  void rect(double x, double y, double width, double height,
            llvm::StringRef classes, llvm::StringRef hover = "",
            double radius = 0);
  void line(double x1, double y1, double x2, double y2, llvm::StringRef classes,
            llvm::StringRef hover = "");
  /// `data` is what a path's d is.
  void path(llvm::StringRef data, llvm::StringRef classes,
            llvm::StringRef hover = "");
  /// `anchor`: start, middle or end.
  void text(double x, double y, llvm::StringRef text,
            llvm::StringRef classes = "", llvm::StringRef anchor = "start",
            llvm::StringRef hover = "");

  /// `standalone`: as a file of its own; else for the inside of a page.
  void write(llvm::raw_ostream &out, double height, bool standalone) const;

private:
  void close(llvm::StringRef element, llvm::StringRef hover);

  double width;
  std::string label, body;
  llvm::raw_string_ostream os;
};

/// Title and notes of a picture that is a file of its own; returns y below
/// them.
double drawHead(Svg &svg, llvm::StringRef title,
                llvm::ArrayRef<std::string> notes, double left, double width,
                double y);

/// An entry of a legend; `draw` has a box of 14 by 12 to show what it means.
struct LegendEntry {
  std::string text;
  std::function<void(Svg &, double x, double y)> draw;
};
/// Entries beside one another, in as many lines as they need from `left` to
/// `right`; returns y below them.
double drawLegend(Svg &svg, const std::vector<LegendEntry> &entries,
                  double left, double right, double y);
/// An entry that is a box of these classes.
LegendEntry boxOf(std::string text, std::string classes);

/// What a picture's elements look like.
llvm::StringRef getPictureStyle();
/// What a page looks like, without its pictures.
llvm::StringRef getPageStyle();

} // namespace dt::picture

#endif // PASSES_PICTURE_MARKUP_H
