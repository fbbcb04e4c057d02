# oneDNN and the kernels of its own. Included by runtime/CMakeLists.txt.
find_path(DT_DNNL_INCLUDE dnnl.hpp REQUIRED)
find_library(DT_DNNL_LIBRARY dnnl REQUIRED)
target_sources(dt_runtime PRIVATE device/cpu/Attention.cpp device/cpu/AttentionKeys.cpp device/cpu/Conv.cpp device/cpu/Device.cpp device/cpu/Dnnl.cpp device/cpu/Factored.cpp device/cpu/Experts.cpp device/cpu/Matmul.cpp device/cpu/Orthogonal.cpp device/cpu/Snapshot.cpp device/cpu/Wide.cpp)
target_include_directories(dt_runtime SYSTEM PUBLIC ${DT_DNNL_INCLUDE})
target_link_libraries(dt_runtime PUBLIC ${DT_DNNL_LIBRARY})
