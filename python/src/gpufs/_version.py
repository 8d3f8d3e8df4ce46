"""The package's version, which is that of libgpufs."""

VERSION = "0.1.0"
