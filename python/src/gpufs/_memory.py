"""What lies behind an object: tensors of PyTorch, arrays of CuPy, Numba, NumPy and JAX, bytes. Its address, its length, its stream."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: Kinds of memory by name, as <gpufs/transfer.h> numbers them. 0: libgpufs asks the driver.
KINDS = {"pageable": 1, "pinned": 2, "device": 3, "managed": 4}


@dataclass
class Memory:
    """A stretch of memory. Made by hand, it names memory that no object stands for: `Memory(address, nbytes, kind="device")`."""

    address: int
    nbytes: int
    #: "pageable", "pinned", "device", "managed"; None: it is found out.
    kind: str | None = None
    #: A CUDA stream whose queued work uses the memory; None: there is none.
    stream: int | None = None
    #: What keeps the memory alive.
    owner: object = None
    #: Called when the transfer has ended.
    release: Callable[[], None] | None = field(default=None, repr=False)
    #: The GPU that the stream belongs to, where it is known; a stream's number says nothing of it.
    gpu: int | None = None
    #: Waits for what is queued in the stream.
    ready: Callable[[], None] | None = field(default=None, repr=False)


class _PyBuffer(ctypes.Structure):
    """`Py_buffer` of CPython."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def memory_of(thing: Any, writable: bool, kind: str | None = None) -> Memory:
    """The memory of `thing`, which is to be contiguous; for a read it must be `writable`."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; use one of {', '.join(KINDS)}, or leave it out")
    if isinstance(thing, Memory):
        if thing.kind is not None and thing.kind not in KINDS:
            raise ValueError(f"kind is {thing.kind!r}; use one of {', '.join(KINDS)}, or None")
        found = thing
    elif _is_torch(thing):
        found = _of_torch(thing)
    elif hasattr(thing, "__cuda_array_interface__"):
        found = _of_cuda_array(thing, writable)
    elif _exports_buffer(thing):
        found = _of_buffer(thing, writable)
    elif hasattr(thing, "__dlpack__"):
        found = _of_dlpack(thing)
    else:
        raise TypeError(
            f"{type(thing).__name__} has no memory to transfer: it is no tensor of PyTorch, and has neither "
            "__cuda_array_interface__ nor __dlpack__ nor the buffer protocol"
        )
    if kind is not None:
        found.kind = kind
    return found


def _is_torch(thing: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def is_plain(tensor: Any) -> bool:
    """Whether a tensor of PyTorch lies in memory as it is: its elements one after the other, and none of them negated by a view."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def contiguous(tensor: Any) -> Any:
    """The tensor of PyTorch itself, or a copy that is plain; one of another layout as it is, which `memory_of` refuses."""
    if tensor.layout != sys.modules["torch"].strided:
        return tensor
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _of_torch(tensor: Any) -> Memory:
    torch = sys.modules["torch"]
    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout} has no memory of its own: transfer the tensors that it is made of")
    if tensor.device.type not in ("cuda", "cpu"):
        raise ValueError(f"a tensor on {tensor.device} cannot be transferred: it is to be on a CUDA device or the CPU")
    nbytes = tensor.numel() * tensor.element_size()
    try:
        address = tensor.data_ptr()
    except RuntimeError:
        address = 0
    if nbytes and not address:
        raise ValueError(f"a {type(tensor).__name__} has no memory of its own: transfer the tensor in it (of a DTensor, to_local())")
    if not is_plain(tensor):
        problem = "not contiguous" if not tensor.is_contiguous() else "a view that negates what lies in memory"
        raise ValueError(f"the tensor is {problem}: transfer tensor.resolve_conj().resolve_neg().contiguous(), or a copy of its own")
    if tensor.device.type == "cuda":
        stream = torch.cuda.current_stream(tensor.device)
        return Memory(address, nbytes, None, stream.cuda_stream, tensor, None, tensor.device.index, stream.synchronize)
    # Without CUDA in use nothing is pinned, and the driver need not be woken to say so.
    return Memory(address, nbytes, None if torch.cuda.is_initialized() else "pageable", None, tensor)


def _of_cuda_array(array: Any, writable: bool) -> Memory:
    interface = array.__cuda_array_interface__
    address, readonly = interface["data"]
    if readonly and writable:
        raise ValueError("the array is read-only")
    itemsize = int(interface["typestr"][2:])
    shape, strides = interface["shape"], interface.get("strides")
    nbytes = itemsize
    for length in shape:
        nbytes *= length
    if strides is not None and nbytes:
        expected = itemsize
        for length, stride in zip(reversed(shape), reversed(strides)):
            if length > 1 and stride != expected:
                raise ValueError("the array is not contiguous in C's order")
            expected *= length
    return Memory(address or 0, nbytes, None, interface.get("stream"), array)


def _exports_buffer(thing: object) -> bool:
    return bool(ctypes.pythonapi.PyObject_CheckBuffer(ctypes.py_object(thing)))


def _has_objects(thing: Any) -> bool:
    """Whether what lies in memory are addresses of Python's objects, which are no bytes of a file."""
    dtype = getattr(thing, "dtype", None)
    if dtype is not None:
        return bool(getattr(dtype, "hasobject", False)) or getattr(dtype, "kind", "") in ("O", "T")
    try:
        with memoryview(thing) as view:
            return "O" in view.format
    except (BufferError, ValueError):
        return False


def _of_buffer(thing: object, writable: bool) -> Memory:
    if _has_objects(thing):
        raise TypeError(f"{type(thing).__name__} holds objects of Python, or texts of any length: they have no bytes that a file could hold")
    view = _PyBuffer()
    # PyBUF_WRITABLE, PyBUF_C_CONTIGUOUS. Without PyBUF_FORMAT: NumPy has none for bfloat16 and for dates.
    flags = (0x1 if writable else 0) | 0x38
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    try:
        get(thing, ctypes.byref(view), flags)
    except (BufferError, ValueError) as error:
        raise ValueError(f"{type(thing).__name__}: {error}") from None

    def release() -> None:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))

    return Memory(view.buf or 0, view.len, _host_kind(), None, thing, release)


def _host_kind() -> str | None:
    """Memory of the host may be pinned only where something in the process uses CUDA."""
    used = any(name in sys.modules for name in ("cupy", "numba.cuda", "jax", "cuda"))
    torch = sys.modules.get("torch")
    return None if used or (torch is not None and torch.cuda.is_initialized()) else "pageable"


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def _of_dlpack(thing: Any) -> Memory:
    """DLPack's capsule, which is kept until the transfer has ended, and never taken over: its own destructor frees it."""
    device_type, _ = thing.__dlpack_device__()
    # 2: CUDA, 13: CUDA managed. 1: the legacy default stream.
    on_gpu = device_type in (2, 13)
    capsule = thing.__dlpack__(stream=1) if on_gpu else thing.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    count, expected = 1, 1
    for index in reversed(range(tensor.ndim)):
        length = tensor.shape[index]
        if tensor.strides and length > 1 and tensor.strides[index] != expected:
            raise ValueError("the tensor is not contiguous in C's order")
        expected *= length
        count *= length
    kinds = {1: None, 2: None, 3: "pinned", 13: "managed"}
    if tensor.device_type not in kinds:
        raise ValueError(f"memory of DLPack's device type {tensor.device_type} cannot be transferred")
    nbytes = count * tensor.lanes * tensor.bits // 8
    address = (tensor.data or 0) + tensor.byte_offset
    return Memory(address, nbytes, kinds[tensor.device_type], 1 if on_gpu else None, (thing, capsule))
