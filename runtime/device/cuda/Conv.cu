//===- Conv.cu - convolutions on the GPU ----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// cuDNN's, with kernels for biases. What cuDNN has no plan for, or where it is
// missing: patches are written out as a matrix [c / groups * kernel, out] for
// each sample and group, which turns the three convolutions into matrix
// products.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Calls.h"
#include "runtime/device/cuda/Cuda.h"
#include "runtime/device/cuda/Cudnn.h"

#include <type_traits>

namespace dt::rt {

namespace {

/// A convolution with sizes multiplied out, always of three dims (leading ones
/// are 1).
struct Patches {
  int64_t n, c, o, groups, in[3], kernel[3], stride[3], dilation[3], pad[3],
      out[3];
  int64_t inputs, outputs, taps; ///< products of in, out, kernel

  explicit Patches(const ConvShape &s)
      : n(s.n), c(s.c), o(s.o), groups(s.groups), inputs(1), outputs(1),
        taps(1) {
    for (int i = 0; i < 3; ++i) {
      int from = i - (3 - s.dims);
      in[i] = from < 0 ? 1 : s.in[from];
      kernel[i] = from < 0 ? 1 : s.kernel[from];
      stride[i] = from < 0 ? 1 : s.stride[from];
      dilation[i] = from < 0 ? 1 : s.dilation[from];
      pad[i] = from < 0 ? 0 : s.padBegin[from];
      out[i] = from < 0 ? 1 : s.out(from);
      inputs *= in[i], outputs *= out[i], taps *= kernel[i];
    }
  }
  int64_t rows() const {
    return c / groups * taps;
  } ///< of the patch matrix of one group
};

__device__ void split(int64_t index, const int64_t *size, int64_t *place) {
  place[2] = index % size[2];
  place[1] = index / size[2] % size[1];
  place[0] = index / size[2] / size[1];
}

/// patches [c * taps, outputs] of one sample x [c, in...].
template <typename T>
__global__ void gatherKernel(const T *x, T *patches, Patches p) {
  int64_t n = p.c * p.taps * p.outputs;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x) {
    int64_t tap[3], at[3], from = 0;
    split(i / p.outputs % p.taps, p.kernel, tap);
    split(i % p.outputs, p.out, at);
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      int64_t place = at[d] * p.stride[d] + tap[d] * p.dilation[d] - p.pad[d];
      inside = inside && place >= 0 && place < p.in[d];
      from = from * p.in[d] + place;
    }
    patches[i] = inside ? x[i / p.outputs / p.taps * p.inputs + from] : T(0.f);
  }
}

/// The transpose: each input element adds up the patches it is in, in a fixed
/// order.
template <typename T>
__global__ void scatterKernel(const float *patches, Floats bias, T *x,
                              Patches p) {
  int64_t n = p.c * p.inputs;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x) {
    int64_t place[3], channel = i / p.inputs;
    split(i % p.inputs, p.in, place);
    float sum = bias ? bias[channel] : 0.f;
    for (int64_t t = 0; t < p.taps; ++t) {
      int64_t tap[3], to = 0;
      split(t, p.kernel, tap);
      bool inside = true;
      for (int d = 0; d < 3; ++d) {
        int64_t reach = place[d] + p.pad[d] - tap[d] * p.dilation[d];
        inside = inside && reach >= 0 && reach % p.stride[d] == 0 &&
                 reach / p.stride[d] < p.out[d];
        to = to * p.out[d] + reach / p.stride[d];
      }
      if (inside)
        sum += patches[(channel * p.taps + t) * p.outputs + to];
    }
    x[i] = sum;
  }
}

/// y = sums + bias; these may be one.
template <typename T, typename S>
__global__ void addBiasKernel(T *y, const S *sums, Floats bias, int64_t n,
                              int64_t o, int64_t outputs) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x)
    y[i] = float(sums[i]) + bias[i / outputs % o];
}

/// db[o] = beta * db[o] + sum over samples and places, a block a channel.
template <typename T, typename R>
__global__ void biasGradientKernel(const T *dy, R *db, Patches p, float beta) {
  __shared__ float part[256];
  float sum = 0;
  for (int64_t i = threadIdx.x; i < p.n * p.outputs; i += 256)
    sum += dy[(i / p.outputs * p.o + blockIdx.x) * p.outputs + i % p.outputs];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (int(threadIdx.x) < half)
      part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    db[blockIdx.x] = part[0] + (beta != 0 ? beta * float(db[blockIdx.x]) : 0.f);
}

