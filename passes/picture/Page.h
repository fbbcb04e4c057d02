//===- Page.h - A page that needs nothing else ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PICTURE_PAGE_H
#define PASSES_PICTURE_PAGE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace dt::picture {

/// A figure that stands in large at the top of a page.
struct Tile {
  std::string value, name, hover;
};

struct HtmlTable {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  /// Columns of words, before those of numbers (which are aligned right).
  size_t words = 1;
  /// Columns of words behind those of numbers.
  size_t wordsAtEnd = 0;
  std::optional<size_t> chosen; ///< a row that stands out
};

/// Writes HTML as its members are called; texts are escaped. The page ends with
/// the object.
class Page {
public:
  Page(llvm::raw_ostream &os, llvm::StringRef title);
  ~Page();
  Page(const Page &) = delete;
  Page &operator=(const Page &) = delete;

  void heading(llvm::StringRef text);
  void paragraph(llvm::StringRef text);
  /// What can be typed, as it is.
  void command(llvm::StringRef before, llvm::StringRef command,
               llvm::StringRef after);
  void tiles(const std::vector<Tile> &tiles);
  void table(const HtmlTable &table);
  /// `draw` writes SVG that is not standalone.
  void picture(llvm::function_ref<void(llvm::raw_ostream &)> draw);

private:
  llvm::raw_ostream &os;
};

} // namespace dt::picture

#endif // PASSES_PICTURE_PAGE_H
