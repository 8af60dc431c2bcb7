# One way to declare a library and a test, so that every target gets the same flags and labels.
include_guard()

add_library(k3_flags INTERFACE)
target_compile_features(k3_flags INTERFACE cxx_std_20)
target_include_directories(k3_flags INTERFACE ${PROJECT_SOURCE_DIR})
# -pthread everywhere: precompiled headers are shared only where all flags are.
target_link_libraries(k3_flags INTERFACE Threads::Threads)
# -ffp-contract=off: an fma is written where one is meant, nowhere else (design, section 6).
target_compile_options(k3_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wpedantic -Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers -ffp-contract=off>)
target_compile_options(k3_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--expt-relaxed-constexpr;-Werror=all-warnings>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
if(K3_SANITIZE)
  # A target with the property K3_PLAIN is left alone: see kernels/CMakeLists.txt.
  set(K3_NOT_PLAIN $<NOT:$<BOOL:$<TARGET_PROPERTY:K3_PLAIN>>>)
  target_compile_options(k3_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,${K3_NOT_PLAIN}>:-fsanitize=${K3_SANITIZE}>
    # g++ 12 warns of uninitialised variants that only its own instrumentation sees.
    $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer -fno-sanitize-recover=all>
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  target_link_options(k3_flags INTERFACE -fsanitize=${K3_SANITIZE})
endif()

# With a precompiled header g++ 12 takes std::string's own code for ours and warns of what it
# inlined.
set(K3_WITH_PCH -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)

# Large headers of other people's, read once (build time is a feature). A unit says all the same
# what it includes. k3_headers(NAME <header> ... [DEPS target ...]) makes a set that targets share.
function(k3_headers name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/${name}.cc "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE k3_flags ${ARG_DEPS})
  target_precompile_headers(${name} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
endfunction()
k3_headers(k3_json_headers <nlohmann/json.hpp> DEPS nlohmann_json::nlohmann_json)
k3_headers(k3_test_headers <gmock/gmock.h> <nlohmann/json.hpp> <map> <random> <thread>
  DEPS GTest::gmock GTest::gtest_main nlohmann_json::nlohmann_json)

# k3_library(NAME SOURCES a.cc ... [DEPS target ...] [OPTIONS -mflag ...] [PCH <header> ...]
#            [HEADERS set])
function(k3_library name)
  cmake_parse_arguments(ARG "" "HEADERS" "SOURCES;DEPS;OPTIONS;PCH" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC k3_flags ${ARG_DEPS})
  target_compile_options(${name} PRIVATE ${K3_WITH_PCH} ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${ARG_PCH})
  if(ARG_HEADERS)
    target_precompile_headers(${name} REUSE_FROM ${ARG_HEADERS})
  endif()
endfunction()

# Every ctest entry runs with these. K3_SHARED is where the large test data lies, if anywhere.
set(K3_TEST_ENVIRONMENT "K3_SHARED=${K3_SHARED}")
if(K3_SANITIZE MATCHES thread)
  list(APPEND K3_TEST_ENVIRONMENT
    "TSAN_OPTIONS=halt_on_error=1:suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
elseif(K3_SANITIZE)
  list(APPEND K3_TEST_ENVIRONMENT "ASAN_OPTIONS=detect_stack_use_after_return=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp")
endif()

# k3_test(NAME SOURCES a_test.cc ... [DEPS target ...] [LABELS threads slow ...] [TIMEOUT s]
#         [PCH <header> ...])
# One ctest entry per binary. Label `threads` also runs under TSan, `gpu` only where a GPU is,
# `law` longer under `./dev law` (it reads K3_LAW_SECONDS).
function(k3_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS;PCH" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE k3_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${K3_WITH_PCH})
  if(ARG_PCH)
    target_precompile_headers(${name} PRIVATE ${ARG_PCH})
  else()
    target_precompile_headers(${name} REUSE_FROM k3_test_headers)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "${K3_TEST_ENVIRONMENT}")
  foreach(label threads gpu)
    if(label IN_LIST ARG_LABELS)
      add_dependencies(k3_${label}_tests ${name})
    endif()
  endforeach()
endfunction()

# k3_python_test(NAME SCRIPT x_test.py [ARGS ...] [LABELS ...]): Debian's own interpreter, because
# apt's modules (grpc, protobuf, numpy) belong to it. Scripts say nothing about sanitizers.
function(k3_python_test name)
  cmake_parse_arguments(ARG "" "SCRIPT" "ARGS;LABELS" ${ARGN})
  if(K3_SANITIZE)
    return()
  endif()
  add_test(NAME ${name} COMMAND /usr/bin/python3 -B ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT}
    ${ARG_ARGS} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMAND_EXPAND_LISTS)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300
    ENVIRONMENT "${K3_TEST_ENVIRONMENT}")
endfunction()

# k3_parses_flags(x.cc ...): units that instantiate CLI11 and run once. -O0 saves a third of the
# longest compilations of the house.
function(k3_parses_flags)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O0
    SKIP_PRECOMPILE_HEADERS ON)  # which are compiled with -O1
endfunction()

# k3_bench(NAME SOURCES x_bench.cc ... [DEPS ...]): built with `bench`, never run by ctest.
function(k3_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT benchmark_FOUND)
    return()
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE k3_flags ${ARG_DEPS}
    benchmark::benchmark benchmark::benchmark_main)
  add_dependencies(k3_benches ${name})
endfunction()
