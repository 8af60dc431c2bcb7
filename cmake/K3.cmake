# One way to declare a library and a test, so that every target gets the same flags and labels.
include_guard()

add_library(k3_flags INTERFACE)
target_compile_features(k3_flags INTERFACE cxx_std_20)
target_include_directories(k3_flags INTERFACE ${PROJECT_SOURCE_DIR})
# -ffp-contract=off: an fma is written where one is meant, nowhere else (design, section 6).
target_compile_options(k3_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wpedantic -Werror -ffp-contract=off>)
if(K3_SANITIZE)
  target_compile_options(k3_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${K3_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(k3_flags INTERFACE -fsanitize=${K3_SANITIZE})
endif()

# k3_library(NAME SOURCES a.cc ... [DEPS target ...] [OPTIONS -mflag ...])
function(k3_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;OPTIONS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC k3_flags ${ARG_DEPS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
endfunction()

# k3_test(NAME SOURCES a_test.cc ... [DEPS target ...] [LABELS threads slow ...] [TIMEOUT s])
# One ctest entry per binary. Label `threads` also runs under TSan.
function(k3_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE k3_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "${K3_TEST_ENVIRONMENT}")
endfunction()

# k3_bench(NAME SOURCES x_bench.cc ... [DEPS ...]): built with `bench`, never run by ctest.
function(k3_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT benchmark_FOUND)
    return()
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE k3_flags ${ARG_DEPS} benchmark::benchmark benchmark::benchmark_main)
  add_dependencies(k3_benches ${name})
endfunction()
