"""File I/O for GPU programs: weights in, checkpoints out, files in kernels.

    import gpufs

    gpufs.read_into(tensor, "weights.bin")                  # any tensor, on any device
    weights = gpufs.safetensors.load("model.safetensors", device="cuda")
    rows = gpufs.gather("table.npy", indices, device="cuda")
    with gpufs.Session(device=0) as session: ...            # files in kernels of one's own

Errors of the system are OSError, with errno and the file's name.
"""

from . import safetensors
from ._gather import Rows, gather
from ._library import doctor, include_directory, library_path, version
from ._memory import Memory
from ._session import Session, Stream
from ._transfer import (
    Transfer,
    configure_transfers,
    memory_kind,
    read_into,
    start_read_into,
    start_write_from,
    transfer_statistics,
    write_from,
)
from ._version import VERSION as __version__

__all__ = [
    "Memory",
    "Rows",
    "Session",
    "Stream",
    "Transfer",
    "__version__",
    "configure_transfers",
    "doctor",
    "gather",
    "include_directory",
    "library_path",
    "memory_kind",
    "read_into",
    "safetensors",
    "start_read_into",
    "start_write_from",
    "transfer_statistics",
    "version",
    "write_from",
]
