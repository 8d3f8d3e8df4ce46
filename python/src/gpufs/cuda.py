"""Kernels of others that call gpufs: compiled by NVRTC, linked with the device calls by the driver. No CUDA toolkit is needed.

    cubin = gpufs.cuda.build('extern "C" __global__ void k(gpufs_file *log) { fprintf(log, "%d\\n", threadIdx.x); }')
    kernel = cupy.RawModule(path=gpufs.cuda.write(cubin)).get_function("k")

The device calls are in the package, assembled for some GPUs; for others the driver assembles their PTX, once: it is kept in the user's cache.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ._library import include_directory, library_path

# CUjitInputType and CUjit_option of cuda.h.
_CUBIN, _PTX, _OBJECT, _LIBRARY = 0, 1, 3, 4
_MAX_REGISTERS, _ERROR_LOG, _ERROR_BYTES = 0, 5, 6


class BuildError(RuntimeError):
    """A kernel that does not compile or link, with what the compiler says."""


def device_library(architecture: int) -> Path | None:
    """The device calls, assembled for a GPU (90 for sm_90): an archive that nvcc, nvJitLink and Numba link; None where the package has none."""
    path = library_path().parent / f"libgpufs_device_sm_{architecture}.a"
    return path if path.exists() else None


def device_ptx() -> Path:
    """The device calls as PTX, for linkers that assemble it."""
    named = os.environ.get("GPUFS_PTX")
    path = Path(named) if named else library_path().parent / "gpufs.ptx"
    if not path.exists():
        raise FileNotFoundError(2, "this package was built without device code (cargo xtask wheel PREFIX)", str(path))
    return path


def compile(source: str, architecture: int | None = None, options: Sequence[str] = ()) -> bytes:
    """Compiles CUDA C++ by NVRTC: PTX that calls gpufs. The headers of the package are found; `options` are NVRTC's own besides."""
    nvrtc = _nvrtc()
    number = _architecture() if architecture is None else architecture
    flags = [f"-I{include_directory()}", f"--gpu-architecture=compute_{number}", "-rdc=true", "--std=c++17", *options]
    array = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
    program = ctypes.c_void_p()
    text = '#include <gpufs/stdio.h>\n#include <gpufs/file.h>\n#line 1 "kernel.cu"\n' + source
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None):
        raise BuildError("NVRTC makes no program")
    try:
        failed = nvrtc.nvrtcCompileProgram(program, len(flags), array)
        if failed:
            raise BuildError(_nvrtc_text(nvrtc, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").decode(errors="replace"))
        return _nvrtc_text(nvrtc, program, "nvrtcGetPTXSize", "nvrtcGetPTX")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def link(code: bytes, architecture: int | None = None) -> bytes:
    """Links PTX, or an object of a compiler (-dc, -rdc=true), with the device calls: a cubin. A CUDA context is current."""
    number = _architecture() if architecture is None else architecture
    library = device_library(number)
    if library is not None:
        return _link([(_kind(code), code), (_LIBRARY, library.read_bytes())])
    ptx = device_ptx().read_bytes().rstrip(b"\0") + b"\0"
    code = code.rstrip(b"\0") + b"\0" if _kind(code) == _PTX else code
    name = None
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpufs"
        name = cache / f"{hashlib.sha256(ptx + code).hexdigest()[:24]}-sm_{number}.cubin"
        return name.read_bytes()
    except (OSError, RuntimeError):
        pass  # It is not there, or the user has no home.
    cubin = _link([(_kind(code), code), (_PTX, ptx)])
    if name is None:
        return cubin
    try:
        cache.mkdir(parents=True, exist_ok=True)
        part = name.with_suffix(f".{os.getpid()}")
        part.write_bytes(cubin)
        os.replace(part, name)
    except OSError:
        pass  # Without a cache it is assembled again next time.
    return cubin


def build(source: str, architecture: int | None = None, options: Sequence[str] = ()) -> bytes:
    """Compiles and links CUDA C++: a cubin. `#include <gpufs/stdio.h>` and `<gpufs/file.h>` are there already."""
    return link(compile(source, architecture, options), architecture)


def link_list(source: str, architecture: int | None = None) -> list[str]:
    """What `numba.cuda.jit(link=…)` takes: functions of CUDA C++ (`extern "C" __device__`), compiled, and the device calls that they make."""
    number = _architecture() if architecture is None else architecture
    return [write(compile(source, number), ".ptx"), str(device_library(number) or device_ptx())]


def write(code: bytes, suffix: str = ".cubin") -> str:
    """The path of a file with these bytes, for `cupy.RawModule(path=…)`; it stays until the system clears its temporary files."""
    descriptor, path = tempfile.mkstemp(suffix=suffix, prefix="gpufs-")
    with open(descriptor, "wb") as file:
        file.write(code)
    return path


def _kind(code: bytes) -> int:
    return _OBJECT if code[:4] == b"\x7fELF" else _PTX


def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BuildError(f"there is no NVIDIA driver: {error}") from None


def _architecture() -> int:
    """That of the GPU whose context is current."""
    driver = _driver()
    device = ctypes.c_int()
    if driver.cuCtxGetDevice(ctypes.byref(device)):
        raise BuildError("no CUDA context is current: open a session or use the GPU before, or name the architecture")
    numbers = []
    # Compute capability, major and minor.
    for attribute in (75, 76):
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        numbers.append(value.value)
    return 10 * numbers[0] + numbers[1]


def _link(inputs: Sequence[tuple[int, bytes]]) -> bytes:
    driver = _driver()
    log = ctypes.create_string_buffer(1 << 14)
    kinds = (ctypes.c_int * 3)(_MAX_REGISTERS, _ERROR_LOG, _ERROR_BYTES)
    values = (ctypes.c_void_p * 3)(64, ctypes.cast(log, ctypes.c_void_p), len(log))
    state = ctypes.c_void_p()
    if driver.cuLinkCreate_v2(3, kinds, values, ctypes.byref(state)):
        raise BuildError("the driver begins no link: is a CUDA context current?")
    try:
        for kind, data in inputs:
            if driver.cuLinkAddData_v2(state, kind, data, ctypes.c_size_t(len(data)), b"gpufs", 0, None, None):
                raise BuildError(f"linking with the device calls: {log.value.decode(errors='replace')}")
        cubin, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
        if driver.cuLinkComplete(state, ctypes.byref(cubin), ctypes.byref(nbytes)):
            raise BuildError(f"linking with the device calls: {log.value.decode(errors='replace')}")
        return ctypes.string_at(cubin.value or 0, nbytes.value)
    finally:
        driver.cuLinkDestroy(state)


def _nvrtc() -> ctypes.CDLL:
    """NVRTC: what the process has loaded, of an installed CUDA, or of the package nvidia-cuda-nvrtc."""
    names = ["libnvrtc.so.13", "libnvrtc.so.12", ctypes.util.find_library("nvrtc") or "libnvrtc.so"]
    try:
        import nvidia

        for base in nvidia.__path__:
            found = [path for path in glob.glob(f"{base}/*/lib/libnvrtc*.so.1*") if ".alt." not in path]
            # NVRTC looks for its builtins by their name: loaded before, they are found.
            for path in (path for path in found if "builtins" in path):
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            names += [path for path in found if "builtins" not in path]
    except ImportError:
        pass
    names += sorted(glob.glob("/usr/local/cuda*/lib64/libnvrtc.so.1*"))
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise BuildError("there is no NVRTC: install CUDA, or `pip install nvidia-cuda-nvrtc`")


def _nvrtc_text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, size: str, get: str) -> bytes:
    nbytes = ctypes.c_size_t()
    getattr(nvrtc, size)(program, ctypes.byref(nbytes))
    text = ctypes.create_string_buffer(nbytes.value)
    getattr(nvrtc, get)(program, text)
    return text.raw.rstrip(b"\0")
