//===- Page.cpp - A page that needs nothing else --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/picture/Page.h"

#include "passes/picture/Markup.h"

using namespace llvm;

namespace dt::picture {

Page::Page(raw_ostream &os, StringRef title) : os(os) {
  os << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\"/>\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\"/>\n<title>"
     << escape(title) << "</title>\n<style>\n"
     << getPageStyle() << getPictureStyle() << "</style>\n</head>\n<body>\n<h1>"
     << escape(title) << "</h1>\n";
}

Page::~Page() { os << "</body>\n</html>\n"; }

void Page::heading(StringRef text) {
  os << "<h2>" << escape(text) << "</h2>\n";
}

void Page::paragraph(StringRef text) {
  os << "<p class=\"soft\">" << escape(text) << "</p>\n";
}

void Page::command(StringRef before, StringRef command, StringRef after) {
  os << "<p class=\"soft\">" << escape(before) << "<code>" << escape(command)
     << "</code>" << escape(after) << "</p>\n";
}

void Page::tiles(const std::vector<Tile> &tiles) {
  os << "<div class=\"tiles\">\n";
  for (const Tile &tile : tiles) {
    os << "<div class=\"tile\"";
    if (!tile.hover.empty())
      os << " title=\"" << escape(tile.hover) << '"';
    os << "><b>" << escape(tile.value) << "</b><span>" << escape(tile.name)
       << "</span></div>\n";
  }
  os << "</div>\n";
}

void Page::table(const HtmlTable &table) {
  auto cell = [&](const char *element, size_t column, StringRef text) {
    bool number =
        column >= table.words && column + table.wordsAtEnd < table.head.size();
    os << '<' << element << (number ? " class=\"r\">" : ">") << escape(text)
       << "</" << element << '>';
  };
  os << "<div class=\"scroll\"><table>\n<thead><tr>";
  for (size_t i = 0; i < table.head.size(); ++i)
    cell("th", i, table.head[i]);
  os << "</tr></thead>\n<tbody>\n";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    os << (table.chosen == row ? "<tr class=\"chosen\">" : "<tr>");
    for (size_t i = 0; i < table.rows[row].size(); ++i)
      cell("td", i, table.rows[row][i]);
    os << "</tr>\n";
  }
  os << "</tbody></table></div>\n";
}

void Page::picture(function_ref<void(raw_ostream &)> draw) {
  os << "<div class=\"scroll\">\n";
  draw(os);
  os << "</div>\n";
}

} // namespace dt::picture
