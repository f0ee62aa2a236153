/* hakmem/memory_resource.hpp - hakmem::memory_resource, for std::pmr; C++17 and later. */
#ifndef HAKMEM_MEMORY_RESOURCE_HPP
#define HAKMEM_MEMORY_RESOURCE_HPP

#include "memory.hpp"

#ifndef HAKMEM_HAS_MEMORY_RESOURCE
#error "hakmem/memory_resource.hpp needs C++17 and a standard library with <memory_resource>"
#endif

#endif
