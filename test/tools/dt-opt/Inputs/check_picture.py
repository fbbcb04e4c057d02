# ===- check_picture.py - what a picture or a page must be ------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""check_picture.py FILE [WORDS...]: FILE (.svg or .html) is well-formed, needs no other file, its texts do not lie on one another and
are inside the picture, and each of WORDS is the text, or in the text, of some element. A word with a '!' in front must not be there."""

import re
import sys
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"title": 16, "tick": 11, "small": 11, "in": 10}


def size_of(element):
    return min((SIZES[c] for c in element.get("class", "").split() if c in SIZES), default=12)


def box_of(text):
    """Left, right, top, bottom of a <text>; widths as in a narrow font, so that what overlaps here does so everywhere."""
    size = 16 if text.get("class") == "title" else size_of(text)
    width = 0.5 * size * len(text.text or "")
    x, y = float(text.get("x")), float(text.get("y"))
    left = {"middle": x - width / 2, "end": x - width}.get(text.get("text-anchor"), x)
    return left, left + width, y - 0.75 * size, y + 0.1 * size


def check_texts(svg):
    width, height = (float(v) for v in svg.get("viewBox").split()[2:])
    boxes = sorted((box_of(t), t.text) for t in svg.iter(SVG + "text"))
    for i, (a, text) in enumerate(boxes):
        assert a[0] >= -1 and a[1] <= width + 1 and a[2] >= -1 and a[3] <= height + 1, f"'{text}' is outside the picture"
        for b, other in boxes[i + 1 :]:
            if b[0] >= a[1] - 1:
                break
            assert b[2] >= a[3] or a[2] >= b[3], f"'{text}' and '{other}' lie on one another"


def check_numbers(svg):
    for element in svg.iter():
        for key in ("x", "y", "width", "height", "x1", "x2", "y1", "y2"):
            if key in element.attrib:
                number = float(element.get(key))
                assert number == number and abs(number) < 1e6, f"{key} is {number}"
        assert float(element.get("width", 0)) >= 0 and float(element.get("height", 0)) >= 0, "a negative size"


def main(file, words):
    with open(file, encoding="utf-8") as stream:
        content = stream.read()
    root = ElementTree.fromstring(re.sub(r"^<!DOCTYPE html>\n", "", content))
    local = [e.tag.replace(SVG, "") for e in root.iter()]
    assert not {"script", "link", "iframe", "image", "object"} & set(local), "another file, or a script"
    assert not re.search(r"(?<!xmlns=\")https?://|url\(|@import", content), "an address"
    assert all(e.get("src", "").startswith("data:image/png;base64,") for e in root.iter("img")), "a picture in another file"
    pictures = [root] if root.tag == SVG + "svg" else list(root.iter(SVG + "svg"))
    assert pictures, "no picture"
    for svg in pictures:
        check_texts(svg)
        check_numbers(svg)
    texts = [e.text or "" for e in root.iter() if e.tag.replace(SVG, "") != "style"]
    for word in words:
        there = any(word.lstrip("!") in text for text in texts)
        assert there != word.startswith("!"), f"'{word}' is {'' if there else 'not '}there"
    assert not any(re.search(r"\d{7}", t) for t in texts), "a long number: figures are for people"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
