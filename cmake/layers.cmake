# Layers of docs/design: each folder of src/ is one library. A layer may depend only on layers above it in this
# list, and includes only those that its own CMakeLists.txt declares (tidy_test checks the includes).
set(INGOT_LAYER_ORDER
  base spec io tensor cost graph model plan backend comm runtime data checkpoint train observe doctor launch
  deploy cli)
set(INGOT_TOOLKIT_LAYERS base spec io tensor cost graph model plan)

# ingot_layer(<name> DEPS <layers> LINK <libraries> SOURCES <files> TESTS <files> SLOW_TESTS <files> BENCHES <files>
#             TEST_DEPS <layers>)
# Headers lie beside sources and are not listed. TESTS carry the ctest label fast, SLOW_TESTS slow. TEST_DEPS are layers
# that tests and benchmarks may include besides DEPS; they too must come earlier in the order.
function(ingot_layer name)
  cmake_parse_arguments(L "" "" "DEPS;LINK;SOURCES;TESTS;SLOW_TESTS;BENCHES;TEST_DEPS" ${ARGN})
  list(FIND INGOT_LAYER_ORDER ${name} own)
  if(own EQUAL -1)
    message(FATAL_ERROR "layer ${name} is not in INGOT_LAYER_ORDER (cmake/layers.cmake)")
  endif()
  foreach(dep IN LISTS L_DEPS L_TEST_DEPS)
    list(FIND INGOT_LAYER_ORDER ${dep} position)
    if(position EQUAL -1 OR NOT position LESS own)
      message(FATAL_ERROR "layer ${name} may not depend on ${dep}: only on layers before it in cmake/layers.cmake")
    endif()
  endforeach()
  list(TRANSFORM L_DEPS PREPEND ingot_ OUTPUT_VARIABLE libraries)
  list(TRANSFORM L_TEST_DEPS PREPEND ingot_ OUTPUT_VARIABLE test_libraries)
  if(L_SOURCES)
    add_library(ingot_${name} STATIC ${L_SOURCES})
    target_link_libraries(ingot_${name} PUBLIC ingot_flags ${libraries} ${L_LINK})
  else()
    add_library(ingot_${name} INTERFACE)
    target_link_libraries(ingot_${name} INTERFACE ingot_flags ${libraries} ${L_LINK})
  endif()
  if(INGOT_TESTS)
    ingot_test(${name}_test "ingot_${name};${test_libraries}" fast ${L_TESTS})
    ingot_test(${name}_slow_test "ingot_${name};${test_libraries}" slow ${L_SLOW_TESTS})
  endif()
  if(INGOT_BENCHMARKS)
    foreach(source IN LISTS L_BENCHES)
      get_filename_component(stem ${source} NAME_WE)
      ingot_bench(${stem} "ingot_${name};${test_libraries}" ${source})
    endforeach()
  endif()
endfunction()

# One test binary of many sources; every TEST in it is a ctest entry with the label.
function(ingot_test binary libraries label)
  if(NOT ARGN)
    return()
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${binary} ${ARGN})
  target_link_libraries(${binary} PRIVATE ${libraries} GTest::gtest_main)
  target_compile_definitions(${binary} PRIVATE
    INGOT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" INGOT_SHARED_DIR="${CMAKE_SOURCE_DIR}/../shared")
  # What measures time runs alone: *Quick*, *Milliseconds*.
  gtest_discover_tests(${binary} DISCOVERY_MODE PRE_TEST TEST_FILTER "-*Quick*:*Milliseconds*"
    PROPERTIES LABELS ${label} TIMEOUT 600)
  gtest_discover_tests(${binary} DISCOVERY_MODE PRE_TEST TEST_FILTER "*Quick*:*Milliseconds*"
    PROPERTIES LABELS ${label} TIMEOUT 600 RUN_SERIAL TRUE)
endfunction()

# A benchmark prints its figures; with --check it compares each with its bar and fails below it.
function(ingot_bench binary libraries)
  add_executable(${binary} ${ARGN})
  target_link_libraries(${binary} PRIVATE ${libraries})
  set_property(GLOBAL APPEND PROPERTY INGOT_BENCH_TARGETS ${binary})
endfunction()

# Adds every layer folder that exists, in order.
macro(ingot_layers)
  foreach(layer IN LISTS INGOT_LAYER_ORDER)
    if(EXISTS ${CMAKE_SOURCE_DIR}/src/${layer}/CMakeLists.txt)
      if(NOT INGOT_TOOLKIT_ONLY OR layer IN_LIST INGOT_TOOLKIT_LAYERS OR layer STREQUAL cli)
        add_subdirectory(src/${layer})
      endif()
    endif()
  endforeach()
endmacro()
