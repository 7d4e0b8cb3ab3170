# Warnings are errors; a compiler cache is used where there is one.
find_program(INGOT_CCACHE ccache)
if(INGOT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${INGOT_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${INGOT_CCACHE})
endif()

add_library(ingot_flags INTERFACE)
target_compile_options(ingot_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Werror -fno-math-errno -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(ingot_flags INTERFACE -Wthread-safety)
endif()
target_include_directories(ingot_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(ingot_flags INTERFACE
  $<$<NOT:$<CONFIG:Release>>:_GLIBCXX_ASSERTIONS>
  $<$<CONFIG:Debug>:INGOT_POISON=1>)
if(INGOT_SANITIZE)
  target_compile_options(ingot_flags INTERFACE
    -fsanitize=${INGOT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ingot_flags INTERFACE -fsanitize=${INGOT_SANITIZE})
endif()
find_package(Threads REQUIRED)
target_link_libraries(ingot_flags INTERFACE Threads::Threads)
