"""Rows of a large array on disk by an index: gather, and a dataset of rows."""

from __future__ import annotations

import ast
import ctypes
import dataclasses
import operator
import os
import struct
from collections.abc import Sequence
from typing import Any

from . import _arrays, _transfer
from ._memory import Memory, memory_of

_MAGIC = b"\x93NUMPY"
#: So many bytes take longer to read than their indices to be looked at.
_LARGE = 64 << 20


class Rows:
    """A .npy file, or a raw one, as rows: `rows[3]`, `rows[indices]`, `len(rows)`. Its rows are the first axis.

    A raw file takes `dtype` (NumPy's name: "float32"; "bfloat16" with PyTorch) and `row_shape`, and `offset`, where the rows begin; what is behind
    its last whole row is left alone.
    As a dataset of `torch.utils.data` it reads each batch at once (`__getitems__`).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dtype: Any = None,
        row_shape: Sequence[int] | None = None,
        offset: int = 0,
        device: Any = None,
        framework: str | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.device = device
        self.framework = _arrays.framework(framework, device)
        if dtype is None and offset:
            raise ValueError(f"offset is {offset}: a .npy file says itself where its rows begin")
        if (dtype is None) != (row_shape is None):
            raise ValueError("a raw file takes both dtype and row_shape, a .npy file neither")
        size = os.stat(self.path).st_size
        if row_shape is None:
            self.dtype, shape, self.offset = _npy_header(self.path, size)
            self.row_shape, count = shape[1:], shape[0]
        else:
            self.dtype, self.row_shape, self.offset, count = _arrays.dtype_name(dtype), tuple(row_shape), offset, None
            if offset < 0 or any(length < 0 for length in self.row_shape):
                raise ValueError(f"offset is {offset} and row_shape {self.row_shape}: neither has negative numbers")
        self.row_bytes = _arrays.ITEMSIZE[self.dtype]
        for length in self.row_shape:
            self.row_bytes *= length
        if self.row_bytes <= 0:
            raise ValueError(f"{self.path}: a row has no bytes")
        there = max(size - self.offset, 0) // self.row_bytes
        if count is not None and count > there:
            raise ValueError(f"{self.path}: the header says {count} rows of {self.row_bytes} bytes, and the file ends after {there}")
        self._count = there if count is None else count

    def __len__(self) -> int:
        return self._count

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._count, *self.row_shape)

    def gather(self, indices: Any, out: Any = None) -> Any:
        """The rows of these indices, in their order, on the device. `out`: a tensor for them."""
        count = len(indices) if out is None and getattr(indices, "ndim", 0) == 1 else 0
        # Threads read the first rows while the other indices are fetched from the GPU and looked at. What is given as `out` is left alone
        # until all are known to be right.
        first = count // 8 if count * self.row_bytes >= _LARGE else 0
        places = self._places(indices[:first] if first else indices)
        shape = (max(count, places.size), *self.row_shape)
        if out is None:
            out = _arrays.empty(shape, self.dtype, self.framework, self.device)
        elif hasattr(out, "dtype") and (_arrays.dtype_name(out.dtype), tuple(out.shape)) != (self.dtype, shape):
            raise ValueError(f"out has elements of type {out.dtype} and the shape {tuple(out.shape)}; the rows have {self.dtype} and {shape}")
        memory = memory_of(out, True)
        if memory.nbytes != shape[0] * self.row_bytes:
            _transfer.release([memory])
            raise ValueError(f"out has {memory.nbytes} bytes, and {shape[0]} rows of {self.row_bytes} bytes are {shape[0] * self.row_bytes}")
        if shape[0] == 0:
            _transfer.release([memory])
            return out
        if not first:
            self._start(memory, places).wait_or_end(None)
            return out
        nbytes = first * self.row_bytes
        begun = [self._start(dataclasses.replace(memory, nbytes=nbytes), places)]
        failed = None
        try:
            rest = dataclasses.replace(memory, address=memory.address + nbytes, nbytes=memory.nbytes - nbytes)
            begun.append(self._start(rest, self._places(indices[first:])))
        except BaseException as error:
            failed = error
        for transfer in begun:
            try:
                transfer.wait_or_end(None)
            except BaseException as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return out

    def _places(self, indices: Any) -> Any:
        """Where the rows of these indices begin, behind `offset`."""
        import numpy

        if hasattr(indices, "detach"):
            indices = indices.detach().cpu().numpy()
        elif hasattr(indices, "get") and hasattr(indices, "__cuda_array_interface__"):
            indices = indices.get()
        index = numpy.asarray(indices)
        if index.size == 0 and not hasattr(indices, "dtype"):
            # NumPy has floating-point numbers where there are none.
            index = index.astype(numpy.int64)
        if index.dtype.kind not in "iu":
            raise TypeError(f"indices are {index.dtype}, and are to be integers")
        if index.ndim != 1:
            raise ValueError(f"indices have {index.ndim} axes, and are to have one")
        least = int(index.min()) if index.size else 0
        if least < -self._count or index.size and int(index.max()) >= self._count:
            wrong = least if least < -self._count else int(index.max())
            raise IndexError(f"{self.path}: row {wrong} is not in the {self._count} rows")
        if least < 0:
            index = numpy.where(index < 0, index.astype(numpy.int64) + self._count, index)
        return numpy.multiply(index, self.row_bytes, dtype=numpy.int64, casting="unsafe")

    def _start(self, memory: Memory, places: Any) -> _transfer.Transfer:
        rows = (self.row_bytes, places.ctypes.data_as(ctypes.c_void_p))
        # The offsets are copied when the transfer starts.
        return _transfer.start(True, [(self.path, memory, self.offset, rows)], os.O_RDONLY)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.gather(range(*index.indices(self._count)))
        if isinstance(index, int) or getattr(index, "ndim", 1) == 0:
            row = operator.index(index)
            if not -self._count <= row < self._count:
                raise IndexError(f"{self.path}: row {row} is not in the {self._count} rows")
            return self.gather([row])[0]
        return self.gather(index)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return list(self.gather(indices))


def gather(
    source: str | os.PathLike[str] | Rows,
    indices: Any,
    *,
    device: Any = None,
    out: Any = None,
    dtype: Any = None,
    row_shape: Sequence[int] | None = None,
    offset: int = 0,
    framework: str | None = None,
) -> Any:
    """Rows of a .npy file, of a raw file (`dtype` and `row_shape`), or of `Rows`, by an array or tensor of indices: a tensor on `device`.

    Only the rows are read. On a GPU without PyTorch give an array as `out`.
    """
    if isinstance(source, Rows):
        rows = source
    else:
        rows = Rows(source, dtype, row_shape, offset, device, framework if out is None or framework else _arrays.framework_of(out))
    return rows.gather(indices, out)


def _npy_header(path: str, size: int) -> tuple[str, tuple[int, ...], int]:
    """The dtype, shape and offset that a .npy file says (NEP 1)."""
    wrong = ValueError
    with open(path, "rb") as file:
        head = file.read(12)
        if head[:6] != _MAGIC or len(head) < 12:
            raise wrong(f"{path} is no .npy file: for a raw one, give dtype and row_shape")
        length, begin = (struct.unpack("<H", head[8:10])[0], 10) if head[6] == 1 else (struct.unpack("<I", head[8:12])[0], 12)
        if begin + length > min(size, 1 << 20):
            raise wrong(f"{path}: the header is said to have {length} bytes")
        file.seek(begin)
        text = file.read(length).decode("latin-1")
    try:
        header = ast.literal_eval(text.strip())
        kind, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
        dtype = _arrays.from_typestr(kind)
        shape = tuple(shape)
        good = all(isinstance(length, int) and length >= 0 for length in shape)
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise wrong(f"{path}: the header cannot be read: {error}") from None
    if fortran and len(shape) > 1:
        raise wrong(f"{path}: its rows are scattered, since it is in Fortran's order")
    if not good or not shape:
        raise wrong(f"{path}: the shape {shape} has no rows")
    return dtype, shape, begin + length
