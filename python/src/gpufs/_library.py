"""libgpufs by ctypes: where it is, what its functions take, and how its errors become OSError."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from pathlib import Path


def library_path() -> Path:
    """Where libgpufs is: that of GPUFS_LIBRARY in the environment, or the one in this package."""
    named = os.environ.get("GPUFS_LIBRARY")
    return Path(named) if named else Path(__file__).parent / "lib" / "libgpufs.so"


def include_directory() -> Path:
    """The directory to give to a compiler for `#include <gpufs/stdio.h>`: that of GPUFS_INCLUDE, or the one in this package."""
    named = os.environ.get("GPUFS_INCLUDE")
    return Path(named) if named else Path(__file__).parent / "include"


class Options(Structure):
    """`gpufs_options` of <gpufs/host.h>; 0 is the default everywhere."""

    _fields_ = [
        ("size", c_size_t),
        ("rings", c_uint32),
        ("ring_entries", c_uint32),
        ("mode", c_uint32),
        ("ring_memory", c_uint32),
        ("buffer_bytes", c_uint64),
        ("stream_buffer_bytes", c_uint32),
        ("blocks_per_stream", c_uint32),
        ("files", c_uint32),
        ("streams", c_uint32),
        ("registered_buffers", c_uint32),
        ("idle_ms", c_uint32),
        ("deadline_ms", c_uint64),
        ("warp_width", c_uint32),
        ("threads", c_uint32),
        ("stack_bytes", c_uint64),
        ("quiet", c_uint32),
        ("reserved", c_uint32),
        ("sandbox", c_void_p),
        ("wait_limit_ms", c_uint64),
        ("assembly_bytes", c_uint64),
        ("read_ahead_bytes", c_uint64),
        ("seed", c_uint64),
        ("survives", c_uint32),
        ("gpu_registers", c_uint32),
        ("resident_warps", c_uint32),
        ("standard_output", c_uint32),
        ("cache_bytes", c_uint64),
        ("cache_page_bytes", c_uint32),
        ("reserved_again", c_uint32),
        ("trace", c_char_p),
        ("trace_memory_bytes", c_uint64),
    ]


class Statistics(Structure):
    """`gpufs_statistics`."""

    _fields_ = [
        ("size", c_size_t),
        ("rings", c_uint32),
        ("mode", c_uint32),
        ("operations", c_uint64),
        ("publications", c_uint64),
        ("completions", c_uint64),
        ("empty_looks", c_uint64),
        ("stale", c_uint64),
        ("slot_waits", c_uint64),
        ("bytes_read", c_uint64),
        ("bytes_written", c_uint64),
        ("wake_ups", c_uint64),
        ("failed_calls", c_uint64),
        ("cache_hits", c_uint64),
        ("cache_misses", c_uint64),
        ("cache_evictions", c_uint64),
        ("cache_write_backs", c_uint64),
        ("cache_waits", c_uint64),
    ]


class Failure(Structure):
    """`gpufs_failure`."""

    _fields_ = [("call", c_char_p), ("error", c_int), ("reserved", c_uint32), ("count", c_uint64)]


class Part(Structure):
    """`gpufs_part` of <gpufs/transfer.h>."""

    _fields_ = [
        ("descriptor", c_int32),
        ("memory_kind", c_uint32),
        ("memory", c_void_p),
        ("bytes", c_uint64),
        ("offset", c_uint64),
        ("row_bytes", c_uint64),
        ("row_offsets", c_void_p),
    ]


class TransferOptions(Structure):
    """`gpufs_transfer_options`."""

    _fields_ = [("size", c_size_t), ("stream", c_void_p), ("on_stream", c_uint32), ("reserved", c_uint32)]


class Count(Structure):
    """`gpufs_transfer_count`."""

    _fields_ = [("reads", c_uint64), ("writes", c_uint64), ("bytes_read", c_uint64), ("bytes_written", c_uint64)]


_pointers = POINTER(c_char_p)
# Each function: what it returns, and what it takes.
_FUNCTIONS: dict[str, tuple[object, Sequence[object]]] = {
    "gpufs_version": (c_uint, ()),
    "gpufs_last_error": (c_char_p, ()),
    "gpufs_doctor": (c_int, (_pointers, c_size_t, POINTER(c_int), c_char_p, c_size_t)),
    "gpufs_host_open": (c_void_p, (c_int, c_uint, POINTER(Options))),
    "gpufs_host_close": (c_int, (c_void_p,)),
    "gpufs_host_session": (c_void_p, (c_void_p,)),
    "gpufs_host_begin": (c_int, (c_void_p,)),
    "gpufs_host_launch": (c_int, (c_void_p, c_uint, c_uint, c_void_p, c_void_p)),
    "gpufs_host_synchronize": (c_int, (c_void_p,)),
    "gpufs_host_fopen": (c_void_p, (c_void_p, c_char_p, c_char_p)),
    "gpufs_host_fdopen": (c_void_p, (c_void_p, c_int, c_char_p)),
    "gpufs_host_fclose": (c_int, (c_void_p, c_void_p)),
    "gpufs_host_register_file": (c_int, (c_void_p, c_int)),
    "gpufs_host_unregister_file": (c_int, (c_void_p, c_int)),
    "gpufs_host_buffer": (c_void_p, (c_void_p, c_size_t)),
    "gpufs_host_statistics": (c_int, (c_void_p, POINTER(Statistics))),
    "gpufs_host_failures": (c_int, (c_void_p, POINTER(Failure), c_size_t)),
    "gpufs_host_describe": (c_int, (c_void_p, c_char_p, c_size_t)),
    "gpufs_host_start_read": (c_void_p, (c_void_p, POINTER(Part), c_size_t, POINTER(TransferOptions))),
    "gpufs_host_start_write": (c_void_p, (c_void_p, POINTER(Part), c_size_t, POINTER(TransferOptions))),
    "gpufs_transfer_poll": (c_int, (c_void_p, c_uint64, POINTER(c_uint64), POINTER(c_uint64))),
    "gpufs_transfer_wait": (c_int64, (c_void_p, POINTER(c_uint64), POINTER(c_size_t))),
    "gpufs_memory_kind": (c_int, (c_void_p,)),
    "gpufs_transfer_configure": (c_int, (c_uint32, c_uint64, c_uint32)),
    "gpufs_transfer_statistics": (c_int, (c_void_p, POINTER(Count))),
}

_loaded: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """The library, loaded with the first call. Its names are there for libraries of kernels for CPU lanes that are loaded later."""
    global _loaded
    if _loaded is None:
        path = library_path()
        if not path.exists():
            raise ImportError(
                f"there is no {path}: install a wheel (`cargo xtask wheel` builds one), or name a libgpufs.so in GPUFS_LIBRARY"
            )
        loaded = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL, use_errno=True)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = list(arguments)
        _loaded = loaded
    return _loaded


def failure(filename: object = None) -> OSError:
    """The error of this thread's last call that failed."""
    number = ctypes.get_errno()
    text = (library().gpufs_last_error() or b"").decode(errors="replace")
    if filename is None:
        return OSError(number, text)
    return OSError(number, text, os.fspath(filename) if isinstance(filename, os.PathLike) else filename)


