"""Storage for `torch.distributed.checkpoint`: one line of a training script changes.

    dcp.save(state, storage_writer=gpufs.checkpoint.Writer("checkpoint"))
    dcp.load(state, storage_reader=gpufs.checkpoint.Reader("checkpoint"))

Each rank writes its tensors as they lie, in a few files, in one bulk transfer; nothing is copied to the host by PyTorch. New files have new
names, and `.metadata` is renamed into place last: until then the old checkpoint is whole. Files that it alone named are removed afterwards.
The files are this package's own: `Reader` reads them, PyTorch's reader does not.
"""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
import uuid
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import Metadata, StorageReader, StorageWriter
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import _transfer
from ._memory import memory_of

_METADATA = ".metadata"
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

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self.path = Path(checkpoint_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in str(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        token = uuid.uuid4().hex[:12]
        return [dataclasses.replace(plan, storage_data=f"{token}-{rank:05}") for rank, plan in enumerate(plans)]

    def write_data(self, plan: Any, planner: Any) -> Future[list[WriteResult]]:
        ends = [0] * self._files
        parts, results, names = [], [], set()
        for item in plan.items:
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                source, dtype, shape = data.getbuffer(), None, ()
            else:
                source = data.detach().contiguous()
                dtype, shape = str(source.dtype).removeprefix("torch."), tuple(source.shape)
            memory = memory_of(source, False)
            which = ends.index(min(ends))
            place = Place(f"{plan.storage_data}-{which}.gpufs", ends[which], memory.nbytes, dtype, shape)
            ends[which] += -(-memory.nbytes // _ALIGN) * _ALIGN
            names.add(place.file)
            parts.append((self.path / place.file, memory, place.offset, None))
            results.append(WriteResult(index=item.index, size_in_bytes=memory.nbytes, storage_data=place))
        if parts:
            _transfer.start(False, parts, os.O_WRONLY | os.O_CREAT).wait()
        if self._fsync:
            for name in names:
                _transfer._synchronize(self.path / name)
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {result.index: result.storage_data for each in results for result in each}
        metadata.storage_meta = self.storage_meta()
        final, temporary = self.path / _METADATA, self.path / f"{_METADATA}.{uuid.uuid4().hex[:12]}.part"
        with open(temporary, "wb") as file:
            pickle.dump(metadata, file)
            file.flush()
            if self._fsync:
                os.fsync(file.fileno())
        os.replace(temporary, final)
        if self._fsync:
            _transfer._synchronize(self.path)
        named = {place.file for place in metadata.storage_data.values()}
        for old in self.path.glob("*.gpufs"):
            if old.name not in named:
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
        with open(self.path / _METADATA, "rb") as file:
            return pickle.load(file)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not all(isinstance(place, Place) for place in (metadata.storage_data or {}).values()):
            raise ValueError(f"{self.path} was not written by gpufs.checkpoint.Writer: read it with PyTorch's FileSystemReader")
        self._places = metadata.storage_data

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        return plans

    def read_data(self, plan: Any, planner: Any) -> Future[None]:
        parts, after = [], []
        for request in plan.items:
            place = self._places[request.storage_index]
            if request.type == LoadItemType.BYTE_IO:
                into: Any = bytearray(place.nbytes)
                after.append((request, None, into))
            else:
                target = planner.resolve_tensor(request).detach()
                dtype = getattr(torch, str(place.dtype))
                whole = tuple(request.lengths) == place.shape and target.dtype == dtype
                into = target if whole and target.is_contiguous() else torch.empty(place.shape, dtype=dtype, device=target.device)
                after.append((request, target, into))
            memory = memory_of(into, True)
            if memory.nbytes != place.nbytes:
                raise ValueError(f"{request.storage_index} has {memory.nbytes} bytes, and {place.nbytes} were stored")
            parts.append((self.path / place.file, memory, place.offset, None))
        moved = _transfer.start(True, parts, os.O_RDONLY).wait() if parts else []
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
