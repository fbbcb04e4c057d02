# How this project's libraries are built: one shared MLIR (plugins need it), one precompiled header, ODS output next to its sources' path.

include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
link_directories(${LLVM_BUILD_LIBRARY_DIR})
add_definitions(${LLVM_DEFINITIONS})

# LLVM's headers are compiled with NDEBUG in the packages; our own assertions stay under the build type's control.
# libstdc++ 12's own stable_sort calls a function that it marks as deprecated.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-comment -Wno-deprecated-declarations)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()

set(DT_MLIR_LIBS MLIR LLVM)

# Like LLVM, nothing that includes MLIR's headers throws: a sixth of the time to compile it is code for unwinding. What reads JSON or catches the runtime's
# errors says EXCEPTIONS. Elsewhere nlohmann's header is empty: its inline functions must throw wherever they are compiled, since the linker keeps one of each.
set(DT_NO_EXCEPTIONS -fno-exceptions -DINCLUDE_NLOHMANN_JSON_HPP_)

# dt_pch(<name> [EXCEPTIONS] <header…>): a target whose only purpose is to own a precompiled header that others reuse.
file(WRITE ${CMAKE_BINARY_DIR}/pch_anchor.cpp "")
function(dt_pch name)
  cmake_parse_arguments(A "EXCEPTIONS" "" "" ${ARGN})
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/pch_anchor.cpp)
  list(TRANSFORM A_UNPARSED_ARGUMENTS PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE headers)
  target_precompile_headers(${name} PRIVATE ${headers})
  if(NOT A_EXCEPTIONS)
    target_compile_options(${name} PRIVATE ${DT_NO_EXCEPTIONS})
  endif()
endfunction()
dt_pch(dt_pch_mlir tools/cmake/PCH.h)

# dt_precompiled(<target> [EXCEPTIONS]): MLIR's headers are precompiled for it, and where they exist (behind dialects/) those of the dialects that nearly all include.
function(dt_precompiled target)
  if("EXCEPTIONS" IN_LIST ARGN)
    target_precompile_headers(${target} REUSE_FROM dt_pch_exceptions)
    return()
  endif()
  target_compile_options(${target} PRIVATE ${DT_NO_EXCEPTIONS})
  if(TARGET dt_pch_ir)
    target_precompile_headers(${target} REUSE_FROM dt_pch_ir)
  else()
    target_precompile_headers(${target} REUSE_FROM dt_pch_mlir)
  endif()
endfunction()

# Set by every dt_tablegen call; libraries depend on all of them, since generated headers include one another.
define_property(GLOBAL PROPERTY DT_TABLEGEN_TARGETS BRIEF_DOCS "tablegen targets" FULL_DOCS "tablegen targets")

# dt_tablegen(<name> <td> <out1> <args1> [<out2> <args2>...]): dist_train_tablegen, as plugins have it; what headers include of it is installed.
set(DistTrain_INCLUDE_DIRS ${CMAKE_SOURCE_DIR})
include(DistTrainPlugin)
function(dt_tablegen name td)
  dist_train_tablegen(${name} ${td} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY DT_TABLEGEN_TARGETS ${name})
  set(headers ${ARGN})
  list(FILTER headers INCLUDE REGEX "^[A-Za-z]+\\.h\\.inc$")
  list(TRANSFORM headers PREPEND ${CMAKE_CURRENT_BINARY_DIR}/)
  set_property(GLOBAL APPEND PROPERTY DT_GENERATED_HEADERS ${headers})
endfunction()

