# Fuzz targets as tests of the ordinary build: one builds them with clang in a build folder of their own (build/fuzz,
# shared by all presets), the others run one target each for some seconds from its seeds in tests/fuzz/corpus.
set(INGOT_FUZZ_SECONDS 10 CACHE STRING "How long each fuzz target runs in a test")
set(script ${CMAKE_SOURCE_DIR}/tests/fuzz/run.sh)
set(folder ${CMAKE_SOURCE_DIR}/build/fuzz)

add_test(NAME fuzz_build COMMAND ${script} build ${folder})
set_tests_properties(fuzz_build PROPERTIES
  LABELS fuzz FIXTURES_SETUP fuzz PROCESSORS 2 TIMEOUT 900 SKIP_RETURN_CODE 77)
file(GLOB sources RELATIVE ${CMAKE_SOURCE_DIR}/tests/fuzz CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cc)
foreach(source IN LISTS sources)
  string(REPLACE "_fuzz.cc" "" name ${source})
  add_test(NAME fuzz_${name} COMMAND ${script} run ${folder} ${name} ${INGOT_FUZZ_SECONDS})
  set_tests_properties(fuzz_${name} PROPERTIES
    LABELS fuzz FIXTURES_REQUIRED fuzz TIMEOUT 120 SKIP_RETURN_CODE 77)
endforeach()
