"""PyTorch Geometric's FeatureStore on files: features stay on disk or in the page cache, and rows of them come where a loader wants them.

    store = gpufs.pyg.FeatureStore(device="cuda")
    store.add("paper", "x", "paper-x.npy")
    loader = NeighborLoader((store, graph_store), ...)
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch_geometric.data import FeatureStore as _FeatureStore
from torch_geometric.data import TensorAttr

from ._gather import Rows

__all__ = ["FeatureStore"]

_ALL = slice(None)


class FeatureStore(_FeatureStore):
    """Features in `.npy` files or raw ones, one file for each attribute of each group. What is asked for comes to `device` (default: the host).

    Files are read, and not written: `put_tensor` is an error.
    """

    def __init__(self, device: Any = None) -> None:
        super().__init__()
        self._device = device
        self._rows: dict[tuple[Any, Any], Rows] = {}

    def add(self, group_name: Any, attr_name: str, source: str | os.PathLike[str] | Rows, **raw: Any) -> None:
        """An attribute of a group, as a file or `Rows`. A raw file takes `dtype`, `row_shape` and `offset` as `Rows` does."""
        rows = source if isinstance(source, Rows) else Rows(source, device=self._device, framework="pt", **raw)
        self._rows[group_name, attr_name] = rows

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise NotImplementedError(f"{attr}: this store reads files; write one (numpy.save, gpufs.write_from) and add() it")

    def _get_tensor(self, attr: TensorAttr) -> torch.Tensor:
        rows = self._rows.get((attr.group_name, attr.attr_name))
        if rows is None:
            raise KeyError(f"no file was added for {attr.attr_name!r} of {attr.group_name!r}")
        index = attr.index
        if index is None:
            index = _ALL
        elif getattr(index, "dtype", None) == torch.bool:
            if len(index) != len(rows):
                raise IndexError(f"{rows.path}: a mask of {len(index)} for {len(rows)} rows")
            index = index.nonzero().view(-1)
        return rows[index]

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        return self._rows.pop((attr.group_name, attr.attr_name), None) is not None

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        rows = self._rows.get((attr.group_name, attr.attr_name))
        return None if rows is None else torch.Size(rows.shape)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        return [self._tensor_attr_cls(group_name=group, attr_name=name) for group, name in self._rows]
