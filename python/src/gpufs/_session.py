"""Sessions: what kernels need for files."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from . import _transfer
from ._library import Failure, Options, Statistics, check, failure, fitting, library
from ._output import Output

_MODES = {"sqpoll": 1, "enter": 2, "threads": 3}
#: Choices of <gpufs/host.h>: numbers, and a path.
_CHOICES = {name for name, _ in Options._fields_} - {"size", "mode", "reserved", "reserved_again", "sandbox", "standard_output", "quiet"}


class Stream:
    """A stream for kernels: `int(stream)` is the `gpufs_file *` that a kernel takes."""

    def __init__(self, session: Session, pointer: int, name: object) -> None:
        self._session = session
        self.pointer = pointer
        self.name = name

    def __int__(self) -> int:
        return self.pointer

    __index__ = __int__

    def close(self) -> None:
        """Flushes and closes it. While no kernel runs."""
        if self.pointer and self._session._host:
            pointer, self.pointer = self.pointer, 0
            check(library().gpufs_host_fclose(self._session._host, pointer), self.name)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ordinal(device: Any) -> int | None:
    """Which GPU; None: CPU lanes."""
    if device is None or isinstance(device, int):
        return device
    name = str(device)
    if name == "cpu":
        return None
    if name == "cuda" or name.startswith("cuda:") and name[5:].isdecimal():
        return int(name[5:] or 0)
    raise ValueError(f"device is {device!r}; use a number of an NVIDIA GPU, 'cuda:0', or None for CPU lanes")


class Session:
    """A session: on an NVIDIA GPU, by its number, or on CPU lanes (`device=None`).

    `mode` is "sqpoll", "enter" or "threads". Other choices are those of `gpufs_options` in <gpufs/host.h>, by name: `rings=8`,
    `buffer_bytes=64 << 20`, `trace="session.pftrace"`. `stdout=None` leaves the kernels' standard output to the process's descriptor 1. `quiet`: failed calls are
    not told on the standard error.
    """

    def __init__(self, device: Any = None, *, mode: str | None = None, stdout: str | None = "sys", quiet: bool = False, **choices: Any) -> None:
        self._host: int | None = None
        self._output: Output | None = None
        self._running = False
        ordinal = _ordinal(device)
        if mode is not None and mode not in _MODES:
            raise ValueError(f"mode is {mode!r}; use one of {', '.join(_MODES)}")
        if stdout not in ("sys", None):
            raise ValueError(f"stdout is {stdout!r}; use 'sys', or None for the process's descriptor 1")
        unknown = sorted(set(choices) - _CHOICES)
        if unknown:
            raise TypeError(f"Session has no choice {unknown[0]!r}; there are {', '.join(sorted(_CHOICES))}")
        fields = dict(Options._fields_)
        if "trace" in choices:
            choices["trace"] = os.fsencode(choices["trace"])
        for name, value in choices.items():
            if name != "trace":
                fitting(name, value, fields[name])
        options = Options(size=ctypes.sizeof(Options), mode=_MODES.get(mode or "", 0), quiet=1 if quiet else 0, **choices)
        self.on_gpu = ordinal is not None
        if stdout == "sys":
            self._output = Output()
            options.standard_output = self._output.write_end
        self._host = library().gpufs_host_open(1 if self.on_gpu else 0, ordinal or 0, ctypes.byref(options))
        if not self._host:
            error = failure()
            if self._output:
                self._output.close()
            raise error

    def _open(self) -> int:
        if self._host is None:
            raise ValueError("the session is closed")
        return self._host

    @property
    def fs(self) -> int:
        """The `gpufs_session *` that a kernel takes. On a GPU the session begins with it (`begin`)."""
        if self.on_gpu and not self._running:
            self.begin()
        pointer = library().gpufs_host_session(self._open())
        if not pointer:
            raise failure()
        return pointer

    def begin(self) -> None:
        """Makes a session on a GPU ready for kernels that are launched until `synchronize`. Streams are opened before."""
        self._flush_python()
        check(library().gpufs_host_begin(self._open()))
        self._running = True

    def launch(self, kernel: Any, blocks: int, threads: int, argument: int | None = None) -> None:
        """Starts a kernel on CPU lanes: a C function `void kernel(gpufs_session *fs, void *argument)` of a library that ctypes has loaded."""
        address = kernel if isinstance(kernel, int) else ctypes.cast(kernel, ctypes.c_void_p).value
        self._flush_python()
        check(library().gpufs_host_launch(self._open(), blocks, threads, address, argument))

    def synchronize(self) -> None:
        """Waits for the kernels, and writes what their streams hold. The first error."""
        self._running = False
        result = library().gpufs_host_synchronize(self._open())
        error = failure() if result < 0 else None
        if self._output:
            self._output.drain()
        if error:
            raise error

    def _flush_python(self) -> None:
        """What Python printed comes before what kernels print."""
        if self._output and sys.stdout is not None:
            sys.stdout.flush()

    def fopen(self, path: str | os.PathLike[str], mode: str = "r") -> Stream:
        """Opens a stream for kernels, as fopen(3) does. Before `begin`."""
        pointer = library().gpufs_host_fopen(self._open(), os.fsencode(path), mode.encode())
        if not pointer:
            raise failure(path)
        return Stream(self, pointer, path)

    def fdopen(self, descriptor: int, mode: str) -> Stream:
        """A stream on a file that the program has open and keeps, as fdopen(3) makes it. Before `begin`."""
        pointer = library().gpufs_host_fdopen(self._open(), descriptor, mode.encode())
        if not pointer:
            raise failure(descriptor)
        return Stream(self, pointer, descriptor)

    def register_file(self, file: Any) -> int:
        """Gives kernels a file that is open, or a descriptor: a descriptor for `gpufs_pread` and its like."""
        descriptor = file if isinstance(file, int) else file.fileno()
        return check(library().gpufs_host_register_file(self._open(), descriptor))

    def unregister_file(self, descriptor: int) -> None:
        """Takes a file back that `register_file` gave."""
        check(library().gpufs_host_unregister_file(self._open(), descriptor))

    def buffer(self, nbytes: int) -> int:
        """The address of memory that kernels, the system and the program use in place. It lives as long as the session."""
        address = library().gpufs_host_buffer(self._open(), nbytes)
        if not address:
            raise failure()
        return address

    def statistics(self) -> dict[str, Any]:
        """What the session has done: counters of its rings, failed calls by kind, and its transfers."""
        found = Statistics(size=ctypes.sizeof(Statistics))
        check(library().gpufs_host_statistics(self._open(), ctypes.byref(found)))
        result: dict[str, Any] = {name: getattr(found, name) for name, _ in Statistics._fields_ if name != "size"}
        result["mode"] = next((name for name, number in _MODES.items() if number == found.mode), str(found.mode))
        result["failures"] = self.failures()
        result["transfers"] = _transfer.transfer_statistics(self._open())
        return result

    def failures(self) -> list[tuple[str, int, int]]:
        """Calls of kernels that failed: the call, the errno, how often."""
        kinds = (Failure * 256)()
        count = check(library().gpufs_host_failures(self._open(), kinds, len(kinds)))
        return [(kind.call.decode(), kind.error, kind.count) for kind in kinds[: min(count, len(kinds))]]

    def describe(self) -> str:
        """The device, what serves the rings, and why better modes are refused."""
        text = ctypes.create_string_buffer(4096)
        check(library().gpufs_host_describe(self._open(), text, len(text)))
        return text.value.decode(errors="replace")

    def read_into(self, into: Any, file: Any, offset: Any = 0, **options: Any) -> Any:
        """`gpufs.read_into`, counted in this session's statistics."""
        self._open()
        return _transfer.read_into(into, file, offset, session=self, **options)

    def write_from(self, source: Any, file: Any, offset: Any = None, **options: Any) -> Any:
        """`gpufs.write_from`, counted in this session's statistics."""
        self._open()
        return _transfer.write_from(source, file, offset, session=self, **options)

    def close(self) -> None:
        """Synchronizes and closes. The first error; it is closed in any case."""
        if self._host is None:
            return
        host, self._host = self._host, None
        error = failure() if library().gpufs_host_close(host) < 0 else None
        if self._output:
            self._output.close()
        if error:
            raise error

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_host", None) is not None:
            try:
                self.close()
            except OSError as error:
                print(f"gpufs: a session that was not closed: {error}", file=sys.stderr)
