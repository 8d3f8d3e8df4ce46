# find_package(gpufs 0.1): the targets. (gpufs-config-version.cmake has the rule for versions: before 1.0 the minor version must be equal.)
#
#   gpufs::host          libgpufs, shared, and the headers
#   gpufs::host_static   libgpufs, static
#   gpufs::device_cuda   the device calls for CUDA kernels, if the project has enabled CUDA; the project's own nvcc assembles them
#   gpufs::hip           everything that a HIP program needs, for the component hip: gpufs::host_hip and gpufs::device_hip.
#                        With GPUFS_HIP_PLATFORM=nvidia it is HIP on CUDA: gpufs::host and gpufs::device_cuda
#   gpufs::host_hip      libgpufs_hip and libamdhip64
#   gpufs::device_hip    the device calls for HIP kernels, for one AMD GPU, GPUFS_HIP_ARCHITECTURE
#
# gpufs_add_program(NAME SOURCE.c…) builds a C program whose own main runs on a GPU: gpufs-program.cmake describes it.
#
# Kernels that call into another file must be relocatable device code. Therefore finding gpufs sets CMAKE_CUDA_SEPARABLE_COMPILATION, which
# applies to targets made afterwards.
#
# GPUFS_CUDA_REGISTERS is the number of registers of a thread inside a call. A kernel that calls gpufs uses at least as many. 64 leave room
# for blocks of 1,024 threads.

get_filename_component(gpufs_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
include("${CMAKE_CURRENT_LIST_DIR}/gpufs-program.cmake")
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)

