# Compiler and linker flags: warnings for everything, sanitizers by variant, and the set that the
# library itself is built with (hak_set_library_flags).

add_compile_options(
  -Wall -Wextra -Wshadow -Wpointer-arith -Wcast-align -Wundef -Wvla -Wwrite-strings
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wold-style-definition>)
if(HAK_WERROR)
  add_compile_options(-Werror)
endif()

# `make CC=clang` and friends: colours also when Ninja reads the output.
if(CMAKE_GENERATOR STREQUAL "Ninja")
  add_compile_options(-fdiagnostics-color=auto)
endif()

# gcc has the sized operator delete by default, clang before 19 does not.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fsized-deallocation>)

# gcc says by these names which sanitizer there is, clang before 22 by __has_feature alone.
set(HAK_SANITIZED OFF)
if(HAK_VARIANT STREQUAL "asan")
  set(HAK_SANITIZED ON)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      $<$<COMPILE_LANG_AND_ID:C,Clang>:-D__SANITIZE_ADDRESS__=1>
                      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-D__SANITIZE_ADDRESS__=1>)
  add_link_options(-fsanitize=address,undefined)
elseif(HAK_VARIANT STREQUAL "tsan")
  set(HAK_SANITIZED ON)
  add_compile_options(-fsanitize=thread
                      $<$<COMPILE_LANG_AND_ID:C,Clang>:-D__SANITIZE_THREAD__=1>
                      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-D__SANITIZE_THREAD__=1>)
  add_link_options(-fsanitize=thread)
endif()

# What the sources see of the variant.
set(HAK_VARIANT_DEFINITIONS HAK_VARIANT_NAME="${HAK_VARIANT}")
if(HAK_VARIANT STREQUAL "fast")
  list(APPEND HAK_VARIANT_DEFINITIONS HAK_FAST=1)
elseif(HAK_VARIANT STREQUAL "observe")
  list(APPEND HAK_VARIANT_DEFINITIONS HAK_OBSERVE=1)
elseif(HAK_VARIANT STREQUAL "hardened")
  list(APPEND HAK_VARIANT_DEFINITIONS HAK_HARDENED=1)
endif()
set(HAK_CHECKED OFF)
if(HAK_VARIANT STREQUAL "check" OR HAK_SANITIZED)
  set(HAK_CHECKED ON)
endif()

# The compiler knows these functions and would, for example, turn malloc + memset inside calloc into
# a call of calloc.
set(HAK_NO_BUILTIN)
foreach(
  name
  malloc calloc realloc reallocarray free aligned_alloc memalign posix_memalign valloc pvalloc)
  list(APPEND HAK_NO_BUILTIN -fno-builtin-${name})
endforeach()

# Static probes for tracers. The header only makes notes in the file; nothing of it is needed where the library runs.
include(CheckIncludeFile)
check_include_file(sys/sdt.h HAK_HAVE_SDT_H)
if(HAK_HAVE_SDT_H)
  list(APPEND HAK_VARIANT_DEFINITIONS HAK_PROBES=1)
else()
  message(STATUS "no sys/sdt.h: the library is built without probes for tracers")
endif()

# hak_set_reproducible(target): no path of this machine in debug information and messages. Both folders become
# `.`, so that the bytes do not depend on where the tree and the build are. gdb finds the sources when it is
# started in the tree, or by `set substitute-path . TREE`.
function(hak_set_reproducible target)
  target_compile_options(${target} PRIVATE -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
                                           -ffile-prefix-map=${CMAKE_BINARY_DIR}=.)
endfunction()

# What processors check of calls and returns (docs/decisions/0022). Said in full, since distributions have
# different defaults. HAK_CONTROL_FLOW is the library's, HAK_CONTROL_FLOW_TOOL the tool's.
set(HAK_CONTROL_FLOW)
set(HAK_CONTROL_FLOW_TOOL)
set(HAK_CONTROL_FLOW_LINK)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  # Landing pads are one instruction more in malloc and one in free, which would break the bar of 38.
  set(HAK_CONTROL_FLOW -fcf-protection=return)
  if(HAK_VARIANT STREQUAL "hardened")
    set(HAK_CONTROL_FLOW -fcf-protection=full)
  endif()
  set(HAK_CONTROL_FLOW_TOOL -fcf-protection=full)
  # Debian's crti.o lacks the mark, with which the whole file would lose it. Its code is compatible.
  set(HAK_CONTROL_FLOW_LINK -Wl,-z,shstk)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(HAK_CONTROL_FLOW -mbranch-protection=standard)
  set(HAK_CONTROL_FLOW_TOOL -mbranch-protection=standard)
endif()

# Tables by which stacks are walked, of samples too. Compilers make them for C unasked on the other machines.
set(HAK_TABLES)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "riscv64")
  set(HAK_TABLES -fasynchronous-unwind-tables)
endif()

# A word between a function's arrays and its return address that is compared before it returns. Everywhere it
# would cost calloc and blocks of 8 to 32 KiB 4% of their instructions; so it is in the files that read what others
# wrote (cmake/library.cmake), and everywhere in the hardened variant only.
set(HAK_STACK_PROTECTOR -fno-stack-protector)
if(HAK_VARIANT STREQUAL "hardened")
  set(HAK_STACK_PROTECTOR -fstack-protector-strong)
endif()

