# The two fuzzers: programs of their own compilers, which this build's is not. So they are made by commands, one an object, and
# only when their tests run (fuzz.build): what `make test` builds does not grow by them.
#
# libFuzzer runs in check, AFL++ in hardened, so that two variants are fuzzed in the time of two sessions.

set(harness_sources ${fuzz_sources} calls_linked.c family.c)
set(harness_definitions _GNU_SOURCE HAK_ASSERT=1 HAK_FAULT_INJECTION=1 ${HAK_VARIANT_DEFINITIONS})
set(harness_flags -std=gnu11 -O1 -gline-tables-only -fno-omit-frame-pointer ${HAK_NO_BUILTIN}
                  -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src
                  -I${CMAKE_CURRENT_SOURCE_DIR})
foreach(definition IN LISTS harness_definitions)
  list(APPEND harness_flags "-D${definition}")
endforeach()

# fuzz_harness(<name> <compiler> <main source> <flags of the library's sources> <flags of the link>)
function(fuzz_harness name compiler main covered link)
  set(objects)
  foreach(source IN LISTS HAK_CORE_SOURCES harness_sources main)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    file(RELATIVE_PATH object ${PROJECT_SOURCE_DIR} ${source})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.dir/${object}.o)
    set(flags ${harness_flags})
    if(source IN_LIST HAK_CORE_SOURCES OR source MATCHES "/family\\.c$")
      list(APPEND flags ${covered})
    endif()
    cmake_path(GET object PARENT_PATH folder)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(
      OUTPUT ${object}
      COMMAND env AFL_QUIET=1 ${compiler} ${flags} -MD -MF ${object}.d -c ${source} -o
              ${object}
      DEPENDS ${source}
      DEPFILE ${object}.d
      VERBATIM
      COMMENT "${name}: ${source}")
    list(APPEND objects ${object})
  endforeach()
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${name})
  add_custom_command(
    OUTPUT ${program}
    COMMAND env AFL_QUIET=1 ${compiler} -g ${objects} ${link} -lpthread -ldl -o ${program}
    DEPENDS ${objects}
    VERBATIM
    COMMENT "${name}")
  add_custom_target(make_${name} DEPENDS ${program})
endfunction()

# fuzz_session(<test> <target> <program>)
function(fuzz_session test target program)
  add_test(NAME fuzz.build-${test} COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target ${target})
  set_tests_properties(fuzz.build-${test} PROPERTIES LABELS fuzz TIMEOUT 900 FIXTURES_SETUP ${target})
  add_test(NAME fuzz.${test}
           COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/session.py ${test} ${program}
                   $<TARGET_FILE:fuzz_replay> ${CMAKE_CURRENT_SOURCE_DIR}/corpus
                   ${CMAKE_CURRENT_BINARY_DIR}/session-${test} ${HAK_FUZZ_SECONDS})
  set_tests_properties(fuzz.${test} PROPERTIES LABELS fuzz TIMEOUT 1800 COST 250 FIXTURES_REQUIRED ${target})
  hak_slow(fuzz.build-${test} fuzz.${test})
endfunction()

if(HAK_VARIANT STREQUAL "check")
  find_program(HAK_FUZZ_CLANG NAMES clang-14 clang)
  mark_as_advanced(HAK_FUZZ_CLANG)
  set(runtime)
  if(HAK_FUZZ_CLANG)
    execute_process(COMMAND ${HAK_FUZZ_CLANG} -print-file-name=libclang_rt.fuzzer-${CMAKE_SYSTEM_PROCESSOR}.a
                    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT EXISTS "${runtime}") # by the other way to lay files out
      execute_process(COMMAND ${HAK_FUZZ_CLANG} -print-resource-dir OUTPUT_VARIABLE resources
                      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      file(GLOB_RECURSE runtime "${resources}/lib/*libclang_rt.fuzzer-*.a"
           "${resources}/lib/*libclang_rt.fuzzer.a")
    endif()
  endif()
  if(runtime)
    fuzz_harness(fuzz_libfuzzer ${HAK_FUZZ_CLANG} libfuzzer.c -fsanitize=fuzzer-no-link -fsanitize=fuzzer)
    fuzz_session(libfuzzer make_fuzz_libfuzzer ${CMAKE_CURRENT_BINARY_DIR}/fuzz_libfuzzer)
  else()
    hak_cannot_test(fuzz.libfuzzer "clang's fuzzer runtime is not installed (libclang-rt-14-dev)")
    hak_slow(fuzz.libfuzzer)
  endif()
elseif(HAK_VARIANT STREQUAL "hardened")
  find_program(HAK_FUZZ_AFL afl-clang-fast)
  find_program(HAK_FUZZ_AFL_FUZZ afl-fuzz)
  mark_as_advanced(HAK_FUZZ_AFL HAK_FUZZ_AFL_FUZZ)
  if(HAK_FUZZ_AFL AND HAK_FUZZ_AFL_FUZZ)
    fuzz_harness(fuzz_afl ${HAK_FUZZ_AFL} afl.c "" "")
    fuzz_session(afl make_fuzz_afl ${CMAKE_CURRENT_BINARY_DIR}/fuzz_afl)
  else()
    hak_cannot_test(fuzz.afl "afl++ is not installed")
    hak_slow(fuzz.afl)
  endif()
endif()
