//===- Conv.cu - convolutions as products on the GPU ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Patches are written out as a matrix [c / groups * kernel, out] for each
// sample and group, which turns the three convolutions into matrix products.
// For a patch embedding (stride = kernel) that matrix is as large as the image.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Calls.h"
#include "runtime/device/cuda/Cuda.h"

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
__global__ void gatherKernel(const float *x, float *patches, Patches p) {
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
    patches[i] = inside ? x[i / p.outputs / p.taps * p.inputs + from] : 0.f;
  }
}

/// The transpose: each input element adds up the patches it is in, in a fixed
/// order.
__global__ void scatterKernel(const float *patches, const float *bias, float *x,
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

__global__ void addBiasKernel(float *y, const float *bias, int64_t n, int64_t o,
                              int64_t outputs) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x)
    y[i] += bias[i / outputs % o];
}

/// db[o] = beta * db[o] + sum over samples and places, a block a channel.
__global__ void biasGradientKernel(const float *dy, float *db, Patches p,
                                   float beta) {
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
    db[blockIdx.x] = part[0] + (beta != 0 ? beta * db[blockIdx.x] : 0.f);
}

float *patchScratch(const Patches &p) {
  return static_cast<float *>(
      cuda::scratch(2, (p.c * p.taps * p.outputs + 1) * sizeof(float)));
}

void gather(const float *x, float *patches, const Patches &p, void *stream) {
  if (p.c * p.taps * p.outputs)
    cuda::launch("patches of a convolution", gatherKernel,
                 cuda::blocksFor(p.c * p.taps * p.outputs), 256, 0, stream, x,
                 patches, p);
}

} // namespace

void convForward(const float *x, const float *w, const float *bias, float *y,
                 const ConvShape &shape, void *stream) {
  Patches p(shape);
  float *patches = patchScratch(p);
  int64_t og = p.o / p.groups, rows = p.rows();
  MatmulShape product{p.groups,       og,    p.outputs, rows,
                      false,          false, og * rows, rows * p.outputs,
                      og * p.outputs, 0,     0,         0};
  for (int64_t i = 0; i < p.n; ++i) {
    gather(x + i * p.c * p.inputs, patches, p, stream);
    matmul(w, patches, nullptr, y + i * p.o * p.outputs, product, 0, stream);
  }
  int64_t n = p.n * p.o * p.outputs;
  if (bias && n)
    cuda::launch("bias of a convolution", addBiasKernel, cuda::blocksFor(n),
                 256, 0, stream, y, bias, n, p.o, p.outputs);
}

void convBackwardData(const float *dy, const float *w, const float *bias,
                      float *dx, const ConvShape &shape, void *stream) {
  Patches p(shape);
  float *patches = patchScratch(p);
  int64_t og = p.o / p.groups, rows = p.rows();
  MatmulShape product{
      p.groups,  rows,           p.outputs,        og, true, false,
      og * rows, og * p.outputs, rows * p.outputs, 0,  0,    0};
  for (int64_t i = 0; i < p.n && p.c * p.inputs; ++i) {
    matmul(w, dy + i * p.o * p.outputs, nullptr, patches, product, 0, stream);
    cuda::launch("gradient of a convolution's input", scatterKernel,
                 cuda::blocksFor(p.c * p.inputs), 256, 0, stream, patches, bias,
                 dx + i * p.c * p.inputs, p);
  }
}

void convBackwardWeights(const float *x, const float *dy, float *dw, float *db,
                         const ConvShape &shape, float beta, void *stream) {
  Patches p(shape);
  float *patches = patchScratch(p);
  int64_t og = p.o / p.groups, rows = p.rows();
  MatmulShape product{
      p.groups,         og,        rows, p.outputs, false, true, og * p.outputs,
      rows * p.outputs, og * rows, 0,    0,         0};
  if (p.n == 0 && beta == 0) // a product over nothing writes the zeros
    product.k = 0, matmul(dy, x, nullptr, dw, product, 0, stream);
  for (int64_t i = 0; i < p.n; ++i) {
    gather(x + i * p.c * p.inputs, patches, p, stream);
    matmul(dy + i * p.o * p.outputs, patches, nullptr, dw, product,
           i == 0 ? beta : 1, stream);
  }
  if (db && p.o)
    cuda::launch("gradient of a convolution's bias", biasGradientKernel,
                 unsigned(p.o), 256, 0, stream, dy, db, p, beta);
}

} // namespace dt::rt
