"""Storage for `torch.distributed.checkpoint`: one line of a training script changes.

    dcp.save(state, storage_writer=gpufs.checkpoint.Writer("checkpoint"))
    dcp.load(state, storage_reader=gpufs.checkpoint.Reader("checkpoint"))

Each rank writes its tensors as they lie, in a few files, in one bulk transfer; nothing is copied to the host by PyTorch. New files have new
names, and `.metadata` is renamed into place last: until then the old checkpoint is whole. Files that it alone named are removed afterwards.
The files are this package's own: `Reader` reads them, PyTorch's reader does not. Without collectives (`dcp.save(…, use_collectives=False)`) each
rank has metadata of its own, `__3.metadata`, as PyTorch's writer has.

What fails in a rank reaches the program as PyTorch's `CheckpointException`, which is no `Exception` but a `BaseException`: `failures` has the
error of each rank.
"""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
import traceback
import uuid
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import CheckpointException, Metadata, StorageReader, StorageWriter
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import _transfer
from ._memory import contiguous, is_plain, memory_of

_METADATA = ".metadata"


def _metadata_name(rank: int | None) -> str:
    """That of a whole checkpoint, or of one rank's part, as PyTorch names them."""
    return _METADATA if rank is None else f"__{rank}{_METADATA}"


#: Items begin at multiples of this.
_ALIGN = 512


@dataclasses.dataclass
class Place:
    """Where an item is stored."""

    file: str
    offset: int
    nbytes: int
    #: Of a tensor; None for bytes.
    dtype: str | None
    shape: tuple[int, ...]


