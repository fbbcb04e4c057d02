# The CUDA half of dt_runtime, included by runtime/CMakeLists.txt. The program has enabled the language CUDA, or there is a double of
# CUDA (docs/cuda.md of the compiler): then the host's compiler takes the same files.
set(sources device/cuda/Attention.cu device/cuda/Conv.cu device/cuda/Device.cu device/cuda/Matmul.cu device/cuda/Step.cu)
target_sources(dt_runtime PRIVATE ${sources})
set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON) # their kernels share names
if(DT_CUDA_DOUBLE)
  set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX)
  include(${DT_CUDA_DOUBLE}/Double.cmake)
  target_link_libraries(dt_runtime PUBLIC cuda_double)
else()
  find_package(CUDAToolkit REQUIRED)
  if(NOT TARGET CUDA::cublasLt)
    message(FATAL_ERROR "cuBLASLt is missing: the CUDA toolkit in ${CUDAToolkit_LIBRARY_DIR} has no libcublasLt.so")
  endif()
  target_link_libraries(dt_runtime PUBLIC CUDA::cudart CUDA::cublasLt)
endif()
