# find_package(gpufs): the targets
#
#   gpufs::host          libgpufs, shared, and the headers
#   gpufs::host_static   libgpufs, static
#   gpufs::device_cuda   the device calls for CUDA kernels, where the project has enabled CUDA; assembled here by the project's own nvcc
#   gpufs::device_hip    the device calls for HIP kernels, where the project has enabled HIP
#
# Kernels that call into another file are compiled as relocatable device code, so finding gpufs sets CMAKE_CUDA_SEPARABLE_COMPILATION for
# targets made afterwards.
#
# GPUFS_CUDA_REGISTERS is how many registers a thread gets inside a call. A kernel that calls gpufs takes as many at least, and 64 leave room for
# blocks of 1,024 threads.

get_filename_component(gpufs_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)

if(NOT TARGET gpufs::host)
  add_library(gpufs::host SHARED IMPORTED)
  set_target_properties(gpufs::host PROPERTIES
    IMPORTED_LOCATION "${gpufs_prefix}/lib/libgpufs.so"
    IMPORTED_SONAME libgpufs.so
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

if(CMAKE_CUDA_COMPILER AND EXISTS "${gpufs_prefix}/lib/gpufs/gpufs.ptx")
  set(CMAKE_CUDA_SEPARABLE_COMPILATION ON)
  if(NOT TARGET gpufs::device_cuda)
    set(gpufs_ptx "${gpufs_prefix}/lib/gpufs/gpufs.ptx")
    set(gpufs_architectures "${CMAKE_CUDA_ARCHITECTURES}")
    if(NOT gpufs_architectures MATCHES "^[0-9]")
      # "native", "all" and none at all: nvcc knows what they mean.
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
    if(NOT EXISTS "${gpufs_archive}" OR "${gpufs_ptx}" IS_NEWER_THAN "${gpufs_archive}")
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

if(CMAKE_HIP_COMPILER)
  list(LENGTH CMAKE_HIP_ARCHITECTURES gpufs_count)
  set(gpufs_bitcode "${gpufs_prefix}/lib/gpufs/gpufs-${CMAKE_HIP_ARCHITECTURES}.bc")
  if(gpufs_count EQUAL 1 AND EXISTS "${gpufs_bitcode}")
    if(NOT TARGET gpufs::device_hip)
      add_library(gpufs::device_hip INTERFACE IMPORTED)
      set_target_properties(gpufs::device_hip PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${gpufs_prefix}/include")
      target_compile_options(gpufs::device_hip INTERFACE
        "$<$<COMPILE_LANGUAGE:HIP>:SHELL:-Xclang -mlink-builtin-bitcode -Xclang ${gpufs_bitcode}>")
      if(CMAKE_HIP_ARCHITECTURES MATCHES "^gfx11")
        # LLVM 22's default selector leaves pseudo instructions of gfx11 unexpanded in this code.
        target_compile_options(gpufs::device_hip INTERFACE
          "$<$<COMPILE_LANGUAGE:HIP>:SHELL:-mllvm -global-isel=1 -mllvm -global-isel-abort=2>")
      endif()
    endif()
    set(gpufs_device_hip_FOUND TRUE)
  elseif(gpufs_FIND_REQUIRED_device_hip OR NOT gpufs_FIND_QUIETLY)
    message(STATUS "gpufs: no gpufs::device_hip: CMAKE_HIP_ARCHITECTURES is '${CMAKE_HIP_ARCHITECTURES}', and it takes one architecture for which "
      "${gpufs_prefix}/lib/gpufs has bitcode")
  endif()
endif()

foreach(gpufs_component IN LISTS gpufs_FIND_COMPONENTS)
  if(gpufs_FIND_REQUIRED_${gpufs_component} AND NOT TARGET gpufs::${gpufs_component})
    set(gpufs_FOUND FALSE)
    set(gpufs_NOT_FOUND_MESSAGE "gpufs has no ${gpufs_component} here: is the language enabled (project(... LANGUAGES CXX CUDA))?")
  endif()
endforeach()
