"""PyTorch's checkpoints: `save` and `load` of a state dict, and a writer and a reader for `torch.distributed.checkpoint`.

`save` makes a safetensors file. What a state dict has beside tensors (numbers, texts, lists, dictionaries) stands in its metadata, as JSON: no
code is stored, and none runs when it is loaded. A flat state dict has its own names, so that every reader of the format finds them.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from . import safetensors

_KEY = "gpufs.torch"


def save(
    state: Any,
    path: str | os.PathLike[str],
    *,
    fsync: bool = False,
    progress: Callable[[int, int], object] | bool | None = None,
) -> None:
    """Saves a state dict, of a model or an optimizer, or several in one dictionary. The old file stays until the new one is whole.

    Tensors that share all their memory are stored once, and share it again when they are loaded. TypeError names what cannot be stored.
    """
    tensors: dict[str, torch.Tensor] = {}
    known: dict[tuple[Any, ...], str] = {}
    structure = _encode(state, "", tensors, known)
    safetensors.save(tensors, path, {_KEY: json.dumps(structure)}, fsync=fsync, progress=progress)


def load(
    path: str | os.PathLike[str], device: Any = None, *, progress: Callable[[int, int], object] | bool | None = None
) -> Any:
    """Loads what `save` saved, with its tensors on `device`. A plain safetensors file is a dictionary of its tensors."""
    head = safetensors.header(path)
    tensors = safetensors.load(path, device, framework="pt", progress=progress)
    if _KEY not in head.metadata:
        return tensors
    try:
        return _decode(json.loads(head.metadata[_KEY]), tensors)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise safetensors.FormatError(f"{os.fspath(path)}: the structure of the state dict cannot be read: {error!r}") from None


def _encode(value: Any, place: str, tensors: dict[str, torch.Tensor], known: dict[tuple[Any, ...], str]) -> Any:
    if isinstance(value, torch.Tensor):
        try:
            address = value.data_ptr()
        except RuntimeError:
            address = 0  # It has no memory of its own, which `safetensors.save` says by its name.
        same: tuple[Any, ...] = (id(value),)
        if address:
            same = (value.device, address, value.dtype, tuple(value.shape), value.stride(), value.is_conj(), value.is_neg())
        if same not in known:
            name = place or "tensor"
            while name in tensors or name == "__metadata__":
                name += "_"
            known[same], tensors[name] = name, value
        return {"tensor": known[same]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        kind = "list" if isinstance(value, list) else "size" if isinstance(value, torch.Size) else "tuple"
        return {kind: [_encode(item, f"{place}.{index}", tensors, known) for index, item in enumerate(value)]}
    if isinstance(value, dict):
        pairs = []
        for key, item in value.items():
            if not isinstance(key, (str, int, float, bool, type(None))):
                raise TypeError(f"the key {key!r} of {place or 'the state dict'} cannot be stored: it is no text and no number")
            pairs.append([key, _encode(item, f"{place}.{key}" if place else str(key), tensors, known)])
        return {"ordered" if isinstance(value, OrderedDict) else "dict": pairs}
    if isinstance(value, (torch.dtype, torch.device)):
        return {type(value).__name__: str(value).removeprefix("torch.")}
    raise TypeError(
        f"{place or 'the state dict'} is a {type(value).__name__}, which cannot be stored: tensors, numbers, texts, lists, tuples and "
        "dictionaries can; torch.save pickles others"
    )


def _decode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind in ("list", "tuple", "size"):
        items = [_decode(item, tensors) for item in content]
        return items if kind == "list" else tuple(items) if kind == "tuple" else torch.Size(items)
    if kind in ("dict", "ordered"):
        pairs = [(key, _decode(item, tensors)) for key, item in content]
        return OrderedDict(pairs) if kind == "ordered" else dict(pairs)
    if kind == "dtype" and isinstance(getattr(torch, content, None), torch.dtype):
        return getattr(torch, content)
    if kind == "device":
        return torch.device(content)
    raise ValueError(f"there is no kind {kind!r}")
