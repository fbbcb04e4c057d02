//===- Names.cpp - which kernel an address is
//-------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A launch has a function's address only. The program's symbol table, which the
// linker leaves in the file, says its name.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cuda_double {

namespace {

/// The program's file; null: it cannot be read.
const char *programFile() {
  static const char *bytes = []() -> const char * {
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0)
      return nullptr;
    void *mapped =
        mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return mapped == MAP_FAILED ? nullptr : static_cast<const char *>(mapped);
  }();
  return bytes;
}

/// Where the program was loaded, over what its file says.
uintptr_t loadedAt() {
  uintptr_t at = 0;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *result) {
        *static_cast<uintptr_t *>(result) = info->dlpi_addr;
        return 1; // the program is the first
      },
      &at);
  return at;
}

const char *symbolAt(uintptr_t address) {
  const char *file = programFile();
  if (!file)
    return nullptr;
  auto *header = reinterpret_cast<const ElfW(Ehdr) *>(file);
  auto *sections = reinterpret_cast<const ElfW(Shdr) *>(file + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB)
      continue;
    auto *symbols =
        reinterpret_cast<const ElfW(Sym) *>(file + sections[i].sh_offset);
    const char *names = file + sections[sections[i].sh_link].sh_offset;
    for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; ++s)
      if (symbols[s].st_value == address &&
          (symbols[s].st_info & 0xf) == STT_FUNC)
        return names + symbols[s].st_name;
  }
  return nullptr;
}

/// "void dt::rt::k<float>(float*)" is "dt::rt::k<float>".
std::string withoutTypes(std::string name) {
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    depth += (name[i] == ')') - (name[i] == '(');
    if (depth == 0 && name[i] == '(') {
      name.resize(i);
      break;
    }
  }
  return name.rfind("void ", 0) == 0 ? name.substr(5) : name;
}

} // namespace

std::string nameOf(const void *kernel) {
  auto address = reinterpret_cast<uintptr_t>(kernel);
  const char *symbol = symbolAt(address - loadedAt());
  if (!symbol)
    return "kernel at " + std::to_string(address);
  char *text = abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr);
  std::string name = text ? withoutTypes(text) : symbol;
  std::free(text);
  return "kernel " + name;
}

} // namespace cuda_double
