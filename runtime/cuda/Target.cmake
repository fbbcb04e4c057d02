# The CUDA half of dt_runtime, included by runtime/CMakeLists.txt. The program has enabled the language CUDA.
find_package(CUDAToolkit REQUIRED)
target_sources(dt_runtime PRIVATE cuda/Attention.cu cuda/Conv.cu cuda/Device.cu cuda/Matmul.cu)
target_link_libraries(dt_runtime PUBLIC CUDA::cudart CUDA::cublasLt)
