# Compiles through ccache where it is installed, unless a launcher is named already. The variants have the
# greater part of the tests' and the tool's objects in common: 117 of check's 165 come from standard's. Only
# within one tree, because what is not built reproducibly (cmake/flags.cmake) names its folder.
if(NOT DEFINED CMAKE_C_COMPILER_LAUNCHER)
  find_program(HAK_CCACHE ccache)
  find_program(HAK_ENV env)
  mark_as_advanced(HAK_CCACHE HAK_ENV)
  if(HAK_CCACHE AND HAK_ENV)
    cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH HAK_CCACHE_TREE)
    foreach(language C CXX)
      set(CMAKE_${language}_COMPILER_LAUNCHER
          # No base folder: ccache would hand relative paths to the compiler, which -ffile-prefix-map does not know.
          # Not by `cmake -E env`, which starts all of cmake for each file.
          ${HAK_ENV} CCACHE_BASEDIR= CCACHE_NAMESPACE=${HAK_CCACHE_TREE} CCACHE_NOHASHDIR=1 ${HAK_CCACHE})
    endforeach()
  endif()
endif()
