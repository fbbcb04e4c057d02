//===- Markup.cpp - What pictures are written with ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/picture/Markup.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace dt::picture {

namespace {

const char kPictureStyle[] =
#include "passes/picture/picture.css.inc"
    ;
const char kPageStyle[] =
#include "passes/picture/page.css.inc"
    ;

constexpr int kUnitColours = 8;
const char kEllipsis[] = "\u2026";

bool continues(char c) { return (uint8_t(c) & 0xc0) == 0x80; }

/// In ems, as in DejaVu Sans: the widest of what systems show text with.
double emsOf(char c) {
  if (uint8_t(c) >= 0xe3) // CJK, emoji
    return 1.0;
  if (StringRef("iljtfI.,:;|'![]() ").contains(c))
    return 0.4;
  if (StringRef("mwMW%@").contains(c))
    return 1.0;
  return c >= 'A' && c <= 'Z' ? 0.72 : 0.63;
}

} // namespace

std::string escape(StringRef text) {
  // XML has no control characters, and two that Unicode does not have either.
  std::string clean = json::fixUTF8(text);
  for (char &c : clean)
    if (uint8_t(c) < 0x20 && c != '\n' && c != '\t')
      c = ' ';
  for (size_t i = 0; (i = clean.find("\xef\xbf", i)) != std::string::npos; ++i)
    if (uint8_t(clean[i + 2]) >= 0xbe)
      clean[i + 2] = char(0xbd);
  std::string result;
  raw_string_ostream os(result);
  for (char c : clean)
    switch (c) {
    case '&':
      os << "&amp;";
      break;
    case '<':
      os << "&lt;";
      break;
    case '>':
      os << "&gt;";
      break;
    case '"':
      os << "&quot;";
      break;
    default:
      os << c;
    }
  return result;
}

double getTextWidth(StringRef text, double size) {
  double ems = 0;
  for (char c : text)
    ems += continues(c) ? 0 : emsOf(c);
  return ems * size;
}

std::string fitText(StringRef text, double width, double size) {
  if (getTextWidth(text, size) <= width)
    return text.str();
  double room = width - size;
  size_t end = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (continues(text[i]))
      continue;
    room -= emsOf(text[i]) * size;
    if (room < 0)
      break;
    end = i + 1;
    while (end < text.size() && continues(text[end]))
      ++end;
  }
  return end ? (text.take_front(end) + kEllipsis).str() : "";
}

std::string px(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.2f", value);
  StringRef shorter = StringRef(text).rtrim('0').rtrim('.');
  return shorter == "-0" ? "0" : shorter.str();
}

std::string getUnitClass(int unit) {
  return "u" + std::to_string(unit % kUnitColours);
}

std::string getPartClass(int part) {
  return "p" + std::to_string(part % kUnitColours);
}

void Svg::close(StringRef element, StringRef hover) {
  if (hover.empty())
    os << "/>\n";
  else
    os << "><title>" << escape(hover) << "</title></" << element << ">\n";
}

void Svg::rect(double x, double y, double width, double height,
               StringRef classes, StringRef hover, double radius) {
  os << "<rect class=\"" << classes << "\" x=\"" << px(x) << "\" y=\"" << px(y)
     << "\" width=\"" << px(width) << "\" height=\"" << px(height) << '"';
  if (radius > 0)
    os << " rx=\"" << px(radius) << '"';
  close("rect", hover);
}

void Svg::line(double x1, double y1, double x2, double y2, StringRef classes,
               StringRef hover) {
  os << "<line class=\"" << classes << "\" x1=\"" << px(x1) << "\" y1=\""
     << px(y1) << "\" x2=\"" << px(x2) << "\" y2=\"" << px(y2) << '"';
  close("line", hover);
}

void Svg::path(StringRef data, StringRef classes, StringRef hover) {
  os << "<path class=\"" << classes << "\" d=\"" << data << '"';
  close("path", hover);
}

void Svg::text(double x, double y, StringRef text, StringRef classes,
               StringRef anchor, StringRef hover) {
  os << "<text x=\"" << px(x) << "\" y=\"" << px(y) << '"';
  if (!classes.empty())
    os << " class=\"" << classes << '"';
  if (anchor != "start")
    os << " text-anchor=\"" << anchor << '"';
  os << '>' << escape(text);
  if (!hover.empty())
    os << "<title>" << escape(hover) << "</title>";
  os << "</text>\n";
}

void Svg::write(raw_ostream &out, double height, bool standalone) const {
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"dt\" viewBox=\"0 0 "
      << px(width) << ' ' << px(height) << '"';
  if (standalone)
    out << " width=\"" << px(width) << "\" height=\"" << px(height) << '"';
  out << " role=\"img\" aria-label=\"" << escape(label) << "\">\n";
  if (standalone)
    out << "<style>\n"
        << kPictureStyle << "</style>\n<rect class=\"paper\" width=\""
        << px(width) << "\" height=\"" << px(height) << "\"/>\n";
  out << body << "</svg>\n";
}

double drawHead(Svg &svg, StringRef title, ArrayRef<std::string> notes,
                double left, double width, double y) {
  svg.text(left, y + 14, fitText(title, width, 17), "title");
  y += 24;
  for (const std::string &note : notes) {
    svg.text(left, y + 12, fitText(note, width, 12), "soft");
    y += 18;
  }
  return y + 8;
}

double drawLegend(Svg &svg, const std::vector<LegendEntry> &entries,
                  double left, double right, double y) {
  constexpr double size = 12, line = 20;
  double x = left;
  for (const LegendEntry &entry : entries) {
    double width = 20 + getTextWidth(entry.text, size);
    if (x > left && x + width > right) {
      x = left;
      y += line;
    }
    entry.draw(svg, x, y);
    svg.text(x + 20, y + 10, entry.text, "legend");
    x += width + 18;
  }
  return entries.empty() ? y : y + line;
}

LegendEntry boxOf(std::string text, std::string classes) {
  return {std::move(text),
          [classes = std::move(classes)](Svg &svg, double x, double y) {
            svg.rect(x, y, 14, 12, classes, "", 2);
          }};
}

StringRef getPictureStyle() { return kPictureStyle; }
StringRef getPageStyle() { return kPageStyle; }

} // namespace dt::picture
