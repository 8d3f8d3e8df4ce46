# gpufs_add_program(NAME SOURCE.c… [DEVICE cuda|amd|cpu] [ARCH sm_90] [OPTIONS -DX=1 …])
#
# Builds a C program whose main runs on a GPU: NAME.cubin (DEVICE cuda, the default), NAME.hsaco (amd) or, for CPU lanes, NAME (cpu), in the
# build folder. 'gpufs run NAME.cubin -- arguments' runs it. The target NAME has its path in the property GPUFS_PROGRAM. Include directories and
# definitions go into OPTIONS.
function(gpufs_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "DEVICE;ARCH" "OPTIONS")
  if(NOT program_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gpufs_add_program(${name}): no source is named")
  endif()
  if(NOT program_DEVICE)
    set(program_DEVICE cuda)
  endif()
  if(program_DEVICE STREQUAL "cuda")
    set(ending ".cubin")
  elseif(program_DEVICE STREQUAL "amd")
    set(ending ".hsaco")
  elseif(program_DEVICE STREQUAL "cpu")
    set(ending "")
  else()
    message(FATAL_ERROR "gpufs_add_program(${name}): DEVICE is cuda, amd or cpu, not ${program_DEVICE}")
  endif()
  cmake_path(ABSOLUTE_PATH CMAKE_CURRENT_FUNCTION_LIST_DIR OUTPUT_VARIABLE here)
  cmake_path(SET gpufs_prefix NORMALIZE "${here}/../../..")
  find_program(GPUFS_COMMAND gpufs HINTS "${gpufs_prefix}/bin" NO_DEFAULT_PATH)
  if(NOT GPUFS_COMMAND)
    message(FATAL_ERROR "gpufs_add_program(${name}): ${gpufs_prefix}/bin/gpufs is not there: 'cargo xtask dist' makes it")
  endif()
  set(sources "")
  foreach(source IN LISTS program_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    list(APPEND sources "${source}")
  endforeach()
  set(arch "")
  if(program_ARCH)
    set(arch --arch "${program_ARCH}")
  endif()
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${name}${ending}")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" -E env "GPUFS_PREFIX=${gpufs_prefix}"
      "${GPUFS_COMMAND}" build --device "${program_DEVICE}" ${arch} ${program_OPTIONS} ${sources} -o "${output}"
    DEPENDS ${sources}
    COMMENT "gpufs build ${name}${ending}"
    VERBATIM)
  add_custom_target("${name}" ALL DEPENDS "${output}")
  set_target_properties("${name}" PROPERTIES GPUFS_PROGRAM "${output}")
endfunction()
