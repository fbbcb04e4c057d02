# The CUDA half of dt_runtime, included by runtime/CMakeLists.txt. The program has enabled the language CUDA.
find_package(CUDAToolkit REQUIRED)
target_sources(dt_runtime PRIVATE device/cuda/Attention.cu device/cuda/Conv.cu device/cuda/Device.cu device/cuda/Matmul.cu)
target_link_libraries(dt_runtime PUBLIC CUDA::cudart CUDA::cublasLt)
