# Faster tools where the machine has them; nothing here changes what is built.
include_guard()

find_program(K3_CCACHE ccache)
if(K3_CCACHE)
  # What ccache wants to be told before it keeps units with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${K3_CCACHE})
endif()
find_program(K3_LLD ld.lld)
if(K3_LLD)
  add_link_options(-fuse-ld=lld)
endif()
