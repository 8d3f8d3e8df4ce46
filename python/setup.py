"""The wheel's tag: one wheel for every CPython, and for Linux on x86-64, because libgpufs is inside.

`cargo xtask wheel` says by GPUFS_WHEEL_PLATFORM which glibc the library needs."""

import os

from setuptools import setup
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", os.environ.get("GPUFS_WHEEL_PLATFORM", "linux_x86_64")


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"bdist_wheel": Wheel}, distclass=WithLibrary)