class Writer(StorageWriter):
    """Writes a checkpoint to a directory. `files`: how many each rank writes. `fsync`: it is on the disk when `dcp.save` returns."""

    def __init__(self, path: str | os.PathLike[str], *, files: int = 8, fsync: bool = True) -> None:
        super().__init__()
        if files < 1:
            raise ValueError(f"files is {files}")
        self.path = Path(path)
        self._files = files
        self._fsync = fsync
        self._rank = 0
        #: Each rank writes metadata of its own.
        self._alone = False

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self.path = Path(checkpoint_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in str(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self._rank = kwargs.get("rank") or 0
        self._alone = not kwargs.get("use_collectives", True)
        self.path.mkdir(parents=True, exist_ok=True)
        if self._alone and (self.path / _METADATA).exists():
            # Readers prefer the one metadata of all ranks: they would go on loading the old checkpoint.
            raise ValueError(f"{self.path} holds a checkpoint that was saved with collectives: save into another folder")

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        return plans

    def write_data(self, plan: Any, planner: Any) -> Future[list[WriteResult]]:
        # Nothing of the plan names files: a planner may keep it, and hand it out again for the next checkpoint.
        stem = f"{uuid.uuid4().hex[:12]}-{self._rank:05}"
        ends = [0] * self._files
        parts: list[tuple[Any, Any, int, None]] = []
        results, names = [], set()
        try:
            for item in plan.items:
                data = planner.resolve_data(item)
                if item.type == WriteItemType.BYTE_IO:
                    source, dtype, shape = data.getbuffer(), None, ()
                else:
                    source = contiguous(data)
                    dtype, shape = str(source.dtype).removeprefix("torch."), tuple(source.shape)
                memory = memory_of(source, False)
                which = ends.index(min(ends))
                place = Place(f"{stem}-{which}.gpufs", ends[which], memory.nbytes, dtype, shape)
                ends[which] += -(-memory.nbytes // _ALIGN) * _ALIGN
                names.add(place.file)
                parts.append((self.path / place.file, memory, place.offset, None))
                results.append(WriteResult(index=item.index, size_in_bytes=memory.nbytes, storage_data=place))
        except BaseException:
            _transfer.release(memory for _, memory, _, _ in parts)
            raise
        try:
            if parts:
                _transfer.start(False, parts, os.O_WRONLY | os.O_CREAT).wait_or_end(None)
            if self._fsync:
                for name in names:
                    _transfer._synchronize(self.path / name)
        except BaseException:
            for name in names:
                (self.path / name).unlink(missing_ok=True)
            raise
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        # The metadata is the planner's, which may keep it.
        places = {result.index: result.storage_data for each in results for result in each}
        metadata = dataclasses.replace(metadata, storage_data=places, storage_meta=self.storage_meta())
        final = self.path / _metadata_name(self._rank if self._alone else None)
        temporary = self.path / f"{final.name}.{uuid.uuid4().hex[:12]}.part"
        try:
            with open(temporary, "wb") as file:
                pickle.dump(metadata, file)
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
            os.replace(temporary, final)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if self._fsync:
            _transfer._synchronize(self.path)
        named = {place.file for place in places.values()}
        stale = [old for old in self.path.glob(f"*-{self._rank:05}-*.gpufs" if self._alone else "*.gpufs") if old.name not in named]
        stale += [] if self._alone else self.path.glob(f"__*{_METADATA}")
        for old in stale:
            old.unlink(missing_ok=True)

    def storage_meta(self) -> Any:
        from torch.distributed.checkpoint.metadata import StorageMeta

        return StorageMeta(checkpoint_id=str(self.path))


class Reader(StorageReader):
    """Reads a checkpoint that `Writer` wrote. Its metadata is a pickle, as PyTorch's own: read only checkpoints that you trust."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path = Path(path)
        self._places: dict[Any, Place] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._places = {}
        if checkpoint_id:
            self.path = Path(checkpoint_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return (Path(checkpoint_id) / _METADATA).exists()

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        rank = kwargs.get("rank")
        path = self.path / _metadata_name(rank)
        try:
            with open(path, "rb") as file:
                metadata = pickle.load(file)
            if not isinstance(metadata, Metadata):
                raise ValueError(f"{path} is a {type(metadata).__name__}, and no metadata of a checkpoint")
            return metadata
        except FileNotFoundError as error:
            # PyTorch asks for the rank's own metadata next.
            if rank is None:
                raise
            missing = FileNotFoundError(error.errno, "there is no checkpoint: neither this file nor .metadata", str(path))
            raise _told(missing, rank) from None
        except OSError as error:
            raise _told(error, rank) from None
        except Exception as error:
            raise _told(ValueError(f"{path} is damaged: {type(error).__name__}: {error}"), rank) from None

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not all(isinstance(place, Place) for place in (metadata.storage_data or {}).values()):
            raise ValueError(f"{self.path} was not written by gpufs.checkpoint.Writer: read it with PyTorch's FileSystemReader")
        self._places = metadata.storage_data

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        return plans

    def read_data(self, plan: Any, planner: Any) -> Future[None]:
        parts: list[tuple[Any, Any, int, None]] = []
        after = []
        try:
            for request in plan.items:
                place = self._places[request.storage_index]
                if request.type == LoadItemType.BYTE_IO:
                    into: Any = bytearray(place.nbytes)
                    after.append((request, None, into))
                else:
                    target = planner.resolve_tensor(request).detach()
                    dtype = getattr(torch, str(place.dtype))
                    whole = tuple(request.lengths) == place.shape and target.dtype == dtype
                    into = target if whole and is_plain(target) else torch.empty(place.shape, dtype=dtype, device=target.device)
                    after.append((request, target, into))
                memory = memory_of(into, True)
                parts.append((self.path / place.file, memory, place.offset, None))
                if memory.nbytes != place.nbytes:
                    raise ValueError(f"{request.storage_index} has {memory.nbytes} bytes, and {place.nbytes} were stored")
        except BaseException:
            _transfer.release(memory for _, memory, _, _ in parts)
            raise
        moved = _transfer.start(True, parts, os.O_RDONLY).wait_or_end(None) if parts else []
        for count, (path, memory, _, _) in zip(moved, parts):
            if count != memory.nbytes:
                raise ValueError(f"{path} is cut off: {count} of {memory.nbytes} bytes of an item are there")
        for request, target, into in after:
            if target is None:
                planner.load_bytes(request, io.BytesIO(bytes(into)))
                continue
            if into is not target:
                for axis, (offset, length) in enumerate(zip(request.storage_offsets, request.lengths)):
                    into = into.narrow(axis, offset, length)
                target.copy_(into)
            planner.commit_tensor(request, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future


def _told(error: Exception, rank: int | None) -> CheckpointException:
    """An error of the metadata as PyTorch tells those of ranks: `dcp.load` passes over any `Exception`, and then says that there is none."""
    return CheckpointException(str(error), {rank or 0: (error, traceback.extract_tb(error.__traceback__))})