/// to = sums + beta * to.
template <typename T, typename S>
__global__ void addKernel(T *to, const S *sums, int64_t n, float beta) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x)
    to[i] = float(sums[i]) + (beta != 0 ? beta * float(to[i]) : 0.f);
}

float *floatScratch(int purpose, int64_t n) {
  return static_cast<float *>(cuda::scratch(purpose, (n + 1) * sizeof(float)));
}

template <typename T> T *patchScratch(const Patches &p) {
  return reinterpret_cast<T *>(floatScratch(2, p.c * p.taps * p.outputs));
}

/// Where floats are summed that end in `to`: there, if it holds floats.
float *sumsFor(float *to, int64_t) { return to; }
float *sumsFor(bf16 *, int64_t n) { return floatScratch(1, n); }

template <typename T>
void gather(const T *x, T *patches, const Patches &p, void *stream) {
  if (p.c * p.taps * p.outputs)
    cuda::launch("patches of a convolution", gatherKernel<T>,
                 cuda::blocksFor(p.c * p.taps * p.outputs), 256, 0, stream, x,
                 patches, p);
}

template <typename T, typename S>
void addBias(T *y, const S *sums, Floats bias, int64_t samples,
             int64_t channels, int64_t places, void *stream) {
  int64_t n = samples * channels * places;
  if (bias && n)
    cuda::launch("bias of a convolution", addBiasKernel<T, S>,
                 cuda::blocksFor(n), 256, 0, stream, y, sums, bias, n, channels,
                 places);
}

/// By cuDNN: see cudnn::convolve. False too where a size is 0.
template <typename T>
bool convolve(cudnn::Wanted wanted, const Patches &p, const ConvShape &shape,
              const T *x, const T *w, const T *y, float beta, void *stream) {
  if (!p.n || !p.c || !p.o || !p.inputs || !p.outputs || !p.taps)
    return false;
  auto all = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(w) |
             reinterpret_cast<uintptr_t>(y);
  int64_t alignment = all % 16 == 0 ? 16 : int64_t(sizeof(T));
  return cudnn::convolve(
      {shape, wanted, std::is_same_v<T, bf16>, beta, alignment}, x, w, y,
      stream);
}

template <typename T>
void forward(const T *x, const T *w, Floats bias, T *y, const ConvShape &shape,
             void *stream) {
  Patches p(shape);
  if (convolve(cudnn::Wanted::Output, p, shape, x, w, y, 0, stream))
    return addBias(y, y, bias, p.n, p.o, p.outputs, stream);
  T *patches = patchScratch<T>(p);
  int64_t og = p.o / p.groups, rows = p.rows(), n = p.o * p.outputs;
  MatmulShape product{p.groups,       og,    p.outputs, rows,
                      false,          false, og * rows, rows * p.outputs,
                      og * p.outputs, 0,     0,         0,
                      shape.tf32};
  auto run = [&](auto *to) {
    for (int64_t i = 0; i < p.n; ++i) {
      gather(x + i * p.c * p.inputs, patches, p, stream);
      matmul(w, patches, nullptr, to + i * n, product, 0, stream);
    }
  };
  if (!bias || p.n * n == 0)
    return run(y);
  float *sums = sumsFor(y, p.n * n);
  run(sums);
  addBias(y, sums, bias, p.n, p.o, p.outputs, stream);
}

template <typename T>
void backwardData(const T *dy, const T *w, Floats bias, T *dx,
                  const ConvShape &shape, void *stream) {
  Patches p(shape);
  if (convolve(cudnn::Wanted::Input, p, shape, dx, w, dy, 0, stream))
    return addBias(dx, dx, bias, p.n, p.c, p.inputs, stream);
  float *patches = patchScratch<float>(p);
  int64_t og = p.o / p.groups, rows = p.rows();
  MatmulShape product{
      p.groups,  rows,           p.outputs,        og, true, false,
      og * rows, og * p.outputs, rows * p.outputs, 0,  0,    0,
      shape.tf32};
  for (int64_t i = 0; i < p.n && p.c * p.inputs; ++i) {
    matmul(w, dy + i * p.o * p.outputs, nullptr, patches, product, 0, stream);
    cuda::launch("gradient of a convolution's input", scatterKernel<T>,
                 cuda::blocksFor(p.c * p.inputs), 256, 0, stream, patches, bias,
                 dx + i * p.c * p.inputs, p);
  }
}

