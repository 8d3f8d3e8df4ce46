"""Kernels for GPUs: NVRTC compiles them with the package's headers, also where there is no GPU; the driver links them where there is one."""

import pytest

import gpufs.cuda

SOURCE = r"""
extern "C" __global__ void say(gpufs_session *fs, gpufs_file *log, char *into) {
    fprintf(log, "thread %d saw %.3f\n", threadIdx.x, threadIdx.x / 3.0);
    gpufs_pread(fs, 3, into, 64, 0);
}
"""


def compiled(source):
    try:
        gpufs.cuda._nvrtc()
    except gpufs.cuda.BuildError as error:
        pytest.skip(str(error))
    return gpufs.cuda.compile(source, 90)


def test_kernels_compile_to_calls_of_gpufs():
    ptx = compiled(SOURCE)
    for name in (b".entry say(", b"gpufs_raw_fprintf", b"gpufs_raw_pread"):
        assert name in ptx


def test_the_compilers_words_reach_the_program():
    compiled(SOURCE)
    with pytest.raises(gpufs.cuda.BuildError, match=r"kernel.cu\(2\).*nothing_like_it"):
        gpufs.cuda.compile("\nint x = nothing_like_it;", 90)


def test_what_is_missing_is_named(without_gpu):
    with pytest.raises(gpufs.cuda.BuildError, match="no NVIDIA driver|no CUDA context"):
        gpufs.cuda.link(b"", None)
    if gpufs.cuda.device_library(90) is None:
        with pytest.raises(FileNotFoundError, match="without device code"):
            gpufs.cuda.device_ptx()
