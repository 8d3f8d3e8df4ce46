"""What all tests share: kernels for CPU lanes compiled by cc, and lines that `cargo xtask test` counts."""

import ctypes
import shutil
import subprocess

import pytest

import gpufs


def pytest_terminal_summary(terminalreporter):
    """SKIP lines with reasons, and the number of tests, as `cargo test` says it."""
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        terminalreporter.write_line(f"SKIP {report.nodeid.split('/')[-1]}: {reason.removeprefix('Skipped: ')}")
    if not terminalreporter.stats.get("failed") and not terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"test result: ok. {len(terminalreporter.stats.get('passed', []))} passed")


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
