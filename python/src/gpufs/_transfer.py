"""Bulk transfers between files and memory: read_into and write_from, many at once, in the background."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ._library import Count, Part, TransferOptions, check, failure, fitting, library
from ._memory import KINDS, Memory, memory_of

PathOrFile = Any
Progress = Callable[[int, int], object]

_WAYS = ("in_place", "staged", "through_host")
_running: weakref.WeakSet[Transfer] = weakref.WeakSet()


class Transfer:
    """A transfer that goes on by itself. The tensors belong to it until it has ended; dropping it waits."""

    def __init__(self, handle: int, keep: list[Memory], names: list[object], each: int, finish: Callable[[], None] | None) -> None:
        self._handle: int | None = handle
        self._keep = keep
        self._names = names
        self._each = each
        self._finish = finish
        self._result: list[int] | OSError | None = None
        self._last = (0, 0)
        _running.add(self)

    def progress(self) -> tuple[int, int]:
        """Bytes moved so far, and those of the whole."""
        self._poll(0)
        return self._last

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._handle is None or self._poll(0)

    def _poll(self, milliseconds: int) -> bool:
        if self._handle is None:
            return True
        done, total = ctypes.c_uint64(), ctypes.c_uint64()
        ended = check(library().gpufs_transfer_poll(self._handle, milliseconds, ctypes.byref(done), ctypes.byref(total)))
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

    def _settle(self) -> list[int]:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            each = (ctypes.c_uint64 * max(self._each, 1))()
            failed = ctypes.c_size_t()
            moved = library().gpufs_transfer_wait(handle, each, ctypes.byref(failed))
            self._result = failure(self._names[failed.value]) if moved < 0 else list(each[: self._each])
            self._let_go()
            if self._finish and not isinstance(self._result, OSError):
                self._finish()
        if isinstance(self._result, OSError):
            raise self._result
        return self._result or []

    def _let_go(self) -> None:
        release(self._keep)
        self._keep = []

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            handle, self._handle = self._handle, None
            library().gpufs_transfer_wait(handle, None, None)
            self._let_go()


@atexit.register
def _end() -> None:
    """Nothing is in flight when the interpreter takes its memory apart."""
    for transfer in list(_running):
        try:
            transfer.wait()
        except OSError as error:
            print(f"gpufs: a transfer that nobody waited for failed: {error}", file=sys.stderr)


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
        self._flags = flags
        self._opened: dict[str | bytes, int] = {}

    def descriptor(self, file: PathOrFile) -> tuple[int, object]:
        if isinstance(file, int):
            return file, None
        if hasattr(file, "fileno"):
            return file.fileno(), getattr(file, "name", None)
        path = os.fspath(file)
        if path not in self._opened:
            self._opened[path] = os.open(path, self._flags | os.O_CLOEXEC, 0o666)
        return self._opened[path], path

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._opened.values():
            os.close(descriptor)


def start(
    read: bool,
    parts: Sequence[tuple[Any, Memory, int, tuple[int, Any] | None]],
    flags: int,
    stream: int | None = None,
    host: int | None = None,
    finish: Callable[[], None] | None = None,
) -> Transfer:
    """Starts a transfer of parts: a file, memory, the offset, and for rows their bytes and the address of their offsets."""
    keep = [memory for _, memory, _, _ in parts]
    try:
        with _Files(flags) as files:
            array = (Part * max(len(parts), 1))()
            names: list[object] = []
            for place, (file, memory, offset, rows) in zip(array, parts):
                descriptor, name = files.descriptor(file)
                names.append(name)
                if not 0 <= offset < 1 << 63:
                    raise ValueError(f"offset is {offset}: it is counted from the file's start")
                if memory.nbytes < 0 or not 0 <= memory.address < 1 << 64:
                    raise ValueError(f"there is no memory of {memory.nbytes} bytes at {memory.address:#x}")
                place.descriptor, place.offset = descriptor, offset
                place.memory_kind = KINDS[memory.kind] if memory.kind else 0
                place.memory, place.bytes = memory.address, memory.nbytes
                if rows:
                    place.row_bytes, place.row_offsets = rows
            streams = {memory.stream for memory in keep if memory.stream is not None}
            if stream is None and len({memory.gpu for memory in keep if memory.gpu is not None}) > 1:
                # The library waits for one stream of one GPU. Those of several are waited for here.
                _wait_for_streams(keep)
                streams = set()
            if stream is None and len(streams) > 1:
                raise ValueError("the tensors belong to different streams: name one by `stream`, or transfer them apart")
            chosen = stream if stream is not None else next(iter(streams), None)
            options = TransferOptions(ctypes.sizeof(TransferOptions), chosen or None, chosen is not None, 0)
            begin = library().gpufs_host_start_read if read else library().gpufs_host_start_write
            handle = begin(host, array, len(parts), ctypes.byref(options))
            if not handle:
                raise failure(names[0] if len(set(names)) == 1 else None)
    except BaseException:
        release(keep)
        raise
    return Transfer(handle, keep, names, len(parts), finish)


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


def start_read_into(
    into: Any, file: PathOrFile, offset: Any = 0, *, kind: str | None = None, stream: int | None = None, session: Any = None
) -> Transfer:
    """Starts `read_into`, and returns at once."""
    _, things, files, offsets = _each(into, file, offset)
    parts = [(file, memory, offset, None) for memory, file, offset in zip(_memories(things, True, kind), files, offsets)]
    return start(True, parts, os.O_RDONLY, stream, session and session._host)


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
    moved = start_read_into(into, file, offset, kind=kind, stream=stream, session=session).wait(progress)
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
    if any(offset is None for offset in offsets) and len({id(file) for file in files}) < len(files):
        raise ValueError("several tensors go to one file: say at which offset each")
    # A file that is there is cut off only when all that is to go there is known to be good.
    memories = _memories(things, False, kind)
    try:
        for path, offset in zip(files, offsets):
            if offset is None and not isinstance(path, int) and not hasattr(path, "fileno"):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666))
    except BaseException:
        release(memories)
        raise
    parts = [(file, memory, offset or 0, None) for memory, file, offset in zip(memories, files, offsets)]

    def finish() -> None:
        for path in set(map(_path_or_descriptor, files)):
            _synchronize(path)

    return start(False, parts, os.O_WRONLY | os.O_CREAT, stream, session and session._host, finish if fsync else None)


def _path_or_descriptor(file: PathOrFile) -> Any:
    if isinstance(file, int):
        return file
    return file.fileno() if hasattr(file, "fileno") else os.fspath(file)


def _synchronize(file: Any) -> None:
    if isinstance(file, int):
        os.fsync(file)
        return
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
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
    """Writes a tensor, array or buffer to a file: a new file, or with an `offset` into what is there. The bytes written.

    Lists are written at once, as `read_into` reads them. `fsync`: the data is on the disk when this returns.
    """
    one = not isinstance(source, (list, tuple))
    transfer = start_write_from(source, file, offset, kind=kind, stream=stream, fsync=fsync, session=session)
    moved = transfer.wait(progress)
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
