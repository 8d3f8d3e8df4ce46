"""Weights in safetensors' format: the same dictionaries as `safetensors.torch` and `safetensors.numpy`.

A file's data is one allocation and one bulk transfer; the tensors are views of it. So tensors of one file share their memory, which is freed
when the last of them is gone.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import struct
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _arrays, _transfer
from ._memory import Memory, contiguous, memory_of

#: The longest header that is read, as in safetensors itself.
HEADER_BYTES_MAX = 100_000_000
#: Axes of a tensor at most, as in NumPy and PyTorch.
_AXES_MAX = 64


class FormatError(ValueError):
    """A file that is not in the format, and why."""


@dataclass(frozen=True)
class Entry:
    """A tensor of a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    #: Bytes from here to `end` of the data.
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """What a file says of itself."""

    path: str
    #: In the order of the data.
    entries: tuple[Entry, ...]
    metadata: dict[str, str]
    #: Where the data begins in the file, and its length.
    offset: int
    nbytes: int


def header(path: str | os.PathLike[str]) -> Header:
    """Reads and checks the header of a file. FormatError for one that lies."""
    name = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(8)
        if len(first) < 8:
            raise FormatError(f"{name}: it has {len(first)} bytes, fewer than the header's length takes")
        (length,) = struct.unpack("<Q", first)
        if length > HEADER_BYTES_MAX:
            raise FormatError(f"{name}: the header is said to have {length} bytes; at most {HEADER_BYTES_MAX} are read")
        if 8 + length > size:
            raise FormatError(f"{name}: the header is said to have {length} bytes, and the file ends after {size}")
        text = file.read(length)
    entries, metadata = _entries(name, _json(name, text))
    nbytes = size - 8 - length
    end = 0
    for entry in entries:
        if entry.begin != end:
            problem = "overlaps the one before" if entry.begin < end else "leaves a hole before it"
            raise FormatError(f"{name}: tensor {entry.name!r} begins at byte {entry.begin} of the data and {problem}, which ends at {end}")
        end = entry.end
    if end != nbytes:
        raise FormatError(f"{name}: the tensors have {end} bytes, and the file has {nbytes} of data: it is cut off, or not all is described")
    return Header(name, entries, metadata, 8 + length, nbytes)


def _json(name: str, text: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            again = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise FormatError(f"{name}: {again!r} stands twice in the header")
        return found

    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=once)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: the header is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise FormatError(f"{name}: the header is no JSON object")
    return found


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _entries(name: str, found: dict[str, Any]) -> tuple[tuple[Entry, ...], dict[str, str]]:
    metadata = found.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FormatError(f"{name}: __metadata__ is no object of strings")
    entries = []
    for key, said in found.items():
        if not isinstance(said, dict) or set(said) != {"dtype", "shape", "data_offsets"}:
            raise FormatError(f"{name}: tensor {key!r} has not dtype, shape and data_offsets")
        dtype, shape, offsets = said["dtype"], said["shape"], said["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _arrays.ITEMSIZE:
            raise FormatError(f"{name}: tensor {key!r} has the unknown type {dtype!r}")
        if not isinstance(shape, list) or not all(map(_is_size, shape)):
            raise FormatError(f"{name}: tensor {key!r} has the shape {str(shape)[:100]}")
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)) or offsets[0] > offsets[1]:
            raise FormatError(f"{name}: tensor {key!r} has the data_offsets {str(offsets)[:100]}")
        nbytes = _bytes_of(shape, dtype)
        if nbytes is None:
            raise FormatError(f"{name}: tensor {key!r} has the shape {str(shape)[:100]}, which is more than there can be")
        if nbytes != offsets[1] - offsets[0]:
            raise FormatError(f"{name}: tensor {key!r} of shape {shape} has {nbytes} bytes, and its data_offsets say {offsets[1] - offsets[0]}")
        entries.append(Entry(key, dtype, tuple(shape), *offsets))
    return tuple(sorted(entries, key=lambda entry: (entry.begin, entry.end))), metadata