/// By cuDNN. Its weight gradients have the operands' type: other ones are
/// added from scratch.
template <typename T, typename R>
bool weightsByCudnn(const T *x, const T *dy, R *dw, const Patches &p,
                    const ConvShape &shape, float beta, void *stream) {
  constexpr auto wanted = cudnn::Wanted::Weights;
  if constexpr (std::is_same_v<T, R>)
    return convolve(wanted, p, shape, x, dw, dy, beta, stream);
  int64_t n = p.o * p.rows();
  auto *sums = static_cast<T *>(cuda::scratch(1, (n + 1) * sizeof(T)));
  if (!convolve(wanted, p, shape, x, sums, dy, 0, stream))
    return false;
  cuda::launch("type of a gradient", addKernel<R, T>, cuda::blocksFor(n), 256,
               0, stream, dw, sums, n, beta);
  return true;
}

template <typename T, typename R>
void weightsByPatches(const T *x, const T *dy, R *dw, const Patches &p,
                      bool tf32, float beta, void *stream) {
  T *patches = patchScratch<T>(p);
  int64_t og = p.o / p.groups, rows = p.rows(), n = p.o * rows;
  MatmulShape product{
      p.groups,         og,        rows, p.outputs, false, true, og * p.outputs,
      rows * p.outputs, og * rows, 0,    0,         0,     tf32};
  constexpr bool direct = std::is_same_v<R, float>;
  float *sums = sumsFor(dw, n), first = direct ? beta : 0;
  if (p.n == 0 && first == 0) // a product over nothing writes the zeros
    product.k = 0, matmul(dy, x, nullptr, sums, product, 0, stream);
  for (int64_t i = 0; i < p.n; ++i) {
    gather(x + i * p.c * p.inputs, patches, p, stream);
    matmul(dy + i * p.o * p.outputs, patches, nullptr, sums, product,
           i == 0 ? first : 1, stream);
  }
  if (!direct && n)
    cuda::launch("type of a gradient", addKernel<R, float>, cuda::blocksFor(n),
                 256, 0, stream, dw, sums, n, beta);
}

template <typename T, typename R>
void backwardWeights(const T *x, const T *dy, R *dw, R *db,
                     const ConvShape &shape, float beta, void *stream) {
  Patches p(shape);
  if (!weightsByCudnn(x, dy, dw, p, shape, beta, stream))
    weightsByPatches(x, dy, dw, p, shape.tf32, beta, stream);
  if (db && p.o)
    cuda::launch("gradient of a convolution's bias", biasGradientKernel<T, R>,
                 unsigned(p.o), 256, 0, stream, dy, db, p, beta);
}

} // namespace

void convForward(const float *x, const float *w, const float *bias, float *y,
                 const ConvShape &shape, void *stream) {
  forward<float>(x, w, bias, y, shape, stream);
}
void convForward(const bf16 *x, const bf16 *w, Floats bias, bf16 *y,
                 const ConvShape &shape, void *stream) {
  forward(x, w, bias, y, shape, stream);
}

void convBackwardData(const float *dy, const float *w, const float *bias,
                      float *dx, const ConvShape &shape, void *stream) {
  backwardData<float>(dy, w, bias, dx, shape, stream);
}
void convBackwardData(const bf16 *dy, const bf16 *w, Floats bias, bf16 *dx,
                      const ConvShape &shape, void *stream) {
  backwardData(dy, w, bias, dx, shape, stream);
}

void convBackwardWeights(const float *x, const float *dy, float *dw, float *db,
                         const ConvShape &shape, float beta, void *stream) {
  backwardWeights(x, dy, dw, db, shape, beta, stream);
}
void convBackwardWeights(const bf16 *x, const bf16 *dy, float *dw, float *db,
                         const ConvShape &shape, float beta, void *stream) {
  backwardWeights(x, dy, dw, db, shape, beta, stream);
}
void convBackwardWeights(const bf16 *x, const bf16 *dy, bf16 *dw, bf16 *db,
                         const ConvShape &shape, float beta, void *stream) {
  backwardWeights(x, dy, dw, db, shape, beta, stream);
}

} // namespace dt::rt
