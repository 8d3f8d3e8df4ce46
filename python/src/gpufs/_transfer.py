"""Bulk transfers between files and memory: read_into and write_from, many at once, in the background."""

from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import errno
import operator
import os
import stat
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ._library import Count, Part, TransferOptions, check, failure, fitting, library, number_of
from ._memory import KINDS, Memory, memory_of

PathOrFile = Any
Progress = Callable[[int, int], object]

_WAYS = ("in_place", "staged", "through_host")
_running: weakref.WeakSet[Transfer] = weakref.WeakSet()


class Transfer:
    """A transfer that goes on by itself. The tensors belong to it until it has ended; dropping it waits.

    Threads may share it. It belongs to the process that started it."""

    def __init__(self, handle: int, keep: list[Memory], names: list[object], each: int, synchronized: list[tuple[int, object]]) -> None:
        self._handle: int | None = handle
        self._keep = keep
        self._names = names
        self._each = each
        # Descriptors of its own, which are synchronized in the end.
        self._synchronized = synchronized
        self._result: list[int] | OSError | None = None
        self._last = (0, 0)
        self._process = os.getpid()
        # Threads that look at the handle keep it from being freed.
        self._state = threading.Condition()
        self._looks = 0
        self._ended = False
        _running.add(self)

    def __reduce__(self) -> Any:
        raise TypeError("a transfer that goes on cannot be copied or pickled")

    def progress(self) -> tuple[int, int]:
        """Bytes moved so far, and those of the whole."""
        self._poll(0)
        return self._last

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._poll(0)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise OSError(errno.EPERM, "the transfer belongs to the process that started it, not to a child that was forked")

    def _poll(self, milliseconds: int) -> bool:
        self._check_process()
        with self._state:
            handle = self._handle
            if handle is None:
                return True
            self._looks += 1
        done, total = ctypes.c_uint64(), ctypes.c_uint64()
        try:
            ended = check(library().gpufs_transfer_poll(handle, milliseconds, ctypes.byref(done), ctypes.byref(total)))
        finally:
            with self._state:
                self._looks -= 1
                self._state.notify_all()
        self._last = (done.value, total.value)
        return bool(ended)

    def wait(self, progress: Progress | bool | None = None) -> list[int]:
        """Waits for the end: the bytes of each part, fewer than asked for where a file ended. OSError with the name of the file that failed."""
        show = _bar if progress is True else progress or None
        while not self._poll(50):
            if show:
                show(*self._last)
        if show:
            show(*self._last)
        return self._settle()

    def wait_or_end(self, progress: Progress | bool | None) -> list[int]:
        """`wait` of a call that nobody else has the transfer of: where that is interrupted, the memory is the caller's again."""
        try:
            return self.wait(progress)
        except BaseException:
            with contextlib.suppress(OSError):
                self._settle()
            raise

    def _settle(self) -> list[int]:
        self._check_process()
        with self._state:
            # Who waits here is not the first that came to the end.
            self._state.wait_for(lambda: self._handle is not None or self._ended)
            if self._handle is not None:
                handle, self._handle = self._handle, None
                try:
                    self._state.wait_for(lambda: not self._looks)
                except BaseException:
                    self._handle = handle
                    raise
                try:
                    self._end(handle)
                finally:
                    self._ended = True
                    self._state.notify_all()
        _running.discard(self)
        if isinstance(self._result, OSError):
            raise self._result.with_traceback(None)
        return self._result or []

    def _end(self, handle: int) -> None:
        each = (ctypes.c_uint64 * max(self._each, 1))()
        failed = ctypes.c_size_t()
        moved = library().gpufs_transfer_wait(handle, each, ctypes.byref(failed))
        self._result = failure(self._names[failed.value]) if moved < 0 else list(each[: self._each])
        release(self._keep)
        self._keep = []
        for descriptor, name in self._synchronized:
            try:
                if not isinstance(self._result, OSError):
                    os.fsync(descriptor)
            except OSError as error:
                self._result = OSError(error.errno, f"fsync: {error.strerror}", name)
            finally:
                os.close(descriptor)
        self._synchronized = []

    def _tell(self) -> None:
        """Waits for what nobody else waits for; an error is told."""
        try:
            self._settle()
        except OSError as error:
            print(f"gpufs: a transfer that nobody waited for failed: {error}", file=sys.stderr)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None and os.getpid() == self._process:
            self._tell()


