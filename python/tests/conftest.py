"""What all tests share: kernels for CPU lanes compiled by cc, and lines that `cargo xtask test` counts."""

import ctypes
import functools
import shutil
import subprocess
import sys

import pytest

import gpufs


def pytest_terminal_summary(terminalreporter):
    """SKIP lines with reasons; failed tests by name, each with the end of its traceback; the number of tests, as `cargo test` says it."""
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        terminalreporter.write_line(f"SKIP {report.nodeid.split('/')[-1]}: {reason.removeprefix('Skipped: ')}")
    wrong = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
    for report in wrong:
        terminalreporter.write_line(f"test {report.nodeid.split('/')[-1]} ... FAILED")
        for line in report.longreprtext.rstrip().splitlines()[-15:]:
            terminalreporter.write_line(f"    {line[:300]}")
    if not wrong:
        terminalreporter.write_line(f"test result: ok. {len(terminalreporter.stats.get('passed', []))} passed")


#: Says how many NVIDIA GPUs the driver has. In a process of its own: tests fork, which a driver that has begun does not outlive.
_COUNT = """
import ctypes
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(0 if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) else count.value)
"""


@functools.cache
def nvidia_gpus():
    """How many NVIDIA GPUs the driver has; 0 where there is no driver, or it does not begin."""
    said = subprocess.run([sys.executable, "-c", _COUNT], capture_output=True, text=True)
    return int(said.stdout) if said.returncode == 0 else 0


@pytest.fixture
def without_gpu():
    """For tests of what is said where there is no GPU."""
    if nvidia_gpus():
        pytest.skip(f"the driver has {nvidia_gpus()} NVIDIA GPUs")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Compiles C for CPU lanes: the library with its kernels."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler 'cc', which kernels for CPU lanes take")

    def build(source):
        folder = tmp_path_factory.mktemp("kernel")
        (folder / "kernel.c").write_text("#include <gpufs/stdio.h>\n#include <gpufs/file.h>\n" + source)
        command = [compiler, "-O1", "-shared", "-fPIC", f"-I{gpufs.include_directory()}"]
        subprocess.run([*command, str(folder / "kernel.c"), "-o", str(folder / "kernel.so")], check=True)
        gpufs.version()  # libgpufs is loaded before what calls it.
        return ctypes.CDLL(str(folder / "kernel.so"))

    return build
