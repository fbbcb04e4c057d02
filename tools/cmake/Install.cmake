# cmake --install: tools, the runtime's sources, and what plugins are built with (docs/sdk.md). All paths are relative to the place of who asks: dt-opt finds
# the runtime beside its own executable, the package its headers beside itself.
include(CMakePackageConfigHelpers)

install(TARGETS dt-opt dt-lsp-server dt-reduce dt-sim dt-data RUNTIME DESTINATION bin)
install(PROGRAMS tools/dt-profile DESTINATION bin)

get_property(headers GLOBAL PROPERTY DT_PUBLIC_HEADERS)
list(FILTER headers EXCLUDE REGEX "^runtime/")
foreach(header ${headers})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION include/distrain/${folder})
endforeach()
get_property(generated GLOBAL PROPERTY DT_GENERATED_HEADERS)
foreach(header ${generated})
  cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${CMAKE_BINARY_DIR} OUTPUT_VARIABLE relative)
  cmake_path(GET relative PARENT_PATH folder)
  install(FILES ${header} DESTINATION include/distrain/${folder})
endforeach()

# What programs are made from, whole: the compiler's share of a target is headers for plugins.
install(DIRECTORY runtime DESTINATION share/distrain FILES_MATCHING
  PATTERN "*.h" PATTERN "*.def" PATTERN "*.cu" PATTERN "*.cmake" PATTERN "CMakeLists.txt" PATTERN "*.cpp" PATTERN "codegen/*.cpp" EXCLUDE)
file(GLOB schemas CONFIGURE_DEPENDS docs/*.schema.json)
install(FILES ${schemas} DESTINATION share/distrain)
install(DIRECTORY docs/plugin-template DESTINATION share/distrain PATTERN build EXCLUDE)

configure_package_config_file(tools/cmake/DistTrainConfig.cmake.in ${CMAKE_BINARY_DIR}/package/DistTrainConfig.cmake
  INSTALL_DESTINATION lib/cmake/DistTrain)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/DistTrainConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/DistTrainConfig.cmake ${CMAKE_BINARY_DIR}/package/DistTrainConfigVersion.cmake tools/cmake/DistTrainPlugin.cmake
  DESTINATION lib/cmake/DistTrain)