@atexit.register
def _end() -> None:
    """Nothing is in flight when the interpreter takes its memory apart."""
    for transfer in list(_running):
        if transfer._process == os.getpid():
            transfer._tell()


def _bar(done: int, total: int) -> None:
    share = done / total if total else 1.0
    end = "\n" if done >= total else ""
    print(f"\r[{'#' * int(40 * share):<40}] {done / 1e9:.2f} of {total / 1e9:.2f} GB", end=end, file=sys.stderr, flush=True)


def release(memories: Iterable[Memory]) -> None:
    """Gives back what was taken of the memories' owners."""
    for memory in memories:
        if memory.release:
            memory.release()


class _Files:
    """Files of a transfer, each path opened once. Those that were opened here are closed when the transfer has started."""

    def __init__(self, flags: int) -> None:
        self._flags = flags & ~os.O_CREAT
        self._makes = bool(flags & os.O_CREAT)
        self._opened: dict[str | bytes, int] = {}
        #: Those that were not there before.
        self._made: list[str | bytes] = []

    def descriptor(self, file: PathOrFile) -> tuple[int, object]:
        if isinstance(file, int):
            return number_of(file), None
        if hasattr(file, "fileno"):
            return number_of(file.fileno()), getattr(file, "name", None)
        path = os.fspath(file)
        if path not in self._opened:
            self._opened[path] = self._open(path)
        return self._opened[path], path

    def _open(self, path: str | bytes) -> int:
        try:
            return os.open(path, self._flags | os.O_CLOEXEC)
        except FileNotFoundError:
            if not self._makes:
                raise
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, self._flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            self._made.append(path)
            return descriptor
        # Another has made it meanwhile, or it is a link to what is not there.
        return os.open(path, self._flags | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, refused: object, *_: object) -> None:
        for descriptor in self._opened.values():
            os.close(descriptor)
        if refused is not None:
            for path in self._made:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def start(
    read: bool,
    parts: Sequence[tuple[Any, Memory, int | None, tuple[int, Any] | None]],
    flags: int,
    stream: int | None = None,
    host: int | None = None,
    fsync: bool = False,
) -> Transfer:
    """Starts a transfer of parts: a file, memory, the offset, and for rows their bytes and the address of their offsets.

    Without an offset the memory becomes the whole file. Where the transfer is refused, files are as they were."""
    keep = [memory for _, memory, _, _ in parts]
    synchronized: list[tuple[int, object]] = []
    try:
        with _Files(flags) as files:
            array = (Part * max(len(parts), 1))()
            names: list[object] = []
            for place, (file, memory, offset, rows) in zip(array, parts):
                descriptor, name = files.descriptor(file)
                names.append(name)
                if memory.nbytes < 0 or not 0 <= memory.address < 1 << 64:
                    raise ValueError(f"there is no memory of {memory.nbytes} bytes at {memory.address:#x}")
                place.descriptor, place.offset = descriptor, 0 if offset is None else _offset(offset)
                place.memory_kind = KINDS[memory.kind] if memory.kind else 0
                place.memory, place.bytes = memory.address, memory.nbytes
                if rows:
                    place.row_bytes, place.row_offsets = rows
            wholes = _wholes(parts, array)
            streams = {memory.stream for memory in keep if memory.stream is not None}
            if stream is None and len({memory.gpu for memory in keep if memory.gpu is not None}) > 1:
                # The library waits for one stream of one GPU. Those of several are waited for here.
                _wait_for_streams(keep)
                streams = set()
            if stream is None and len(streams) > 1:
                raise ValueError("the tensors belong to different streams: name one by `stream`, or transfer them apart")
            chosen = stream if stream is not None else next(iter(streams), None)
            options = TransferOptions(ctypes.sizeof(TransferOptions), chosen or None, chosen is not None, 0)
            if fsync:
                for place, name in {place.descriptor: (place, name) for place, name in zip(array, names)}.values():
                    synchronized.append((os.dup(place.descriptor), name))
            begin = library().gpufs_host_start_read if read else library().gpufs_host_start_write
            handle = begin(host, array, len(parts), ctypes.byref(options))
            if not handle:
                raise failure(names[0] if len(set(names)) == 1 else None)
            transfer = Transfer(handle, keep, names, len(parts), synchronized)
            keep, synchronized = [], []
            for index, nbytes in wholes:
                _cut(transfer, array[index].descriptor, nbytes, names[index])
    except BaseException:
        release(keep)
        for descriptor, _ in synchronized:
            os.close(descriptor)
        raise
    return transfer


