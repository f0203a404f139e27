# One CMake target per module, with its tests, fuzz targets and micro-benchmarks beside it.

# thaw_precompile(TARGET FIRST [<header> ...])
#   What most sources include is read once, for FIRST, where THAW_PRECOMPILE asks for it; targets that name
#   the same FIRST are compiled with the same options. Builds without it show that every source includes
#   what it uses.
function(thaw_precompile target first)
  if(NOT THAW_PRECOMPILE)
    return()
  endif()
  if(NOT target STREQUAL first)
    target_precompile_headers(${target} REUSE_FROM ${first})
    return()
  endif()
  target_precompile_headers(${target} PRIVATE
    <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits>
    <map> <memory> <optional> <random> <set> <span> <string> <string_view> <thread> <utility> <vector>
    <fmt/format.h> <tl/expected.hpp> ${ARGN})
endfunction()

# thaw_instruction_set(OPTIONS a.cc ...)
#   Compiles the files for an instruction set beyond the baseline.
function(thaw_instruction_set options)
  set_source_files_properties(${ARGN} PROPERTIES
    COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# thaw_module(NAME SOURCES a.cc ... [DEPENDS base ...] [LIBRARIES fmt::fmt ...])
#   The library thaw_NAME. DEPENDS are other modules, LIBRARIES third-party targets.
function(thaw_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(thaw_${name} STATIC ${ARG_SOURCES})
  target_include_directories(thaw_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPENDS PREPEND thaw_)
  target_link_libraries(thaw_${name} PUBLIC ${ARG_DEPENDS} ${ARG_LIBRARIES})
  thaw_precompile(thaw_${name} thaw_base)
endfunction()

# thaw_tests(NAME SOURCES a_test.cc ... [DEPENDS module ...] [LABELS fast] [OPTIMIZED] [APART])
#   One GoogleTest program for the module; every test in it is a ctest entry. OPTIMIZED: it computes so
#   much by itself that THAW_TEST_OPTIONS, for compiling fast, are not for it. APART: its files give the
#   same names to examples of their own, and are compiled one by one also where CMAKE_UNITY_BUILD is on.
function(thaw_tests name)
  if(NOT THAW_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "OPTIMIZED;APART" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  list(TRANSFORM ARG_DEPENDS PREPEND thaw_)
  add_executable(${name}_test ${ARG_SOURCES})
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE thaw_${name} ${ARG_DEPENDS} GTest::gmock_main)
  if(ARG_APART)
    set_target_properties(${name}_test PROPERTIES UNITY_BUILD OFF)
  endif()
  if(ARG_OPTIMIZED)
    thaw_precompile(${name}_test ${name}_test <gmock/gmock.h>)
  else()
    target_compile_options(${name}_test PRIVATE ${THAW_TEST_OPTIONS})
    thaw_precompile(${name}_test base_test <gmock/gmock.h>)
  endif()
  target_compile_definitions(${name}_test PRIVATE
    THAW_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    THAW_DEFAULT_CONFORMANCE_DIR="${PROJECT_SOURCE_DIR}/../shared/conformance")
  gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}/"
    DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300
    # An allocation that cannot be is an error to handle, under AddressSanitizer too.
    ENVIRONMENT "ASAN_OPTIONS=allocator_may_return_null=1")
endfunction()

# thaw_fuzz(TARGET SOURCE x_fuzz.cc MODULE module CORPUS dir)
#   With libFuzzer (preset dev) a fuzzer; otherwise a program that replays the corpus and a fixed
#   number of deterministic mutations of it, run by ctest.
function(thaw_fuzz target)
  if(NOT THAW_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "SOURCE;MODULE;CORPUS" "" ${ARGN})
  add_executable(${target} ${ARG_SOURCE})
  target_link_libraries(${target} PRIVATE thaw_${ARG_MODULE})
  if(THAW_LIBFUZZER)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    target_compile_options(thaw_${ARG_MODULE} PRIVATE
      -fsanitize-coverage=trace-cmp -fsanitize=null,object-size,pointer-overflow)
    set_property(GLOBAL APPEND PROPERTY THAW_FUZZ_TARGETS ${target})
    set_property(GLOBAL APPEND PROPERTY THAW_FUZZ_LINES
      "$<TARGET_FILE:${target}> ${PROJECT_SOURCE_DIR}/tests/corpus/${ARG_CORPUS}")
  else()
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz_replay.cc)
    add_test(NAME fuzz/${target} COMMAND ${target} ${PROJECT_SOURCE_DIR}/tests/corpus/${ARG_CORPUS} 2000)
    set_tests_properties(fuzz/${target} PROPERTIES LABELS fast TIMEOUT 300)
  endif()
endfunction()

# thaw_bench(NAME SOURCES a_bench.cc ...)
#   Google Benchmark program of a module, only with THAW_BUILD_BENCH.
function(thaw_bench name)
  if(NOT THAW_BUILD_BENCH)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  add_executable(${name}_bench ${ARG_SOURCES})
  target_link_libraries(${name}_bench PRIVATE thaw_${name} benchmark::benchmark_main)
  set_property(GLOBAL APPEND PROPERTY THAW_BENCH_TARGETS ${name}_bench)
  set_property(GLOBAL APPEND PROPERTY THAW_BENCH_LINES "$<TARGET_FILE:${name}_bench>")
endfunction()

# thaw_collect(TARGET LINES global-property TARGETS global-property)
#   A target that builds all of TARGETS, and a file in the build folder with one line for each, which
#   tools/fuzz.sh and tools/bench.sh read.
function(thaw_collect target)
  cmake_parse_arguments(ARG "" "LINES;TARGETS" "" ${ARGN})
  get_property(targets GLOBAL PROPERTY ${ARG_TARGETS})
  get_property(lines GLOBAL PROPERTY ${ARG_LINES})
  list(JOIN lines "\n" text)
  add_custom_target(${target})
  if(targets)
    add_dependencies(${target} ${targets})
  endif()
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/${target}.txt CONTENT "${text}\n")
endfunction()
