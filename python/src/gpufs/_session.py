"""Sessions: what kernels need for files."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from . import _transfer
from ._library import Failure, Options, Statistics, c_text, check, failure, fitting, library, number_of
from ._output import Output
from ._waiting import Waiting, handles_signals

_MODES = {"sqpoll": 1, "enter": 2, "threads": 3}
#: Choices of <gpufs/host.h>: numbers, and a path.
_CHOICES = {name for name, _ in Options._fields_} - {"size", "mode", "reserved", "reserved_again", "sandbox", "standard_output", "quiet"}


_opened: weakref.WeakSet[Session] = weakref.WeakSet()


class Stream:
    """A stream for kernels: `int(stream)` is the `gpufs_file *` that a kernel takes."""

    def __init__(self, session: Session, pointer: int, name: object) -> None:
        self._session = session
        self.pointer = pointer
        self.name = name

    def __int__(self) -> int:
        if not self.pointer or self._session._host is None:
            raise ValueError(f"the stream on {self.name} is closed")
        return self.pointer

    __index__ = __int__

    def __reduce__(self) -> Any:
        raise TypeError("a stream that is open cannot be copied or pickled")

    def close(self) -> None:
        """Flushes and closes it. While no kernel runs."""
        pointer, self.pointer = self.pointer, 0
        if pointer and self._session._host is not None and not self._session._is_foreign():
            with self._session._using() as host:
                check(library().gpufs_host_fclose(host, pointer), self.name)

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
        self._state = threading.Condition()
        self._users = 0
        self._process = os.getpid()
        self._output: Output | None = None
        self._running = False
        # Whether kernels may run, and a call that waits for them, whose own wait was interrupted.
        self._kernels = False
        self._waiting: Waiting | None = None
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
            choices["trace"] = c_text("trace", choices["trace"])
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
        _opened.add(self)

    def __reduce__(self) -> Any:
        raise TypeError("a session cannot be copied or pickled: each process opens its own")

    def _is_foreign(self) -> bool:
        """Whether this is a child that was forked, which has none of the session's threads."""
        return os.getpid() != self._process

    @contextlib.contextmanager
    def _using(self) -> Iterator[int]:
        """The session, which other threads do not close meanwhile."""
        self._check_process()
        # The library's call would wait, too, and let no signal's handler run.
        waiting = self._waiting
        if waiting is not None:
            waiting.wait()
        with self._entered() as host:
            yield host

    def _check_process(self) -> None:
        if self._is_foreign():
            raise OSError(errno.EPERM, "the session belongs to the process that opened it: a child that was forked opens its own")

    @contextlib.contextmanager
    def _entered(self) -> Iterator[int]:
        """As `_using`, for calls that may be made while another one waits for kernels."""
        with self._state:
            if self._host is None:
                raise ValueError("the session is closed")
            host = self._host
            self._users += 1
        try:
            yield host
        finally:
            with self._state:
                self._users -= 1
                self._state.notify_all()

    @property
    def fs(self) -> int:
        """The `gpufs_session *` that a kernel takes. On a GPU the session begins with it (`begin`)."""
        if self.on_gpu and not self._running:
            self.begin()
        with self._using() as host:
            pointer = library().gpufs_host_session(host)
            if not pointer:
                raise failure()
            return pointer

    def begin(self) -> None:
        """Makes a session on a GPU ready for kernels that are launched until `synchronize`. Streams are opened before."""
        self._flush_python()
        with self._using() as host:
            check(library().gpufs_host_begin(host))
            self._running = self._kernels = True

    def launch(self, kernel: Any, blocks: int, threads: int, argument: int | None = None) -> None:
        """Starts a kernel on CPU lanes: a C function `void kernel(gpufs_session *fs, void *argument)` of a library that ctypes has loaded."""
        if not isinstance(kernel, (int, ctypes._CFuncPtr, ctypes.c_void_p)):  # type: ignore[attr-defined]
            raise TypeError(f"kernel is {kernel!r}, and is to be a function of a library that ctypes has loaded")
        address = kernel if isinstance(kernel, int) else ctypes.cast(kernel, ctypes.c_void_p).value
        for name, count in (("blocks", blocks), ("threads", threads)):
            fitting(name, count, ctypes.c_uint, "")
        self._flush_python()
        with self._using() as host:
            check(library().gpufs_host_launch(host, blocks, threads, address, argument))
            self._kernels = True

    def synchronize(self) -> None:
        """Waits for the kernels, and writes what their streams hold. The first error.

        Signals are handled meanwhile: Ctrl-C raises KeyboardInterrupt. The kernels then run on, and the session's next call waits for them, which may be
        interrupted, too."""
        self._check_process()
        waiting = self._waiting
        if waiting is None:
            if not self._kernels or not handles_signals():
                self._synchronize()
                return
            waiting = self._waiting = Waiting(self._synchronize)
        waiting.wait()
        # Another thread that waited may have begun the next.
        if self._waiting is waiting:
            self._waiting = None
        if waiting.error:
            raise waiting.error

    def _synchronize(self) -> None:
        self._running = False
        with self._entered() as host:
            error = failure() if library().gpufs_host_synchronize(host) < 0 else None
            self._kernels = False
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
        with self._using() as host:
            pointer = library().gpufs_host_fopen(host, c_text("path", path), c_text("mode", mode))
            if not pointer:
                error = failure(path)
                if error.errno == errno.EINVAL:
                    error = OSError(errno.EINVAL, f"{error.strerror} (the mode is {mode!r})", error.filename)
                raise error
            return Stream(self, pointer, path)

    def fdopen(self, descriptor: int, mode: str) -> Stream:
        """A stream on a file that the program has open and keeps, as fdopen(3) makes it. Before `begin`."""
        with self._using() as host:
            pointer = library().gpufs_host_fdopen(host, number_of(descriptor), c_text("mode", mode))
            if not pointer:
                raise failure(descriptor)
            return Stream(self, pointer, descriptor)

    def register_file(self, file: Any) -> int:
        """Gives kernels a file that is open, or a descriptor: a descriptor for `gpufs_pread` and its like."""
        descriptor = file if isinstance(file, int) else file.fileno()
        with self._using() as host:
            return check(library().gpufs_host_register_file(host, number_of(descriptor)))

    def unregister_file(self, descriptor: int) -> None:
        """Takes a file back that `register_file` gave."""
        with self._using() as host:
            check(library().gpufs_host_unregister_file(host, number_of(descriptor)))

    def buffer(self, nbytes: int) -> int:
        """The address of memory that kernels, the system and the program use in place. It lives as long as the session."""
        with self._using() as host:
            address = library().gpufs_host_buffer(host, fitting("nbytes", nbytes, ctypes.c_size_t, ""))
            if not address:
                raise failure()
            return address

    def statistics(self) -> dict[str, Any]:
        """What the session has done: counters of its rings, failed calls by kind, and its transfers."""
        found = Statistics(size=ctypes.sizeof(Statistics))
        with self._using() as host:
            check(library().gpufs_host_statistics(host, ctypes.byref(found)))
            transfers = _transfer.transfer_statistics(host)
        result: dict[str, Any] = {name: getattr(found, name) for name, _ in Statistics._fields_ if name != "size"}
        result["mode"] = next((name for name, number in _MODES.items() if number == found.mode), str(found.mode))
        result["failures"] = self.failures()
        result["transfers"] = transfers
        return result

    def failures(self) -> list[tuple[str, int, int]]:
        """Calls of kernels that failed: the call, the errno, how often."""
        kinds = (Failure * 256)()
        with self._using() as host:
            count = check(library().gpufs_host_failures(host, kinds, len(kinds)))
        return [(kind.call.decode(), kind.error, kind.count) for kind in kinds[: min(count, len(kinds))]]

    def describe(self) -> str:
        """The device, what serves the rings, and why better modes are refused."""
        text = ctypes.create_string_buffer(4096)
        with self._using() as host:
            check(library().gpufs_host_describe(host, text, len(text)))
        return text.value.decode(errors="replace")

    def read_into(self, into: Any, file: Any, offset: Any = 0, **options: Any) -> Any:
        """`gpufs.read_into`, counted in this session's statistics."""
        return _transfer.read_into(into, file, offset, session=self, **options)

    def write_from(self, source: Any, file: Any, offset: Any = None, **options: Any) -> Any:
        """`gpufs.write_from`, counted in this session's statistics."""
        return _transfer.write_from(source, file, offset, session=self, **options)

    def close(self) -> None:
        """Synchronizes and closes, when no other thread is in a call. The first error; it is closed in any case.

        Ctrl-C interrupts it as it does `synchronize`, and the session then is not closed. In a child that was forked nothing happens: the session is
        its parent's."""
        if self._is_foreign() or self._host is None:
            return
        first: Exception | None = None
        if self._kernels or self._waiting is not None:
            try:
                self.synchronize()
            except Exception as error:
                first = error
        with self._state:
            host, self._host = self._host, None
            if host is None:
                return
            try:
                # In short waits, as `Waiting.wait`.
                while not self._state.wait_for(lambda: not self._users, 0.1):
                    pass
            except BaseException:
                self._host = host
                raise
        _opened.discard(self)
        last: Exception | None = failure() if library().gpufs_host_close(host) < 0 else None
        if self._output:
            try:
                self._output.close()
            except Exception as error:
                last = last or error
        first = first or last
        if first:
            raise first

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_at_last(self) -> None:
        """Closes what nobody else has closed; an error is told."""
        try:
            self.close()
        except OSError as error:
            print(f"gpufs: a session that was not closed: {error}", file=sys.stderr)

    def __del__(self) -> None:
        if getattr(self, "_host", None) is not None:
            self._close_at_last()


#: How long the end of the program waits for the kernels of a session that was not closed.
_END_SECONDS = 10


@atexit.register
def _end() -> None:
    """What kernels printed goes to `sys.stdout` while there is one, also of sessions that something holds on to."""
    for session in list(_opened):
        if session._is_foreign():
            continue
        # Of its own: a kernel that waits for ever is no reason for the program to do so.
        closing = threading.Thread(target=session._close_at_last, name="gpufs-end", daemon=True)
        try:
            closing.start()
        except RuntimeError:
            # Some releases of Python start no thread any more.
            session._close_at_last()
            continue
        closing.join(_END_SECONDS)
        if closing.is_alive():
            print(f"gpufs: a session's kernels had not ended {_END_SECONDS} s after the program: what they print is lost", file=sys.stderr)
