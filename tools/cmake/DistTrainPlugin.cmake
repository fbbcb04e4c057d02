# What a plugin's CMakeLists.txt calls (docs/sdk.md); the package DistTrain brings it, behind MLIR's own functions.

define_property(GLOBAL PROPERTY DIST_TRAIN_TABLEGEN BRIEF_DOCS "tablegen targets" FULL_DOCS "tablegen targets that plugins wait for")

# dist_train_tablegen(<name> <td> <out1> <args1> [<out2> <args2>...]): runs mlir-tblgen on <td>, one output after another; .td files of the compiler are
# found.
function(dist_train_tablegen name td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  set(args ${ARGN})
  list(TRANSFORM DistTrain_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE includes)
  while(args)
    list(POP_FRONT args out flags)
    separate_arguments(flags)
    mlir_tablegen(${out} ${flags} ${includes})
  endwhile()
  add_custom_target(${name} DEPENDS ${TABLEGEN_OUTPUT})
  set_property(GLOBAL APPEND PROPERTY DIST_TRAIN_TABLEGEN ${name})
endfunction()

# dist_train_embed(<file>): <file>.inc, a string literal with its text, for #include.
function(dist_train_embed file)
  file(READ ${file} text)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${file}.inc CONTENT "R\"embedded(\${text})embedded\"\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
endfunction()

# dist_train_add_plugin(<name> <source>…): <name>.so for --load-plugin. It links nothing: what it calls is found in the tool that loads it. Behind the calls
# of dist_train_tablegen whose headers it includes.
function(dist_train_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR})
  target_include_directories(${name} SYSTEM PRIVATE ${DistTrain_INCLUDE_DIRS} ${DistTrain_JSON_INCLUDE_DIR})
  separate_arguments(definitions UNIX_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_options(${name} PRIVATE ${definitions})
  target_compile_features(${name} PRIVATE cxx_std_17)
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX .so)
  get_property(targets GLOBAL PROPERTY DIST_TRAIN_TABLEGEN)
  if(targets)
    add_dependencies(${name} ${targets})
  endif()
endfunction()
