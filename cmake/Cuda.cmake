# CUDA, only in the preset `cuda`: Hopper code (sm_90a) wherever nvcc 12.8 or newer is found.
include_guard()

find_program(K3_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT K3_NVCC)
  message(FATAL_ERROR "K3_CUDA=ON needs nvcc 12.8 or newer, and none was found on PATH, in "
    "CUDA_HOME or in /usr/local/cuda. Every other preset builds without CUDA.")
endif()
execute_process(COMMAND ${K3_NVCC} --version OUTPUT_VARIABLE k3_nvcc_says)
string(REGEX MATCH "release ([0-9.]+)" k3_nvcc_release "${k3_nvcc_says}")
set(k3_nvcc_version ${CMAKE_MATCH_1})
if(NOT k3_nvcc_version OR k3_nvcc_version VERSION_LESS 12.8)
  message(FATAL_ERROR "K3_CUDA=ON needs nvcc 12.8 or newer; ${K3_NVCC} is '${k3_nvcc_version}'.")
endif()

set(CMAKE_CUDA_COMPILER ${K3_NVCC})
set(CMAKE_CUDA_ARCHITECTURES 90a)
enable_language(CUDA)
# By hand: CMake 3.25 does not know that nvcc speaks C++20.
string(APPEND CMAKE_CUDA_FLAGS " -std=c++20")
find_package(CUDAToolkit 12.8 REQUIRED)
