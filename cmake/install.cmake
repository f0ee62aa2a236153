# What `make install` puts where. Everything is relative, so that the installed tree can be moved.
include(CMakePackageConfigHelpers)

# One prefix holds several variants: lib/ has the standard one, lib/hakmem/VARIANT each other one, where `hakmem run --variant`
# looks. Of these the libraries alone: command, header, pages and files for pkg-config and CMake are those of the standard one.
if(HAK_VARIANT STREQUAL "standard")
  set(HAK_BESIDE_DEFAULT OFF)
else()
  set(HAK_BESIDE_DEFAULT ON)
endif()
option(HAK_INSTALL_BESIDE "Install the libraries alone, in lib/hakmem/VARIANT, beside the standard ones" ${HAK_BESIDE_DEFAULT})

if(TARGET hakmem AND HAK_INSTALL_BESIDE)
  set(beside ${CMAKE_INSTALL_LIBDIR}/hakmem/${HAK_VARIANT})
  foreach(library hakmem hakmem_static hakmem_api hakmem_copies)
    if(TARGET ${library})
      install(TARGETS ${library} LIBRARY DESTINATION ${beside} ARCHIVE DESTINATION ${beside})
    endif()
  endforeach()
elseif(TARGET hakmem)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hakmem)

  install(
    TARGETS hakmem hakmem_static hakmem_api
    EXPORT hakmem-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(TARGET hakmem_copies) # preloaded by its name, linked by nobody
    install(TARGETS hakmem_copies LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
  install(FILES include/hakmem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(DIRECTORY include/hakmem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

  install(
    EXPORT hakmem-targets
    NAMESPACE hakmem::
    DESTINATION ${package_dir})
  configure_package_config_file(cmake/hakmem-config.cmake.in hakmem-config.cmake
                                INSTALL_DESTINATION ${package_dir})
  # Before 1.0 a minor version may break the interface.
  write_basic_package_version_file(hakmem-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/hakmem-config.cmake
                ${PROJECT_BINARY_DIR}/hakmem-config-version.cmake DESTINATION ${package_dir})

  # The way back from lib/pkgconfig to the prefix, by which the file finds its own tree.
  file(RELATIVE_PATH HAK_PC_TO_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
  string(REGEX REPLACE "/$" "" HAK_PC_TO_PREFIX "${HAK_PC_TO_PREFIX}")
  configure_file(cmake/hakmem.pc.in hakmem.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/hakmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

  # Manual pages: written for scdoc, or ready-made.
  file(GLOB man_sources CONFIGURE_DEPENDS docs/man/*.scd)
  file(GLOB man_pages CONFIGURE_DEPENDS docs/man/*.[135])
  if(man_sources)
    find_program(SCDOC scdoc)
    if(SCDOC)
      file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
      set(built_pages)
      foreach(source IN LISTS man_sources)
        get_filename_component(name ${source} NAME_WLE) # hakmem.1.scd -> hakmem.1
        set(page ${PROJECT_BINARY_DIR}/man/${name})
        add_custom_command(
          OUTPUT ${page}
          COMMAND sh -c [["$0" <"$1" >"$2"]] ${SCDOC} ${source} ${page} # the paths may hold spaces
          DEPENDS ${source}
          VERBATIM)
        list(APPEND built_pages ${page})
      endforeach()
      add_custom_target(man ALL DEPENDS ${built_pages})
      list(APPEND man_pages ${built_pages})
    else()
      message(STATUS "scdoc not found: manual pages are not built")
    endif()
  endif()
  foreach(page IN LISTS man_pages)
    string(REGEX MATCH "[135]$" section ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endforeach()
endif()
