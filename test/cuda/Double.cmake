# The double of CUDA as a library, for a program that is configured with -DDT_CUDA_DOUBLE=<this folder>: docs/cuda-double.md.
find_package(Threads REQUIRED)
add_library(cuda_double STATIC
  ${CMAKE_CURRENT_LIST_DIR}/Blocks.cpp ${CMAKE_CURRENT_LIST_DIR}/CublasLt.cpp ${CMAKE_CURRENT_LIST_DIR}/Cudnn.cpp
  ${CMAKE_CURRENT_LIST_DIR}/Memory.cpp ${CMAKE_CURRENT_LIST_DIR}/Nccl.cpp ${CMAKE_CURRENT_LIST_DIR}/Runtime.cpp
  ${CMAKE_CURRENT_LIST_DIR}/Streams.cpp ${CMAKE_CURRENT_LIST_DIR}/Tensor.cpp)
target_compile_features(cuda_double PUBLIC cxx_std_20)
target_compile_options(cuda_double PRIVATE -O3 -march=native)
target_include_directories(cuda_double BEFORE PUBLIC ${CMAKE_CURRENT_LIST_DIR}/include)
target_include_directories(cuda_double PRIVATE ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/../..)
target_link_libraries(cuda_double PUBLIC Threads::Threads)
