# Writes version.cc; run at every build, it touches the file only when the commit has changed.
#   cmake -D THAW_SOURCE_DIR=... -D THAW_VERSION=... -D THAW_COMPILER=... -D OUTPUT=... -P version.cmake
set(THAW_COMMIT "")
find_package(Git QUIET)
# Sources unpacked inside another project's repository do not have that project's commit.
if(Git_FOUND AND EXISTS "${THAW_SOURCE_DIR}/.git")
  execute_process(
    COMMAND ${GIT_EXECUTABLE} -C "${THAW_SOURCE_DIR}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE THAW_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(THAW_COMMIT STREQUAL "")
  set(THAW_COMMIT "unknown")
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/version.cc.in" "${OUTPUT}" @ONLY)
