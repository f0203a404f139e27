# Compiler settings and third-party packages that every module shares.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off)
if(THAW_WERROR)
  add_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports false positives of these inside its own std::string and std::vector.
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
                      -Wno-array-bounds -Wno-maybe-uninitialized)
endif()
if(CMAKE_UNITY_BUILD)
  # What is in several files together: a local name may be that of another file's constant, and a class
  # may have members of unnamed namespaces. Builds without it watch the first for all names.
  add_compile_options(-Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(THAW_SANITIZE)
  add_compile_options(-fsanitize=${THAW_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${THAW_SANITIZE})
endif()
if(THAW_SANITIZE MATCHES undefined)
  # The first three are a sixth of the time of compiling and of testing, for what AddressSanitizer or the CPU
  # finds as well: only what fuzz targets go through has them (thaw_fuzz). `vptr` takes std::generic_category()
  # for an object of another class.
  add_compile_options(-fno-sanitize=null,object-size,pointer-overflow,vptr)
endif()
set(fuzz_coverage inline-8bit-counters,pc-table)
if(THAW_LIBFUZZER)
  # Coverage for everything; the runtime itself is linked by the fuzz targets alone.
  add_compile_options(-fsanitize-coverage=${fuzz_coverage})
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tl-expected REQUIRED)
pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)

if(THAW_BUILD_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()
if(THAW_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