def _offset(offset: Any) -> int:
    try:
        number = operator.index(offset)
    except TypeError:
        raise TypeError(f"offset is {offset!r}, and is to be a number of bytes") from None
    if not 0 <= number < 1 << 63:
        raise ValueError(f"offset is {number}: it is counted from the file's start")
    return number


def _wholes(parts: Sequence[tuple[Any, Memory, int | None, Any]], array: Any) -> list[tuple[int, int]]:
    """The parts that become whole files, and their bytes: each the only one of its file."""
    if all(offset is not None for _, _, offset, _ in parts):
        return []
    states = [os.fstat(place.descriptor) for place in array[: len(parts)]]
    known = [(state.st_dev, state.st_ino) for state in states]
    times = collections.Counter(known)
    wholes = []
    for index, (file, memory, offset, _) in enumerate(parts):
        if offset is not None or not stat.S_ISREG(states[index].st_mode):
            continue
        if times[known[index]] > 1:
            raise ValueError("several tensors go to one file: say at which offset each")
        # What is open is the program's, who may want what is behind.
        if not isinstance(file, int) and not hasattr(file, "fileno"):
            wholes.append((index, memory.nbytes))
    return wholes


def _cut(transfer: Transfer, descriptor: int, nbytes: int, name: object) -> None:
    """Cuts off what a file has behind what is written there: not before the transfer has been accepted, and never what it writes."""
    try:
        if os.fstat(descriptor).st_size > nbytes:
            os.ftruncate(descriptor, nbytes)
    except OSError as error:
        transfer._tell()
        raise OSError(error.errno, error.strerror, name) from None


def _wait_for_streams(memories: Sequence[Memory]) -> None:
    """Waits until the work that is queued in each memory's stream has ended."""
    waits = {(memory.gpu, memory.stream): memory.ready for memory in memories if memory.stream is not None}
    if not all(waits.values()):
        raise ValueError("the tensors lie on several GPUs, and not all are PyTorch's: transfer those of each GPU apart")
    for wait in waits.values():
        if wait:
            wait()


def _each(things: Any, files: Any, offsets: Any) -> tuple[bool, list[Any], list[Any], list[int]]:
    """One of each, or lists: whether it is one, and the lists."""
    one = not isinstance(things, (list, tuple))
    things = [things] if one else list(things)
    files = list(files) if isinstance(files, (list, tuple)) else [files] * len(things)
    offsets = list(offsets) if isinstance(offsets, (list, tuple)) else [offsets] * len(things)
    if not len(things) == len(files) == len(offsets):
        raise ValueError(f"{len(things)} tensors, {len(files)} files and {len(offsets)} offsets do not go together")
    return one, things, files, offsets


def _memories(things: Sequence[Any], writable: bool, kind: str | None) -> list[Memory]:
    """The memory of each, or of none."""
    found: list[Memory] = []
    try:
        for thing in things:
            found.append(memory_of(thing, writable, kind))
    except BaseException:
        release(found)
        raise
    return found


def _counted_in(session: Any) -> contextlib.AbstractContextManager[int | None]:
    """The session that counts a transfer, which stays open while that is started; None for none."""
    if session is None:
        return contextlib.nullcontext()
    if not hasattr(session, "_using"):
        raise TypeError(f"session is {session!r}, and is to be a gpufs.Session")
    using: contextlib.AbstractContextManager[int | None] = session._using()
    return using


def start_read_into(
    into: Any, file: PathOrFile, offset: Any = 0, *, kind: str | None = None, stream: int | None = None, session: Any = None
) -> Transfer:
    """Starts `read_into`, and returns at once."""
    _, things, files, offsets = _each(into, file, offset)
    if any(offset is None for offset in offsets):
        raise TypeError("offset is None: a read begins at a number of bytes")
    with _counted_in(session) as host:
        parts = [(file, memory, offset, None) for memory, file, offset in zip(_memories(things, True, kind), files, offsets)]
        return start(True, parts, os.O_RDONLY, stream, host)


