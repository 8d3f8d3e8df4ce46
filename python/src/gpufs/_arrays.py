"""Types of elements, and new tensors of NumPy and PyTorch."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

#: Types by the names that safetensors has for them: bytes of an element, NumPy's name, PyTorch's.
_TYPES = {
    "F64": (8, "float64", "float64"),
    "F32": (4, "float32", "float32"),
    "F16": (2, "float16", "float16"),
    "BF16": (2, "bfloat16", "bfloat16"),
    "F8_E4M3": (1, "float8_e4m3fn", "float8_e4m3fn"),
    "F8_E5M2": (1, "float8_e5m2", "float8_e5m2"),
    "F8_E8M0": (1, "float8_e8m0fnu", "float8_e8m0fnu"),
    "C64": (8, "complex64", "complex64"),
    "I64": (8, "int64", "int64"),
    "I32": (4, "int32", "int32"),
    "I16": (2, "int16", "int16"),
    "I8": (1, "int8", "int8"),
    "U64": (8, "uint64", "uint64"),
    "U32": (4, "uint32", "uint32"),
    "U16": (2, "uint16", "uint16"),
    "U8": (1, "uint8", "uint8"),
    "BOOL": (1, "bool", "bool"),
}
ITEMSIZE = {name: size for name, (size, _, _) in _TYPES.items()}
_BY_NAME = {numpy: name for name, (_, numpy, _) in _TYPES.items()}
_TYPESTR = {"f8": "F64", "f4": "F32", "f2": "F16", "c8": "C64", "i8": "I64", "i4": "I32", "i2": "I16", "i1": "I8"}
_TYPESTR |= {"u8": "U64", "u4": "U32", "u2": "U16", "u1": "U8", "b1": "BOOL"}


def framework(named: str | None, device: Any) -> str:
    """ "pt" or "np": what was named, else PyTorch where it is in use or a device is named, else NumPy where there is no PyTorch."""
    if named is not None:
        if named not in ("pt", "np"):
            raise ValueError(f"framework is {named!r}; use 'pt' (PyTorch) or 'np' (NumPy)")
        if named == "np" and device is not None and str(device) != "cpu":
            raise ValueError(f"NumPy has no tensors on {device}: use framework='pt'")
        return named
    if "torch" in sys.modules or (device is not None and str(device) != "cpu"):
        return "pt"
    return "pt" if importlib.util.find_spec("torch") else "np"


def framework_of(thing: Any) -> str:
    return "pt" if type(thing).__module__.split(".")[0] == "torch" else "np"


def from_typestr(text: Any) -> str:
    """The type of a .npy file's `descr`."""
    name = _TYPESTR.get(text[1:]) if isinstance(text, str) and text[:1] in "<|=" else None
    if name is None:
        raise ValueError(f"elements of type {text!r}")
    return name


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of NumPy or PyTorch, or of its name."""
    _check_order(dtype)
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    text = text.removeprefix("torch.")
    if text in _TYPES:
        return text
    if text not in _BY_NAME:
        try:
            import numpy

            text = numpy.dtype(dtype).name
        except (ImportError, TypeError):
            pass
    if text not in _BY_NAME:
        raise TypeError(f"there is no type {dtype!r} here; there are {', '.join(_BY_NAME)}")
    return _BY_NAME[text]


def _check_order(dtype: Any) -> None:
    order = getattr(dtype, "byteorder", None)
    if isinstance(dtype, str) and dtype[:1] in ("<", ">", "=", "|"):
        order = dtype[0]
    if order == (">" if sys.byteorder == "little" else "<"):
        raise TypeError(f"elements of type {dtype!r} have the other order of bytes than this machine: convert them, as NumPy's astype does")


def torch_dtype(name: str) -> Any:
    import torch

    dtype = getattr(torch, _TYPES[name][2], None)
    if dtype is None:
        raise TypeError(f"this PyTorch has no type {_TYPES[name][2]}")
    return dtype


def numpy_dtype(name: str) -> Any:
    import numpy

    text = _TYPES[name][1]
    try:
        return numpy.dtype(text)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"NumPy has no {text}: install ml_dtypes, which adds it, or use framework='pt'") from None
    return numpy.dtype(getattr(ml_dtypes, text))


def empty(shape: tuple[int, ...], name: str, kind: str, device: Any) -> Any:
    """A new tensor, whose content is what was there."""
    if kind == "pt":
        import torch

        return torch.empty(shape, dtype=torch_dtype(name), device=device)
    import numpy

    return numpy.empty(shape, numpy_dtype(name))


class Views:
    """Tensors on bytes of a block."""

    def __init__(self, block: Any, kind: str) -> None:
        self._block = block
        self._kind = kind
        #: The block as elements of each type, as far as it has whole ones.
        self._typed: dict[str, Any] = {}

    def view(self, begin: int, nbytes: int, name: str, shape: tuple[int, ...]) -> Any:
        """A tensor on the block's own bytes; None where they are not aligned for its type."""
        size = ITEMSIZE[name]
        if begin % size:
            return None
        typed = self._typed.get(name)
        if typed is None:
            whole = self._block[: len(self._block) // size * size]
            typed = whole.view(torch_dtype(name) if self._kind == "pt" else numpy_dtype(name))
            self._typed[name] = typed
        if self._kind == "pt":
            return typed.narrow(0, begin // size, nbytes // size).view(shape)
        return typed[begin // size : (begin + nbytes) // size].reshape(shape)

    def copy(self, begin: int, nbytes: int, name: str, shape: tuple[int, ...]) -> Any:
        """A tensor with a copy of bytes of the block, which have arrived."""
        part = self._block[begin : begin + nbytes]
        if self._kind == "pt":
            return part.clone().view(torch_dtype(name)).view(shape)
        return part.copy().view(numpy_dtype(name)).reshape(shape)