# dt_passes(<name>): what the folder's Passes.td says, as Passes.h.inc (passes), Pipelines.h.inc and Pipelines.md (passes/Pipeline.td).
set(LLVM_TABLEGEN_EXE llvm-tblgen)
function(dt_passes name)
  dt_tablegen(${name}PassesIncGen Passes.td Passes.h.inc "-gen-pass-decls -name=${name}")
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  tablegen(LLVM Passes.json --dump-json -I${CMAKE_SOURCE_DIR})
  set(out ${CMAKE_CURRENT_BINARY_DIR})
  set(script ${CMAKE_SOURCE_DIR}/tools/cmake/Pipelines.cmake)
  add_custom_command(OUTPUT ${out}/Pipelines.h.inc ${out}/Pipelines.md DEPENDS ${out}/Passes.json ${script} COMMENT "Building Pipelines.h.inc..."
    COMMAND ${CMAKE_COMMAND} -DRECORDS=Passes.json -DHEADER=Pipelines.h.inc -DPAGE=Pipelines.md -P ${script})
  add_custom_target(${name}PipelinesIncGen DEPENDS ${out}/Pipelines.h.inc)
  set_property(GLOBAL APPEND PROPERTY DT_TABLEGEN_TARGETS ${name}PipelinesIncGen)
  set_property(GLOBAL APPEND PROPERTY DT_GENERATED_HEADERS ${out}/Pipelines.h.inc)
  set_property(GLOBAL APPEND PROPERTY DT_PIPELINES ${out}/Pipelines.md)
endfunction()

# Libraries of the compiler, in the order of their definition: what dt-opt links whole, so that plugins find every dialect and pass in it.
define_property(GLOBAL PROPERTY DT_COMPILER_LIBS BRIEF_DOCS "compiler libraries" FULL_DOCS "compiler libraries")

# Several sources of a library are one translation unit, so that headers and templates are compiled once for all of them. Who changes one file often builds
# with -DDT_UNITY=OFF.
option(DT_UNITY "Compile several sources of a library together" ON)

# dt_unity(<target> [source…]): compiles the target's sources together, but for those given: their names would meet others.
function(dt_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${DT_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# dt_registry(<list> <file> <type> <pattern>): the sources that register themselves by `void add<Name>(<type> &)`, and a file with `addAll`, which calls them.
function(dt_registry list file type pattern)
  file(GLOB sources RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${pattern})
  set(declarations "")
  set(calls "")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    string(APPEND declarations "void add${name}(${type} &);\n")
    string(APPEND calls "  add${name}(all);\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${file} CONTENT "${declarations}static void addAll(${type} &all) {\n${calls}}\n")
  set(${list} ${sources} PARENT_SCOPE)
endfunction()

# dt_library(<name> [EXCEPTIONS] [SOURCES…] [LIBS…] [ALONE…]): a static library on MLIR with the shared precompiled header, of all sources in the folder unless told
# otherwise; EXCEPTIONS: see dt_precompiled, ALONE: see dt_unity.
function(dt_library name)
  cmake_parse_arguments(A "EXCEPTIONS" "" "SOURCES;LIBS;DEPENDS;ALONE" ${ARGN})
  if(NOT A_SOURCES)
    file(GLOB A_SOURCES RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cpp)
  endif()
  add_library(${name} STATIC ${A_SOURCES})
  dt_unity(${name} ${A_ALONE})
  target_link_libraries(${name} PUBLIC ${A_LIBS})
  set_property(GLOBAL APPEND PROPERTY DT_COMPILER_LIBS ${name})
  if(A_EXCEPTIONS)
    dt_precompiled(${name} EXCEPTIONS)
  else()
    dt_precompiled(${name})
  endif()
  get_property(tds GLOBAL PROPERTY DT_TABLEGEN_TARGETS)
  if(tds OR A_DEPENDS)
    add_dependencies(${name} ${tds} ${A_DEPENDS})
  endif()
endfunction()

# dt_unoptimised(<target>…): what it does itself takes no time, compiling it optimised does. Not for what reuses a precompiled header.
function(dt_unoptimised)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    foreach(target ${ARGN})
      set_target_properties(${target} PROPERTIES DT_OPTIMISE -O0)
      target_compile_options(${target} PRIVATE -O0)
    endforeach()
  endif()
endfunction()

# dt_gtest(<name> SOURCES… [LIBS…] [ALONE…]): an executable of gtests; ALONE: see dt_unity.
function(dt_gtest name)
  find_package(GTest REQUIRED)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;ALONE" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  dt_unity(${name} ${A_ALONE})
  target_link_libraries(${name} PRIVATE ${A_LIBS} GTest::gtest)
  dt_unoptimised(${name})
endfunction()