def read_into(
    into: Any,
    file: PathOrFile,
    offset: Any = 0,
    *,
    kind: str | None = None,
    stream: int | None = None,
    progress: Progress | bool | None = None,
    session: Any = None,
) -> Any:
    """Reads from `offset` of a file into a tensor, array or buffer, wherever it lies. The bytes read: fewer where the file ends.

    `into`, `file` and `offset` may be lists, which are read at once; the result is then a list. `file` is a path, an open file or a
    descriptor. Memory of a GPU is touched when its current stream, or `stream`, has come there. `progress` is True for a bar, or is
    called with the bytes so far and those of the whole. `kind` names the memory ("device", "managed", "pinned", "pageable") where it is
    known better than it can be found out; it is checked. `session` counts the transfer.
    """
    one = not isinstance(into, (list, tuple))
    moved = start_read_into(into, file, offset, kind=kind, stream=stream, session=session).wait_or_end(progress)
    return moved[0] if one else moved


def start_write_from(
    source: Any,
    file: PathOrFile,
    offset: Any = None,
    *,
    kind: str | None = None,
    stream: int | None = None,
    fsync: bool = False,
    session: Any = None,
) -> Transfer:
    """Starts `write_from`, and returns at once."""
    _, things, files, offsets = _each(source, file, offset)
    with _counted_in(session) as host:
        parts = [(file, memory, offset, None) for memory, file, offset in zip(_memories(things, False, kind), files, offsets)]
        return start(False, parts, os.O_WRONLY | os.O_CREAT, stream, host, fsync)


def _synchronize(file: Any) -> None:
    if isinstance(file, int):
        os.fsync(file)
        return
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, f"fsync: {error.strerror}", os.fspath(file)) from None
    finally:
        os.close(descriptor)


def write_from(
    source: Any,
    file: PathOrFile,
    offset: Any = None,
    *,
    kind: str | None = None,
    stream: int | None = None,
    fsync: bool = False,
    progress: Progress | bool | None = None,
    session: Any = None,
) -> Any:
    """Writes a tensor, array or buffer to a file: a path's whole content, or with an `offset` into what is there. The bytes written.

    A file that is open, or a descriptor, is written from its start without an `offset`, and keeps what is behind; its own position stays. One that
    is open for appending is refused.
    Lists are written at once, as `read_into` reads them. `fsync`: the data is on the disk when this returns.
    """
    one = not isinstance(source, (list, tuple))
    transfer = start_write_from(source, file, offset, kind=kind, stream=stream, fsync=fsync, session=session)
    moved = transfer.wait_or_end(progress)
    return moved[0] if one else moved


def memory_kind(thing: Any) -> str:
    """What kind of memory a tensor or array has, as the driver says: "pageable", "pinned", "device" or "managed"."""
    memory = memory_of(thing, False)
    try:
        number = check(library().gpufs_memory_kind(memory.address))
    finally:
        release([memory])
    return next(name for name, kind in KINDS.items() if kind == number)


def configure_transfers(threads: int = 0, chunk_bytes: int = 0, chunks: int = 0) -> None:
    """Sizes of what all transfers of the process share; 0 is the default. Before the first transfer."""
    sizes = [("threads", threads, ctypes.c_uint32), ("chunk_bytes", chunk_bytes, ctypes.c_uint64), ("chunks", chunks, ctypes.c_uint32)]
    check(library().gpufs_transfer_configure(*(fitting(*size) for size in sizes)))


def transfer_statistics(host: int | None = None) -> dict[str, dict[str, dict[str, int]]]:
    """What transfers have done: kind of memory → way ("in_place", "staged", "through_host") → reads, writes, bytes_read, bytes_written."""
    counts = (Count * 12)()
    check(library().gpufs_transfer_statistics(host, counts))
    fields = [name for name, _ in Count._fields_]
    return {
        kind: {way: {name: getattr(counts[3 * (number - 1) + index], name) for name in fields} for index, way in enumerate(_WAYS)}
        for kind, number in KINDS.items()
    }