def check(result: int, filename: object = None) -> int:
    """A result that is not negative; else the error."""
    if result < 0:
        raise failure(filename)
    return result


def fitting(name: str, value: int, field: type[ctypes._SimpleCData[int]], zero: str = ", and 0 is the default") -> int:
    """A number that an unsigned field of C can hold; ctypes would cut others off."""
    most = (1 << 8 * ctypes.sizeof(field)) - 1
    if not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}, and is to be an integer")
    if not 0 <= value <= most:
        raise ValueError(f"{name} is {value}; it is 0 to {most}{zero}")
    return value


def number_of(descriptor: int) -> int:
    """A descriptor that C's `int` can hold."""
    if not 0 <= descriptor < 1 << 31:
        raise ValueError(f"{descriptor} is no descriptor of a file")
    return descriptor


def c_text(name: str, value: str | bytes | os.PathLike[str]) -> bytes:
    """A text of C, which a NUL would cut off."""
    text = os.fsencode(value)
    if b"\0" in text:
        raise ValueError(f"{name} is {value!r}, and has a NUL")
    return text


def version() -> str:
    """The version of libgpufs."""
    number = library().gpufs_version()
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


class Report(str):
    """What `doctor` says; `status` is 0 where nothing is lacking, 1 where sessions work with less than they could, 2 where none can."""

    status: int


def doctor(files: Sequence[str | os.PathLike[str]] = ()) -> Report:
    """What this machine can do for sessions, and what to do about each lack; how each of `files` is served. It takes a second."""
    if isinstance(files, (str, bytes)):
        raise TypeError(f"files is {files!r}, and is to be a list of names: [{files!r}]")
    paths = [c_text("a file's name", file) for file in files]
    array = (c_char_p * max(len(paths), 1))(*paths)
    status = c_int()
    text = ctypes.create_string_buffer(1 << 16)
    length = check(library().gpufs_doctor(array, len(paths), ctypes.byref(status), text, len(text)))
    if length >= len(text):
        text = ctypes.create_string_buffer(length + 1 + (1 << 12))
        check(library().gpufs_doctor(array, len(paths), ctypes.byref(status), text, len(text)))
    report = Report(text.value.decode(errors="replace"))
    report.status = status.value
    return report
