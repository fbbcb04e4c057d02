#!/bin/sh
# roundtrip.sh DIR EMITC FILE...: each FILE of the program in DIR is what mlir-translate prints from the ops in EMITC, and DIR has no other generated source but main.cpp.
set -e
dir=$1 ops=$2
shift 2
for file; do
  mlir-translate --mlir-to-cpp --file-id="$file" "$ops" | cmp - "$dir/$file"
done
test "$(cd "$dir" && ls *.h *.cpp *.cu 2>/dev/null | grep -vx main.cpp | wc -l)" = $#
