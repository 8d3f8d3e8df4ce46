#!/bin/sh
# build.sh PREFIX CUDA OUTPUT [ARCHITECTURE]: builds hello.c. PREFIX is gpufs's, CUDA a toolkit (ptxas, nvlink, libdevice), ARCHITECTURE sm_90.
# CLANG names clang with OpenMP for NVPTX: Debian 12's clang-19 clang-tools-19 lld-19 libomp-19-dev have it all.
set -eu
prefix=$1 cuda=$2 output=$3 architecture=${4:-sm_90} clang=${CLANG:-clang-19}
here=$(dirname "$0")
library=$(dirname "$(readlink -f "$(command -v "$clang")")")/../lib # where LLVM's OpenMP is, for the host and the GPU
# The device calls, to link with; 64 registers, as gpufs-config.cmake says.
"$cuda/bin/ptxas" -c -arch="$architecture" -maxrregcount=64 "$prefix/lib/gpufs/gpufs.ptx" -o "$output.device.cubin"
"$clang" -std=c11 -O2 -fopenmp --offload-arch="$architecture" --cuda-path="$cuda" -Wno-unknown-cuda-version \
    --libomptarget-nvptx-bc-path="$library" -L"$library" -Wl,-rpath,"$library" \
    -I"$prefix/include" "$here/hello.c" -Xoffload-linker "$output.device.cubin" -L"$prefix/lib" -lgpufs -Wl,-rpath,"$prefix/lib" -o "$output"
