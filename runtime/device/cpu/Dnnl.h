//===- Dnnl.h - the runtime's one oneDNN engine and its scratch -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the wrappers around oneDNN share: engine, stream and reusable scratch
// memory. Library calls are made by the thread that runs the step, so nothing
// is locked.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CPU_DNNL_H
#define DT_RUNTIME_DEVICE_CPU_DNNL_H

#include "runtime/device/BFloat16.h"

#include <dnnl.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace dt::rt {

dnnl::engine &dnnlEngine();
dnnl::stream &dnnlStream();

/// Whether oneDNN has products of narrow operands for this processor (within
/// what ONEDNN_MAX_CPU_ISA allows).
bool multipliesNarrow();

/// How oneDNN calls elements of a type.
template <typename T>
constexpr dnnl::memory::data_type kDnnlType = dnnl::memory::data_type::f32;
template <>
inline constexpr dnnl::memory::data_type kDnnlType<bf16> =
    dnnl::memory::data_type::bf16;

/// Ends the program with one line: a library refused a call that generated code
/// made.
[[noreturn]] void libraryFailure(const char *call, const char *reason);

/// Throws bad_alloc unless there is memory for the code that oneDNN generates,
/// which writes it to nowhere where its own allocation fails (Xbyak without
/// exceptions).
void expectRoomForCode();

/// dnnl_sgemm: C = alpha op(A) op(B) + beta C, row-major. Throws bad_alloc.
void sgemm(bool transA, bool transB, int64_t m, int64_t n, int64_t k,
           float alpha, const float *a, int64_t lda, const float *b,
           int64_t ldb, float beta, float *c, int64_t ldc);

/// What was made for `key`, which says all that it depends on. Ragged batches
/// bring a bounded number of shapes; the limit only guards against data that
/// never repeat. `call`: what fails if oneDNN refuses.
template <typename T> class PrimitiveCache {
public:
  template <typename Make>
  T &find(std::vector<int64_t> key, const char *call, Make make) {
    auto found = all.find(key);
    if (found != all.end())
      return *found->second;
    constexpr size_t kLimit = 4096;
    if (all.size() >= kLimit)
      all.clear();
    expectRoomForCode();
    try {
      return *all.emplace(std::move(key), std::make_unique<T>(make()))
                  .first->second;
    } catch (const dnnl::error &e) {
      if (e.status == dnnl_out_of_memory)
        throw std::bad_alloc();
      libraryFailure(call, e.what());
    }
  }

private:
  std::map<std::vector<int64_t>, std::unique_ptr<T>> all;
};

/// 64-byte aligned memory that only ever grows. Blocks stay valid until the
/// next `reset`; after the first step nothing is allocated any more.
class Scratch {
public:
  Scratch() = default;
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  ~Scratch();

  void reset() { used = 0; }
  void *bytes(size_t size);
  float *floats(size_t count) {
    return static_cast<float *>(bytes(count * sizeof(float)));
  }

private:
  struct Block {
    void *data;
    size_t size;
  };
  std::vector<Block> blocks; ///< block i serves the i-th request since reset
  size_t used = 0;
};

/// The scratch of the calling thread.
Scratch &threadScratch();

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CPU_DNNL_H
