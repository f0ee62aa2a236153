# Which test folders a variant runs: what would only repeat another variant's result is left out. In every
# variant, tests/unit links the library with its assertions: so check runs of it what is linked with
# libhakmem-api.so, and the rest would be standard's programs again, compiled alike to the byte.
if(HAK_VARIANT STREQUAL "standard")
  set(folders runner layers unit api guarantees stress fault numa campaigns fuzz programs package headers models schedule cross tools
              trace bench peers lab python bindings ecosystems site)
elseif(HAK_VARIANT STREQUAL "tsan")
  set(folders unit stress fuzz)
elseif(HAK_VARIANT STREQUAL "asan" OR HAK_VARIANT STREQUAL "check")
  set(folders unit api stress fault fuzz)
  if(HAK_VARIANT STREQUAL "check")
    list(APPEND folders campaigns)
  endif()
elseif(HAK_VARIANT STREQUAL "hardened")
  set(folders unit api guarantees copies stress fault campaigns fuzz package)
else()
  set(folders unit api)
endif()
# Not set here, so that a build directory follows changes of the lists above.
set(HAK_TESTS "" CACHE STRING "Test folders of this build instead of the variant's own")
if(HAK_TESTS)
  set(folders ${HAK_TESTS})
endif()

# Of the processors, for a test that builds something: it counts as so many in CTest's property PROCESSORS, and may run so
# many compilers at once. Less than all of them, so that such a test need not wait for all others to end.
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR HAK_TEST_SHARE "(${processors} + 4) / 5")

# Names that this variant has no test of are passed over.
function(hak_label label)
  foreach(name IN LISTS ARGN)
    if(TEST ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS ${label})
    endif()
  endforeach()
endfunction()

# hak_waits(tests...): these mostly sleep or wait for somebody else. tests/runner lets them run beside tests that need a
# processor each.
function(hak_waits)
  hak_label(waits ${ARGN})
endfunction()

# hak_slow(tests...): `make test` leaves these out, `make test-all` runs them. The label `slow` is all that
# decides it. Who has it: what takes more than about 5 s of a processor, repeats another test under other
# options, needs packages of scripts/packages.txt that are not in its groups [build] and [test], or reads
# nothing but files of its own folder, so that a change of these selects it and no other does.
function(hak_slow)
  hak_label(slow ${ARGN})
endfunction()

# hak_slow_directory(): the same for every test of the folder, at the end of its CMakeLists.txt.
function(hak_slow_directory)
  get_property(names DIRECTORY PROPERTY TESTS)
  hak_slow(${names})
endfunction()

# hak_cannot_test(name reason): a test that is skipped, where a whole folder cannot be run: to be left out
# without a word would look like green.
function(hak_cannot_test name reason)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped: ")
endfunction()

# The tests' own code in these folders runs for moments, and compiling it takes longer: less optimisation, no debug information.
# The library that they link keeps its flags.
set(HAK_QUICKLY_COMPILED unit api stress fault cross campaigns)

function(hak_add_tests path)
  if(path MATCHES "^tests/(.*)$" AND CMAKE_MATCH_1 IN_LIST HAK_QUICKLY_COMPILED)
    set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1")
    set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1")
  endif()
  if(EXISTS ${PROJECT_SOURCE_DIR}/${path}/CMakeLists.txt)
    add_subdirectory(${path})
  endif()
endfunction()

foreach(folder IN LISTS folders)
  if(folder STREQUAL "lab") # these two lie beside the package that they test
    hak_add_tests(lab/tests)
  elseif(folder STREQUAL "python")
    hak_add_tests(bindings/python/tests)
  else()
    hak_add_tests(tests/${folder})
  endif()
endforeach()
