# The library in its forms. Every form is made of the same sources; what differs is whether the two
# files that define malloc & co and operator new/delete are in it.

file(GLOB_RECURSE HAK_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
list(FILTER HAK_SOURCES EXCLUDE REGEX "/src/copies/") # a library of its own, below
file(GLOB_RECURSE HAK_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.h)
set(HAK_OVERRIDE_SOURCES ${PROJECT_SOURCE_DIR}/src/api/override.c
                         ${PROJECT_SOURCE_DIR}/src/api/override_forms.c
                         ${PROJECT_SOURCE_DIR}/src/api/cxx.c
                         ${PROJECT_SOURCE_DIR}/src/api/cxx_arrays.c
                         ${PROJECT_SOURCE_DIR}/src/api/cxx_forms.c
                         ${PROJECT_SOURCE_DIR}/src/api/nothrow.cc)
set(HAK_CORE_SOURCES ${HAK_SOURCES})
# What libraries find that are opened with RTLD_DEEPBIND: for a shared library that replaces malloc, and for no other form.
set(HAK_PRELOAD_SOURCES ${PROJECT_SOURCE_DIR}/src/api/deepbind.c ${PROJECT_SOURCE_DIR}/src/os/symbols.c)
list(REMOVE_ITEM HAK_CORE_SOURCES ${HAK_OVERRIDE_SOURCES} ${HAK_PRELOAD_SOURCES})

# operator new throws through these frames.
set_source_files_properties(
  ${PROJECT_SOURCE_DIR}/src/api/cxx.c ${PROJECT_SOURCE_DIR}/src/api/cxx_arrays.c
  ${PROJECT_SOURCE_DIR}/src/api/cxx_forms.c PROPERTIES COMPILE_OPTIONS -fexceptions)
# It needs no C++ runtime, and asks for none: linked as C.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/api/nothrow.cc PROPERTIES COMPILE_OPTIONS -fno-rtti)

# Files that run at start, at exit or beside a system call are built for size: the kernel maps all of a
# small library's code into each process that loads it, and every 4 KiB count there.
set(HAK_COLD_SOURCES ${HAK_CORE_SOURCES})
list(FILTER HAK_COLD_SOURCES INCLUDE REGEX
     "/src/(policy|observe|release|stack|sample)/|/src/os/(os|locked|place|guard_pages|libc|loaded|file|message|signal|fault_handler|thread|lock|call|clock)\\.c|/src/superslab/(unit|unit_os|unit_move|map|meta|huge|dense|warm|aligned|figures|guard_pages|random_place|lock_parts|huge_advice)\\.c|/src/slab/holes\\.c|/src/api/(totals|atexit|statistics|json|shared|directory|heaps|blackbox|box_files|box_parts)\\.c|/src/heap/(fork|heap|start|samples|named|named_walk)\\.c|/src/front/named_front\\.c")
set_source_files_properties(${HAK_COLD_SOURCES} PROPERTIES COMPILE_OPTIONS -Os)

# Files that read what others wrote (the environment, /proc, tables for unwinding, stacks) or write text
# (docs/decisions/0022).
set(HAK_GUARDED_SOURCES ${HAK_CORE_SOURCES})
list(FILTER HAK_GUARDED_SOURCES INCLUDE REGEX
     "/src/(policy|observe|os|sample|stack)/|/src/api/(totals|atexit|statistics|json|shared|directory|blackbox|box_files|box_parts)\\.c")
set_property(SOURCE ${HAK_GUARDED_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -fstack-protector-strong)

add_library(hakmem_core OBJECT ${HAK_CORE_SOURCES} ${HAK_HEADERS})
hak_set_library_flags(hakmem_core ${HAK_CHECKED})
target_include_directories(hakmem_core PRIVATE include src)

function(hak_set_interface target)
  target_include_directories(
    ${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                     $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# libhakmem-api.so: hak_* only, for programs that keep another malloc.
add_library(hakmem_api SHARED $<TARGET_OBJECTS:hakmem_core>)
set_target_properties(hakmem_api PROPERTIES OUTPUT_NAME hakmem-api EXPORT_NAME api LINKER_LANGUAGE C)
hak_set_shared_flags(hakmem_api hakmem-api)
hak_set_interface(hakmem_api)
add_library(hakmem::api ALIAS hakmem_api)

# A sanitizer's run-time library owns malloc: no overriding form there.
if(NOT HAK_SANITIZED)
  add_library(hakmem_override OBJECT ${HAK_OVERRIDE_SOURCES})
  hak_set_library_flags(hakmem_override ${HAK_CHECKED})
  target_include_directories(hakmem_override PRIVATE include src)

  # libhakmem.so: replaces malloc and operator new, preloaded or linked.
  set_source_files_properties(${HAK_PRELOAD_SOURCES} PROPERTIES COMPILE_OPTIONS "-Os;-fstack-protector-strong")
  add_library(hakmem_preload OBJECT ${HAK_PRELOAD_SOURCES})
  hak_set_library_flags(hakmem_preload ${HAK_CHECKED})
  target_include_directories(hakmem_preload PRIVATE include src)
  add_library(hakmem SHARED $<TARGET_OBJECTS:hakmem_core> $<TARGET_OBJECTS:hakmem_override>
                            $<TARGET_OBJECTS:hakmem_preload>)
  set_target_properties(hakmem PROPERTIES LINKER_LANGUAGE C)
  hak_set_shared_flags(hakmem hakmem)
  if(HAK_LOAD_SEGMENT)
    target_link_options(hakmem PRIVATE LINKER:-T,${HAK_LOAD_SCRIPT})
    set_property(TARGET hakmem APPEND PROPERTY LINK_DEPENDS ${HAK_LOAD_SCRIPT})
  endif()
  hak_set_interface(hakmem)
  # A program that allocates only through libc's functions names no symbol of the library, and a linker
  # that is told --as-needed would leave it out. One item, so that CMake keeps the three in this order. What
  # starts with a dash it does not quote: the path, which may hold spaces, brings its quotes.
  target_link_libraries(
    hakmem
    INTERFACE
      "-Wl,--push-state,--no-as-needed \"$<TARGET_FILE:$<TARGET_NAME:hakmem>>\" -Wl,--pop-state")
  add_library(hakmem::hakmem ALIAS hakmem)

  # D: no times and owners in the archive, also where that is not binutils' default.
  set(CMAKE_C_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_C_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")

  # libhakmem.a holds one object. So a program that calls only some of the family still gets all of it
  # from here, never half from libc; and internal names are local, so that they cannot clash with the
  # program's. glibc's second names are glibc's there, which a static program has, too. The operators are weak: a program
  # may bring its own. Its code is one section, whose bounds the linker knows: stacks of samples begin at the caller of
  # malloc (src/stack/stack.c).
  set(merged ${PROJECT_BINARY_DIR}/hakmem-merged.o)
  set(merge_script)
  if(HAK_LOAD_SEGMENT) # else functions have no sections of their own (cmake/flags.cmake)
    set(merge_script -Wl,-T,${HAK_MERGE_SCRIPT})
  endif()
  add_custom_command(
    OUTPUT ${merged}
    # Groups are dissolved: the personality pointer of nothrow.cc is made local below, and a local
    # symbol in a group that the program has too would lose its definition.
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -Wl,--force-group-allocation ${merge_script} -o ${merged} $<TARGET_OBJECTS:hakmem_core>
            $<TARGET_OBJECTS:hakmem_override>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --localize-symbol=__libc_* --weaken-symbol=_Zn* --weaken-symbol=_Zd*
            --rename-section .text=hakmem_text --rename-section .text.unlikely=hakmem_text
            --rename-section .text.startup=hakmem_text --rename-section .text.exit=hakmem_text
            --rename-section .text.hot=hakmem_text ${merged}
    DEPENDS $<TARGET_OBJECTS:hakmem_core> $<TARGET_OBJECTS:hakmem_override> ${HAK_MERGE_SCRIPT}
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Merging the objects of libhakmem.a")
  add_library(hakmem_static STATIC ${merged})
  add_dependencies(hakmem_static hakmem_core hakmem_override) # for make, to which the objects are files of others
  set_source_files_properties(${merged} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set_target_properties(hakmem_static PROPERTIES OUTPUT_NAME hakmem EXPORT_NAME static
                                                 LINKER_LANGUAGE C)
  hak_set_interface(hakmem_static)
  target_link_options(hakmem_static INTERFACE -Wl,--undefined=malloc) # for the same reason
  add_library(hakmem::static ALIAS hakmem_static)
endif()

# libhakmem-copies.so: memcpy and its family with a look at the blocks (docs/decisions/0028), for who preloads it beside libhakmem.so.
if(HAK_VARIANT STREQUAL "hardened")
  set(copies ${PROJECT_SOURCE_DIR}/src/copies/copies.c ${PROJECT_SOURCE_DIR}/src/copies/real.c)
  # These functions must not be made of calls of themselves. (What is asked about an address does not read what is there.)
  set(options -fno-builtin -U_FORTIFY_SOURCE)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    list(APPEND options -fno-tree-loop-distribute-patterns -Wno-maybe-uninitialized)
  endif()
  set_source_files_properties(${copies} PROPERTIES COMPILE_OPTIONS "${options}")
  add_library(hakmem_copies SHARED ${copies} ${PROJECT_SOURCE_DIR}/src/observe/report.c
                                   ${PROJECT_SOURCE_DIR}/src/os/message.c)
  hak_set_library_flags(hakmem_copies OFF)
  target_include_directories(hakmem_copies PRIVATE include src)
  set_target_properties(hakmem_copies PROPERTIES OUTPUT_NAME hakmem-copies)
  hak_set_shared_flags(hakmem_copies hakmem-copies)
  target_link_libraries(hakmem_copies PRIVATE ${CMAKE_DL_LIBS})
endif()

# What the tests link: everything but the override, with assertions and fault injection.
# Where the library itself is checked, its objects are these.
if(HAK_CHECKED)
  add_library(hakmem_test_lib STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:hakmem_core>)
  set_target_properties(hakmem_test_lib PROPERTIES LINKER_LANGUAGE C)
else()
  add_library(hakmem_test_lib STATIC EXCLUDE_FROM_ALL ${HAK_CORE_SOURCES} ${HAK_HEADERS})
endif()
hak_set_library_flags(hakmem_test_lib ON)
target_include_directories(hakmem_test_lib PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                  ${PROJECT_SOURCE_DIR}/src)
set_target_properties(hakmem_test_lib PROPERTIES OUTPUT_NAME hakmem-test)
add_library(hakmem::test ALIAS hakmem_test_lib)
