# The programs of the core tests, for the project in this folder (another target or compiler) and for
# the native build alike: the tests of tests/unit, tests/stress and tests/fault that have the
# allocator linked in, and the programs of ../override, whose malloc is replaced.

find_package(Threads REQUIRED)
cmake_path(SET CROSS_TESTS NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../..)

# A C++ library for the target: musl-tools has none.
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("#include <vector>\nint main() { return std::vector<int>(3).empty(); }"
                          CROSS_HAS_CXX_LIBRARY)

# Each function builds targets with names <prefix><folder>_<program> and sets variables of the caller.

# tests/unit, with our stand-in for cmocka: cross_unit; cross_alone: those without a helper thread.
function(cross_unit_programs prefix)
  set(targets)
  file(GLOB sources CONFIGURE_DEPENDS ${CROSS_TESTS}/unit/*.c)
  # Of the hardened variant alone, and one that stands in for this system's mremap.
  list(FILTER sources EXCLUDE REGEX "/(block_states|closed_when_freed|empty_blocks|guards_and_places|huge_tail|huge_moved|sampled_resize)\\.c$")
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    set(target ${prefix}unit_${name})
    add_executable(${target} ${source})
    target_include_directories(${target} PRIVATE ${CROSS_TESTS}/cross/cmocka ${CROSS_TESTS}/api)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE $<$<BOOL:${CMAKE_CROSSCOMPILING_EMULATOR}>:UNIT_EMULATED>)
    target_link_libraries(${target} PRIVATE hakmem::test Threads::Threads ${CMAKE_DL_LIBS} m)
    list(APPEND targets ${target})
  endforeach()
  include(${CROSS_TESTS}/unit/wrapped.cmake)
  include(${CROSS_TESTS}/unit/alone.cmake)
  wrap_for_unit_tests("${prefix}")
  list(TRANSFORM UNITS_ALONE PREPEND ${prefix}unit_)
  set(cross_alone ${UNITS_ALONE} PARENT_SCOPE)
  set(cross_unit ${targets} PARENT_SCOPE)
endfunction()

# tests/stress and what tests/fault does by fault injection: cross_kit.
function(cross_kit_programs prefix)
  add_library(${prefix}kit STATIC ${CROSS_TESTS}/stress/kit.c)
  target_include_directories(${prefix}kit PUBLIC ${CROSS_TESTS}/stress)
  target_compile_definitions(${prefix}kit PUBLIC _GNU_SOURCE HAK_TEST_PRELOAD=0)
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    target_compile_definitions(${prefix}kit PUBLIC KIT_EMULATED)
  endif()
  target_link_libraries(${prefix}kit PUBLIC hakmem::test Threads::Threads ${CMAKE_DL_LIBS})

  file(GLOB sources CONFIGURE_DEPENDS ${CROSS_TESTS}/stress/*.c ${CROSS_TESTS}/stress/*.cpp)
  # helper.c and filtered.c need headers of the kernel that musl-gcc does not have.
  # kept_size.c is about malloc itself, deepbind.c and dlopen_tls.c about dlopen, which libhakmem.so alone has or sees. many_mappings.c maps 96 GiB, of which an
  # emulator keeps a list of pages. thread_storage.c is about functions that are preloaded before ours. spike.c, unsent.c, near_limit.c
  # and fork_purge.c ask for an argument.
  list(REMOVE_ITEM sources ${CROSS_TESTS}/stress/kit.c ${CROSS_TESTS}/stress/helper.c
                           ${CROSS_TESTS}/stress/filtered.c
                           ${CROSS_TESTS}/stress/kept_size.c ${CROSS_TESTS}/stress/deepbind.c
                           ${CROSS_TESTS}/stress/many_mappings.c ${CROSS_TESTS}/stress/wrapped_free.c
                           ${CROSS_TESTS}/stress/spike.c ${CROSS_TESTS}/stress/unsent.c
                           ${CROSS_TESTS}/stress/near_limit.c ${CROSS_TESTS}/stress/fork_purge.c
                           ${CROSS_TESTS}/stress/dlopen_tls.c ${CROSS_TESTS}/stress/tls_module.c
                           ${CROSS_TESTS}/stress/thread_storage.c ${CROSS_TESTS}/stress/thread_storage_module.c
                           ${CROSS_TESTS}/stress/deepbind_module.c)
  foreach(name each_call munmap_fails small threads_fault)
    list(APPEND sources ${CROSS_TESTS}/fault/${name}.c)
  endforeach()
  if(NOT CROSS_HAS_CXX_LIBRARY)
    list(FILTER sources EXCLUDE REGEX "[.]cpp$")
  endif()
  set(targets)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    set(target ${prefix}${folder}_${name})
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE ${prefix}kit)
    list(APPEND targets ${target})
  endforeach()
  # A file of the archive that nothing else refers to.
  target_link_options(${prefix}stress_stats_signal PRIVATE LINKER:--undefined=statistics_at_signal)
  target_sources(${prefix}fault_each_call PRIVATE ${CROSS_TESTS}/fault/scenarios.c
                                                  ${CROSS_TESTS}/fault/world.c)
  # A file of the archive that nothing else refers to.
  target_link_options(${prefix}stress_stats_signal PRIVATE LINKER:--undefined=statistics_at_signal)
  set(cross_kit ${targets} PARENT_SCOPE)
endfunction()

# The programs of ../override, in each way to bring the library in: cross_override_preload, _shared,
# _static (the whole program is static then).
function(cross_override_programs prefix)
  # The compiler must neither remove calls of the allocator nor reason about their results.
  set(options)
  foreach(name malloc calloc realloc reallocarray free aligned_alloc memalign posix_memalign valloc
               strdup)
    list(APPEND options -fno-builtin-${name})
  endforeach()
  set(sources family.c quiet.c operators.cpp)
  if(CROSS_HAS_CXX_LIBRARY)
    list(APPEND sources containers.cpp)
  endif()

  foreach(way preload shared static)
    set(targets)
    foreach(source IN LISTS sources)
      get_filename_component(name ${source} NAME_WE)
      if(name STREQUAL "operators" AND way STREQUAL "preload")
        continue() # without the library at link time nobody has its operators
      endif()
      set(target ${prefix}override_${name}_${way})
      add_executable(${target} ${CROSS_TESTS}/cross/override/${source})
      target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
      target_compile_options(${target} PRIVATE ${options})
      target_include_directories(${target} PRIVATE ${CROSS_TESTS}/../include)
      if(name STREQUAL "operators")
        target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti -fsized-deallocation)
        set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
      endif()
      if(way STREQUAL "preload")
        target_compile_definitions(${target} PRIVATE OVERRIDE_LINKED=0)
        add_dependencies(${target} hakmem)
      else()
        target_compile_definitions(${target} PRIVATE OVERRIDE_LINKED=1)
      endif()
      if(way STREQUAL "shared")
        target_link_libraries(${target} PRIVATE hakmem::hakmem)
      elseif(way STREQUAL "static")
        target_link_libraries(${target} PRIVATE hakmem::static)
        target_link_options(${target} PRIVATE -static)
      endif()
      target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
      list(APPEND targets ${target})
    endforeach()
    set(cross_override_${way} ${targets} PARENT_SCOPE)
  endforeach()
endfunction()