# hak_set_tool_flags(target): what a program gets that reads files and processes which others wrote.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
function(hak_set_tool_flags target)
  hak_set_reproducible(${target})
  target_compile_options(${target} PRIVATE -fstack-protector-strong ${HAK_CONTROL_FLOW_TOOL})
  # Needs optimisation. Some distributions define it already.
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(${target} PRIVATE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    target_link_options(
      ${target} PRIVATE -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack ${HAK_CONTROL_FLOW_LINK})
  endif()
endfunction()

# checked: with assertions and fault injection, whatever the variant.
function(hak_set_library_flags target checked)
  target_compile_options(
    ${target}
    PRIVATE -fvisibility=hidden
            -fno-semantic-interposition
            -fno-plt
            # One load from the thread pointer instead of a call of __tls_get_addr, which may allocate.
            -ftls-model=initial-exec
            ${HAK_STACK_PROTECTOR}
            ${HAK_CONTROL_FLOW}
            ${HAK_TABLES}
            ${HAK_NO_BUILTIN})
  hak_set_reproducible(${target})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(HAK_LOAD_SEGMENT)
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
  endif()
  if(checked)
    target_compile_options(${target} PRIVATE -fno-omit-frame-pointer)
    target_compile_definitions(${target} PUBLIC HAK_ASSERT=1 HAK_FAULT_INJECTION=1)
  else()
    target_compile_definitions(${target} PRIVATE NDEBUG)
  endif()
  target_compile_definitions(${target} PUBLIC ${HAK_VARIANT_DEFINITIONS})
endfunction()

# Code that runs at load gets a segment of its own (docs/decisions/0027): by GNU's linker, since others begin none where a page is left out;
# on x86-64, since elsewhere that page may be one of 64 KiB in the file. The hardened build has its code in segments of its own already.
set(HAK_LOAD_SEGMENT OFF)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT HAK_VARIANT STREQUAL "hardened" AND NOT HAK_SANITIZED)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_SHARED_LINKER_FLAGS}")
  execute_process(COMMAND ${CMAKE_C_COMPILER} ${flags} -Wl,--version
                  OUTPUT_VARIABLE linker ERROR_QUIET)
  if(linker MATCHES "GNU ld")
    set(HAK_LOAD_SEGMENT ON)
  endif()
endif()

# The linker script of libhakmem.so: cmake/layout.ld.in with the functions that two lists name. Names that are no function's any more do no harm;
# fault.start-budget says when the lists are to be made anew (scripts/list_functions.py).
function(hak_read_functions variable name)
  set(list ${PROJECT_SOURCE_DIR}/cmake/${name}.list)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} functions)
  list(TRANSFORM functions REPLACE "(.+)" "*(.text.\\1 .text.\\1.* .text.unlikely.\\1)")
  list(JOIN functions "\n    " functions)
  set(${variable} "${functions}" PARENT_SCOPE)
endfunction()
if(HAK_LOAD_SEGMENT)
  set(HAK_LOAD_SCRIPT ${PROJECT_BINARY_DIR}/layout.ld)
  hak_read_functions(HAK_FIRST_FUNCTIONS first_functions)
  hak_read_functions(HAK_NEXT_FUNCTIONS next_functions)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/layout.ld.in ${HAK_LOAD_SCRIPT} @ONLY)
  set(HAK_MERGE_SCRIPT ${PROJECT_BINARY_DIR}/merged.ld)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/merged.ld.in ${HAK_MERGE_SCRIPT} @ONLY)
endif()

# exports: a version script of cmake/, without extension.
function(hak_set_shared_flags target exports)
  set(map ${PROJECT_SOURCE_DIR}/cmake/${exports}.map)
  if(HAK_CHECKED)
    # The controls of the fault injection exist in these variants only.
    file(READ ${map} text)
    string(REPLACE "    hak_*;" "    hak_*;\n    os_fault_*;" text "${text}")
    set(map ${PROJECT_BINARY_DIR}/${exports}.map)
    file(CONFIGURE OUTPUT ${map} CONTENT "${text}" @ONLY)
  endif()
  target_link_options(
    ${target}
    PRIVATE -Wl,--version-script,${map}
            -Wl,-Bsymbolic-functions
            $<$<STREQUAL:${exports},hakmem>:-Wl,--dynamic-list,${PROJECT_SOURCE_DIR}/cmake/replaced.list>
            # Lazy binding would resolve symbols inside malloc.
            -Wl,-z,now
            -Wl,-z,relro
            -Wl,-z,noexecstack
            # With clang, CMake names libstdc++ and libm behind it, of which nothing is used.
            -Wl,--as-needed
            ${HAK_CONTROL_FLOW_LINK}
            # Unloading the allocator would take every live block's owner away.
            -Wl,-z,nodelete
            -Wl,--hash-style=gnu
            -Wl,-O1
            # No DT_FINI: there is no such function, and libc's empty one lies behind all other code (HAK_AT_LOAD).
            -Wl,-fini=hak_has_no_such_function)
  if(NOT HAK_VARIANT STREQUAL "hardened")
    # Two segments less to map, 2 system calls less at the start of every program. The
    # price, constants in executable pages, is not for the hardened build.
    target_link_options(${target} PRIVATE -Wl,-z,noseparate-code)
  endif()
  if(NOT HAK_SANITIZED)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(
    ${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                         LINK_DEPENDS ${map})
endfunction()