def _bytes_of(shape: Sequence[int], dtype: str) -> int | None:
    """Bytes of a tensor; None where it has too many axes, or is too large, be it for an axis of 0."""
    if len(shape) > _AXES_MAX:
        return None
    nbytes = _arrays.ITEMSIZE[dtype]
    for length in shape:
        nbytes *= length or 1
    return None if nbytes >= 1 << 63 else 0 if 0 in shape else nbytes


def _paths(source: Any) -> tuple[list[str], dict[str, str]]:
    """The files of a path, of a list, or of an index (`model.safetensors.index.json`), which also says in which file each tensor is."""
    if isinstance(source, (list, tuple)):
        return [os.fsdecode(path) for path in source], {}
    path = os.fsdecode(source)
    if not path.endswith(".index.json"):
        return [path], {}
    with open(path, encoding="utf-8") as file:
        try:
            weights = dict(json.load(file)["weight_map"])
            names = sorted(set(weights.values()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError(f"{path}: no index of shards: {error!r}") from None
    if any(not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", "..") for name in names):
        raise FormatError(f"{path}: a shard does not lie beside it")
    beside = {name: os.path.join(os.path.dirname(path), name) for name in names}
    return list(beside.values()), {tensor: beside[name] for tensor, name in weights.items()}


def load(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    device: Any = None,
    names: Iterable[str] | None = None,
    framework: str | None = None,
    progress: Callable[[int, int], object] | bool | None = None,
) -> dict[str, Any]:
    """Loads tensors of a file, of a list of shards, or of an index of shards: a dictionary by name.

    `device` is PyTorch's; `names` loads only these, and reads only their bytes; `framework` is "pt" or "np". KeyError for a name that no
    file has; FormatError for a file that is not in the format.
    """
    kind = _arrays.framework(framework, device)
    if isinstance(names, str):
        raise TypeError(f"names is {names!r}, and is to be a list of names: [{names!r}]")
    wanted = None if names is None else set(names)
    paths, promised = _paths(source)
    headers = [header(path) for path in paths]
    parts: list[tuple[Any, Memory, int, None]] = []
    blocks: list[tuple[Any, list[tuple[Entry, int]]]] = []
    seen: dict[str, str] = {}
    for head in headers:
        for entry in head.entries:
            if entry.name in seen:
                raise FormatError(f"tensor {entry.name!r} is in {seen[entry.name]} and in {head.path}")
            seen[entry.name] = head.path
        places, ranges, nbytes = _layout(head, wanted)
        block = _arrays.empty((nbytes,), "U8", kind, device)
        blocks.append((block, places))
        if nbytes:
            whole = memory_of(block, True)
            for begin, end, place in ranges:
                part = Memory(whole.address + place, end - begin, whole.kind, whole.stream, block)
                parts.append((head.path, part, head.offset + begin, None))
            if whole.release:
                whole.release()
    for tensor, path in promised.items():
        if seen.get(tensor) != path:
            raise FormatError(f"{os.fsdecode(source)}: tensor {tensor!r} is not in {path}, where this index has it")  # type: ignore[arg-type]
    missing = sorted((wanted or set()) - set(seen))
    if missing:
        raise KeyError(f"no file has the tensor {missing[0]!r}")
    transfer = _transfer.start(True, parts, os.O_RDONLY) if parts else None
    # While the bytes come, the tensors are made on the memory where they will be.
    found: dict[str, Any] = {}
    unaligned: list[tuple[_arrays.Views, Entry, int]] = []
    try:
        for block, places in blocks:
            views = _arrays.Views(block, kind)
            for entry, place in places:
                tensor = views.view(place, entry.end - entry.begin, entry.dtype, entry.shape)
                found[entry.name] = tensor
                if tensor is None:
                    unaligned.append((views, entry, place))
    finally:
        moved = transfer.wait_or_end(progress) if transfer else []
    for count, (path, part, _, _) in zip(moved, parts):
        if count != part.nbytes:
            raise FormatError(f"{path}: it became shorter while it was read")
    for views, entry, place in unaligned:
        found[entry.name] = views.copy(place, entry.end - entry.begin, entry.dtype, entry.shape)
    return found


def _layout(head: Header, wanted: set[str] | None) -> tuple[list[tuple[Entry, int]], list[tuple[int, int, int]], int]:
    """Where each wanted tensor comes to lie in a block; the ranges of the data that are read, with their places; the block's length."""
    if wanted is None:
        ranges = [(0, head.nbytes, 0)] if head.nbytes else []
        return [(entry, entry.begin) for entry in head.entries], ranges, head.nbytes
    places, ranges, end = [], [], 0
    for entry in head.entries:
        if entry.name not in wanted:
            continue
        if ranges and ranges[-1][1] == entry.begin:
            begin, _, place = ranges[-1]
            ranges[-1] = (begin, entry.end, place)
            at = place + entry.begin - begin
        else:
            # As the data itself is aligned, but for what is before it.
            at = -(-end // 64) * 64 + entry.begin % 64
            ranges.append((entry.begin, entry.end, at))
        places.append((entry, at))
        end = at + entry.end - entry.begin
    return places, ranges, end


def save(
    tensors: Mapping[str, Any],
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    shards: int = 1,
    fsync: bool = False,
    progress: Callable[[int, int], object] | bool | None = None,
) -> None:
    """Saves tensors of PyTorch, CuPy or NumPy, wherever they lie.

    The files are written beside their places and renamed when they are whole: a failure, a full disk for one, leaves what was there.
    `fsync`: the data, then the names, are on the disk when this returns. `shards` files are `name-00001-of-00004.safetensors`, with
    `name.safetensors.index.json`.
    """
    prepared = {name: _prepared(name, tensor) for name, tensor in _checked(tensors, metadata).items()}
    if shards < 1:
        raise ValueError(f"shards is {shards}")
    target = Path(path)
    groups = _groups(prepared, shards)
    stem = target.name.removesuffix(".safetensors")
    named = [target] if shards == 1 else [target.with_name(f"{stem}-{index + 1:05}-of-{shards:05}.safetensors") for index in range(shards)]
    targets = [_place(path) for path in named]
    # Names of this save alone: another thread may save to the same path, another user may know what names come next.
    token = uuid.uuid4().hex[:12]
    temporary = [_part_of(place, token, number) for number, place in enumerate(targets)]
    index = _place(target.with_name(f"{stem}.safetensors.index.json")) if shards > 1 else target
    try:
        parts: list[tuple[Any, Memory, int, None]] = []
        try:
            for place, old, group in zip(temporary, targets, groups):
                parts += _begin(place, old, group, metadata)
        except BaseException:
            _transfer.release(memory for _, memory, _, _ in parts)
            raise
        if parts:
            _transfer.start(False, parts, os.O_WRONLY).wait_or_end(progress)
        if shards > 1:
            place = _part_of(index, token, shards)
            temporary.append(place)
            targets.append(index)
            total = sum(memory.nbytes for _, memory, _, _ in parts)
            weights = {name: path.name for path, group in zip(named, groups) for name, *_ in group}
            _make(place, index, json.dumps({"metadata": {"total_size": total}, "weight_map": weights}, indent=2).encode())
        if fsync:
            for place in temporary:
                _transfer._synchronize(place)
        for old, new in zip(temporary, targets):
            permissions = _permissions(new)
            if permissions is not None:
                os.chmod(old, permissions)
            os.replace(old, new)
        if fsync:
            for folder in {place.parent for place in targets}:
                _transfer._synchronize(folder)
    except BaseException as error:
        for place in temporary:
            place.unlink(missing_ok=True)
        # The caller knows no other names than those of the places.
        known = {str(place): target for place, target in zip(temporary, targets)}
        if isinstance(error, OSError) and str(error.filename) in known:
            raise OSError(error.errno, error.strerror, str(known[str(error.filename)])) from None
        raise


def _part_of(place: Path, token: str, number: int) -> Path:
    """Where a file is written before it comes to its place: a name that is not too long where that is not."""
    name = f".{place.name}.{token}.part"
    return place.with_name(name if len(os.fsencode(name)) < 256 else f".{token}-{number}.part")


def _place(path: Path) -> Path:
    """Where a file comes to be: behind a link, and in the place of nothing but a file."""
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        what = "a directory" if place.is_dir() else "no regular file"
        raise OSError(errno.EISDIR if place.is_dir() else errno.EINVAL, f"there is {what}, which is not replaced", str(path))
    return place


def _checked(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> Mapping[str, Any]:
    for name in tensors:
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"{name!r} is no name of a tensor")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is a {type(metadata).__name__}, and is to map strings to strings")
    if any(not isinstance(text, str) for pair in (metadata or {}).items() for text in pair):
        raise ValueError("metadata is to map strings to strings")
    return tensors


def _permissions(path: Path) -> int | None:
    """Those of a file that is there: what was for its owner alone stays so."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _make(path: Path, old: Path, content: bytes) -> None:
    """Makes a file that was not there, no more open to others than the one whose place it takes."""
    permissions = _permissions(old)
    mode = 0o666 if permissions is None else (permissions | 0o200) & 0o777
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _prepared(name: str, tensor: Any) -> Any:
    """A tensor as it can be written; an error names it."""
    if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):
        raise TypeError(f"{name!r} is a {type(tensor).__name__}, and no tensor")
    try:
        prepared = _contiguous(tensor)
        _arrays.dtype_name(prepared.dtype)
        _transfer.release([memory_of(prepared, False)])
    except (TypeError, ValueError) as error:
        raise type(error)(f"tensor {name!r}: {error}") from None
    return prepared


def _contiguous(tensor: Any) -> Any:
    """The tensor itself, or a copy that is contiguous and little-endian."""
    if _arrays.framework_of(tensor) == "pt":
        return contiguous(tensor)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        if isinstance(tensor, numpy.ma.MaskedArray):
            raise TypeError("the format has no masks: save what filled() gives")
        array = numpy.asarray(tensor, order="C")
        return array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.byteorder == ">" else array
    return tensor


def _groups(tensors: Mapping[str, Any], shards: int) -> list[list[tuple[str, str, Any]]]:
    """The tensors with their types in as many groups of like sizes, each in the order of the data: large elements first."""
    typed = [(name, _arrays.dtype_name(tensor.dtype), tensor) for name, tensor in tensors.items()]
    groups: list[list[tuple[str, str, Any]]] = [[] for _ in range(shards)]
    sizes = [0] * shards
    for item in sorted(typed, key=lambda item: -_nbytes(item[2])):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(item)
        sizes[smallest] += _nbytes(item[2])
    return [sorted(group, key=lambda item: (-_arrays.ITEMSIZE[item[1]], item[0])) for group in groups]


def _nbytes(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size() if hasattr(tensor, "element_size") else tensor.nbytes


def _begin(
    path: Path, old: Path, group: list[tuple[str, str, Any]], metadata: Mapping[str, str] | None
) -> list[tuple[Any, Memory, int, None]]:
    """Makes a file with its header, in the place of `old`; the parts of its data."""
    said: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, dtype, tensor in group:
        nbytes = _nbytes(tensor)
        said[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [end, end + nbytes]}
        end += nbytes
    text = json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    _make(path, old, struct.pack("<Q", len(text)) + text)
    at = 8 + len(text)
    return [
        (path, memory_of(tensor, False), at + said[name]["data_offsets"][0], None) for name, _, tensor in group if _nbytes(tensor)
    ]
