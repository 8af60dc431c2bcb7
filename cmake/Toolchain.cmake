# Faster tools where the machine has them; nothing here changes what is built.
include_guard()

find_program(K3_CCACHE ccache)
if(K3_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${K3_CCACHE})
endif()
find_program(K3_LLD ld.lld)
if(K3_LLD)
  add_link_options(-fuse-ld=lld)
endif()