if(NOT TARGET gpufs::host)
  add_library(gpufs::host SHARED IMPORTED)
  set_target_properties(gpufs::host PROPERTIES
    IMPORTED_LOCATION "${gpufs_prefix}/lib/libgpufs.so"
    IMPORTED_SONAME libgpufs.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${gpufs_prefix}/include")
  add_library(gpufs::host_static STATIC IMPORTED)
  set_target_properties(gpufs::host_static PROPERTIES
    IMPORTED_LOCATION "${gpufs_prefix}/lib/libgpufs.a"
    INTERFACE_INCLUDE_DIRECTORIES "${gpufs_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()

set(GPUFS_CUDA_REGISTERS 64 CACHE STRING "Registers of a thread inside a device call of gpufs")
set(gpufs_device_cuda_FOUND FALSE)
set(gpufs_device_hip_FOUND FALSE)
set(gpufs_hip_FOUND FALSE)
set(gpufs_hip_missing "")

if(CMAKE_CUDA_COMPILER AND EXISTS "${gpufs_prefix}/lib/gpufs/gpufs.ptx")
  set(CMAKE_CUDA_SEPARABLE_COMPILATION ON)
  if(NOT TARGET gpufs::device_cuda)
    set(gpufs_ptx "${gpufs_prefix}/lib/gpufs/gpufs.ptx")
    set(gpufs_architectures "${CMAKE_CUDA_ARCHITECTURES}")
    if(NOT gpufs_architectures MATCHES "^[0-9]")
      # "native", "all", and an empty list have a meaning to nvcc.
      if(gpufs_architectures)
        set(gpufs_flags "-arch=${gpufs_architectures}")
      else()
        set(gpufs_flags "")
      endif()
    else()
      set(gpufs_flags "")
      foreach(gpufs_architecture IN LISTS gpufs_architectures)
        string(REGEX REPLACE "-(real|virtual)$" "" gpufs_architecture "${gpufs_architecture}")
        list(APPEND gpufs_flags "-gencode=arch=compute_${gpufs_architecture},code=sm_${gpufs_architecture}")
      endforeach()
    endif()
    string(MD5 gpufs_key "${gpufs_architectures} ${GPUFS_CUDA_REGISTERS} ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}")
    set(gpufs_folder "${CMAKE_BINARY_DIR}/gpufs/${gpufs_key}")
    set(gpufs_archive "${gpufs_folder}/libgpufs_device_cuda.a")
    # What the prefix has assembled is linked as it is, for one GPU, by a toolkit that is not older than the one that made it.
    set(gpufs_assembled_for "")
    include("${gpufs_prefix}/lib/gpufs/assembled.cmake" OPTIONAL)
    string(REGEX REPLACE "-real$" "" gpufs_architecture "${gpufs_architectures}")
    if(gpufs_architecture IN_LIST gpufs_assembled_for AND GPUFS_CUDA_REGISTERS EQUAL gpufs_assembled_registers
       AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL gpufs_assembled_by)
      set(gpufs_archive "${gpufs_prefix}/lib/gpufs/libgpufs_device_sm_${gpufs_architecture}.a")
    elseif(NOT EXISTS "${gpufs_archive}" OR "${gpufs_ptx}" IS_NEWER_THAN "${gpufs_archive}")
      message(STATUS "gpufs: assembling the device calls for ${gpufs_architectures}")
      file(MAKE_DIRECTORY "${gpufs_folder}")
      set(gpufs_object "${gpufs_folder}/gpufs.o")
      foreach(gpufs_command IN ITEMS dc lib)
        if(gpufs_command STREQUAL "dc")
          set(gpufs_arguments -dc ${gpufs_flags} -maxrregcount=${GPUFS_CUDA_REGISTERS} "${gpufs_ptx}" -o "${gpufs_object}")
        else()
          set(gpufs_arguments -lib "${gpufs_object}" -o "${gpufs_archive}")
        endif()
        execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" ${gpufs_arguments}
          RESULT_VARIABLE gpufs_result OUTPUT_VARIABLE gpufs_said ERROR_VARIABLE gpufs_said)
        if(NOT gpufs_result EQUAL 0)
          set(gpufs_FOUND FALSE)
          set(gpufs_NOT_FOUND_MESSAGE "nvcc could not assemble ${gpufs_ptx}: ${gpufs_said}")
          return()
        endif()
      endforeach()
    endif()
    add_library(gpufs::device_cuda STATIC IMPORTED)
    set_target_properties(gpufs::device_cuda PROPERTIES
      IMPORTED_LOCATION "${gpufs_archive}"
      IMPORTED_LINK_INTERFACE_LANGUAGES CUDA
      INTERFACE_INCLUDE_DIRECTORIES "${gpufs_prefix}/include")
  endif()
  set(gpufs_device_cuda_FOUND TRUE)
endif()

# HIP. GPUFS_HIP_LANGUAGE is the language of its sources: HIP if the project has enabled it (CMake needs a whole ROCm for that); else CXX, with
# flags that tell clang that they are HIP; CUDA for NVIDIA GPUs.
if("hip" IN_LIST gpufs_FIND_COMPONENTS OR "device_hip" IN_LIST gpufs_FIND_COMPONENTS OR CMAKE_HIP_COMPILER)
  set(GPUFS_HIP_PLATFORM amd CACHE STRING "What HIP compiles for: amd or nvidia")
  set(gpufs_hip_hints "$ENV{HIP_PATH}" "$ENV{ROCM_PATH}" /opt/rocm)
  find_path(GPUFS_HIP_INCLUDE hip/hip_runtime.h HINTS ${gpufs_hip_hints} PATH_SUFFIXES include)
  if(NOT GPUFS_HIP_INCLUDE)
    set(gpufs_hip_missing "HIP's headers (hip/hip_runtime.h; Debian: libamdhip64-dev), or GPUFS_HIP_INCLUDE, which says where they are")
  elseif(GPUFS_HIP_PLATFORM STREQUAL "nvidia")
    if(NOT TARGET gpufs::device_cuda)
      set(gpufs_hip_missing "gpufs::device_cuda, for HIP on NVIDIA GPUs: enable_language(CUDA), and lib/gpufs/gpufs.ptx")
    else()
      set(GPUFS_HIP_LANGUAGE CUDA)
      if(NOT TARGET gpufs::hip)
        add_library(gpufs::hip INTERFACE IMPORTED)
        target_link_libraries(gpufs::hip INTERFACE gpufs::host gpufs::device_cuda)
        target_compile_definitions(gpufs::hip INTERFACE __HIP_PLATFORM_NVIDIA__)
        target_include_directories(gpufs::hip INTERFACE "${GPUFS_HIP_INCLUDE}")
        if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
          target_compile_options(gpufs::hip INTERFACE
            "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/hip-on-cuda13.h>")
        endif()
      endif()
    endif()
  else()
    set(GPUFS_HIP_ARCHITECTURE "${CMAKE_HIP_ARCHITECTURES}" CACHE STRING "The AMD GPU that HIP compiles for, one of those in lib/gpufs")
    set(gpufs_bitcode "gpufs-${GPUFS_HIP_ARCHITECTURE}.bc")
    find_library(GPUFS_HIP_LIBRARY amdhip64 HINTS ${gpufs_hip_hints} PATH_SUFFIXES lib)
    if(CMAKE_HIP_COMPILER)
      set(GPUFS_HIP_LANGUAGE HIP)
      set(gpufs_compiler "${CMAKE_HIP_COMPILER}")
    else()
      set(GPUFS_HIP_LANGUAGE CXX)
      set(gpufs_compiler "${CMAKE_CXX_COMPILER}")
    endif()
    if(NOT EXISTS "${gpufs_prefix}/lib/gpufs/${gpufs_bitcode}")
      set(gpufs_hip_missing "GPUFS_HIP_ARCHITECTURE, one architecture for which ${gpufs_prefix}/lib/gpufs has bitcode: it is '${GPUFS_HIP_ARCHITECTURE}'")
    elseif(GPUFS_HIP_LANGUAGE STREQUAL "CXX" AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      set(gpufs_hip_missing "clang as the C++ compiler (CXX=clang++): ${CMAKE_CXX_COMPILER} does not compile HIP")
    elseif(NOT TARGET gpufs::device_hip)
      # --hip-device-lib replaces the libraries that clang links into device code by default, such as ROCm's device library. So name those, too.
      set(gpufs_flags --hip-device-lib=${gpufs_bitcode} "--hip-device-lib-path=${gpufs_prefix}/lib/gpufs")
      execute_process(COMMAND "${gpufs_compiler}" -x hip --offload-arch=${GPUFS_HIP_ARCHITECTURE} --cuda-device-only -c -### /dev/null
        RESULT_VARIABLE gpufs_result OUTPUT_VARIABLE gpufs_said ERROR_VARIABLE gpufs_said)
      if(gpufs_result EQUAL 0)
        string(REGEX MATCHALL "\"-mlink-builtin-bitcode\" \"[^\"]+" gpufs_libraries "${gpufs_said}")
        foreach(gpufs_library IN LISTS gpufs_libraries)
          string(REGEX REPLACE ".*\"" "" gpufs_library "${gpufs_library}")
          get_filename_component(gpufs_folder "${gpufs_library}" DIRECTORY)
          get_filename_component(gpufs_name "${gpufs_library}" NAME)
          list(APPEND gpufs_flags --hip-device-lib=${gpufs_name} "--hip-device-lib-path=${gpufs_folder}")
        endforeach()
      endif()
      if(GPUFS_HIP_ARCHITECTURE MATCHES "^gfx11")
        # LLVM 22's default selector leaves pseudo instructions of gfx11 unexpanded in this code.
        list(APPEND gpufs_flags "SHELL:-Xarch_device -mllvm=-global-isel=1" "SHELL:-Xarch_device -mllvm=-global-isel-abort=2")
        set(gpufs_width 32)
      else()
        set(gpufs_width 64)
      endif()
      if(GPUFS_HIP_LANGUAGE STREQUAL "CXX")
        list(PREPEND gpufs_flags "SHELL:-x hip" --offload-arch=${GPUFS_HIP_ARCHITECTURE})
        file(STRINGS "${GPUFS_HIP_INCLUDE}/hip/hip_version.h" gpufs_version REGEX "define HIP_VERSION_MAJOR")
        if(gpufs_version MATCHES " [1-5]$")
          # These old headers expect the compiler to define it; clang 20 and newer do not.
          list(APPEND gpufs_flags -D__AMDGCN_WAVEFRONT_SIZE=${gpufs_width})
        endif()
      endif()
      if(NOT "${CMAKE_${GPUFS_HIP_LANGUAGE}_FLAGS}" MATCHES "-O[1-9sgz]")
        # Device code that is not optimized does not link: each program keeps the functions of ROCm's library that HIP's assert calls, and kernels
        # need more stack than a GPU has. Therefore optimize device code in builds without a type and in Debug builds. Host code is not affected.
        list(APPEND gpufs_flags "$<$<OR:$<CONFIG:>,$<CONFIG:Debug>>:SHELL:-Xarch_device -O1>")
      endif()
      add_library(gpufs::device_hip INTERFACE IMPORTED)
      set_target_properties(gpufs::device_hip PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${gpufs_prefix}/include")
      target_include_directories(gpufs::device_hip INTERFACE "${GPUFS_HIP_INCLUDE}")
      target_compile_definitions(gpufs::device_hip INTERFACE __HIP_PLATFORM_AMD__)
      foreach(gpufs_flag IN LISTS gpufs_flags)
        target_compile_options(gpufs::device_hip INTERFACE "$<$<COMPILE_LANGUAGE:${GPUFS_HIP_LANGUAGE}>:${gpufs_flag}>")
      endforeach()
    endif()
    if(TARGET gpufs::device_hip AND NOT TARGET gpufs::hip)
      if(GPUFS_HIP_LIBRARY AND EXISTS "${gpufs_prefix}/lib/libgpufs_hip.so")
        add_library(gpufs::host_hip SHARED IMPORTED)
        set_target_properties(gpufs::host_hip PROPERTIES
          IMPORTED_LOCATION "${gpufs_prefix}/lib/libgpufs_hip.so"
          IMPORTED_SONAME libgpufs_hip.so.0
          INTERFACE_INCLUDE_DIRECTORIES "${gpufs_prefix}/include"
          INTERFACE_LINK_LIBRARIES "${GPUFS_HIP_LIBRARY}")
        add_library(gpufs::hip INTERFACE IMPORTED)
        target_link_libraries(gpufs::hip INTERFACE gpufs::host_hip gpufs::device_hip)
      else()
        set(gpufs_hip_missing "libamdhip64 (Debian: libamdhip64-dev) and lib/libgpufs_hip.so, which 'cargo xtask dist DIR hip' makes")
      endif()
    endif()
  endif()
  if(TARGET gpufs::device_hip)
    set(gpufs_device_hip_FOUND TRUE)
  endif()
  if(TARGET gpufs::hip)
    set(gpufs_hip_FOUND TRUE)
  elseif(NOT gpufs_FIND_QUIETLY)
    message(STATUS "gpufs: no gpufs::hip, which needs ${gpufs_hip_missing}")
  endif()
endif()

foreach(gpufs_component IN LISTS gpufs_FIND_COMPONENTS)
  if(gpufs_FIND_REQUIRED_${gpufs_component} AND NOT TARGET gpufs::${gpufs_component})
    set(gpufs_FOUND FALSE)
    if(gpufs_component MATCHES "hip$")
      set(gpufs_NOT_FOUND_MESSAGE "gpufs::${gpufs_component} needs ${gpufs_hip_missing}")
    else()
      set(gpufs_NOT_FOUND_MESSAGE "there is no gpufs::${gpufs_component} here: does the project enable its language (project(... LANGUAGES CXX CUDA))?")
    endif()
  endif()
endforeach()
