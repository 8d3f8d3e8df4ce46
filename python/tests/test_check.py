"""What the tests themselves rest on: the driver is asked for GPUs; failed tests are named; a check on a GPU machine goes on to its end."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import conftest
import pytest

import gpufs

CHECK = Path(__file__).parent.parent.parent / "tests/gpu/python_check"


@pytest.mark.parametrize("init, count", [(0, 2), (0, 0), (100, 0)])
def test_the_driver_is_asked_for_gpus(tmp_path, monkeypatch, init, count):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler 'cc', which makes a driver for this test")
    source = f"int cuInit(unsigned flags) {{ return {init}; }} int cuDeviceGetCount(int *count) {{ *count = {count}; return 0; }}"
    (tmp_path / "driver.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", str(tmp_path / "driver.c"), "-o", str(tmp_path / "libcuda.so.1")], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert conftest.nvidia_gpus.__wrapped__() == count


FAILS = """
import pytest

def test_good(): pass
def test_bad(): assert 1 == 2, "one is not two"
def test_left_out(): pytest.skip("of no use here")
"""
ENDLESS = """
import time

def test_first(): assert False, "before the endless one"
def test_endless(): time.sleep(1000)
"""


@pytest.mark.parametrize("tests, named", [(FAILS, ["test_some.py::test_bad", "one is not two"]), (ENDLESS, ["before the endless one", "not done after 20 s"])])
def test_a_check_goes_on_and_says_what_failed(tmp_path, tests, named):
    if not CHECK.exists():
        pytest.skip("the check is not beside these tests")
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (tmp_path / "python/tests").mkdir(parents=True)
    shutil.copy(CHECK, tmp_path)
    for file in ("conftest.py", "documents.py"):
        shutil.copy(Path(__file__).with_name(file), tmp_path / "python/tests")
    (tmp_path / "python/tests/test_some.py").write_text(tests)
    (tmp_path / "python/README.md").write_text("```python cupy stdout:1\nimport only_numbas\n```\n")
    (tmp_path / "gpufs-0-py3-none-any.whl").write_bytes(b"no wheel")
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels/gpufs-1-py3-none-any.whl", "w") as wheel:
        for file in Path(gpufs.__file__).parent.glob("*.py"):
            wheel.write(file, f"gpufs/{file.name}")
        wheel.writestr("cupy.py", "")
    (tmp_path / "wheels/numba").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels/numba/numpy-0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("only_numbas.py", "")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = subprocess.run(
        ["bash", str(tmp_path / "python_check"), "--no-bench", "--tests-limit", "20", str(tmp_path / "work")],
        env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
    )
    before, table = said.stdout.rsplit("\n\n", 1)
    steps = {line[:16].strip(): line for line in table.splitlines()}
    assert list(steps) == ["unpack", "versions", "tests", "sample cupy", "sample torch", "sample numba"], said.stdout
    assert "FAILED: gpufs-0-py3-none-any.whl" in steps["unpack"] and "FAILED" in steps["versions"] and "FAILED" in steps["tests"]
    assert "FAILED" in steps["sample cupy"] and "No module named 'only_numbas'" in before
    assert (tmp_path / "work/site-numba/only_numbas.py").exists()
    assert "SKIP" in steps["sample numba"] and "ok" not in steps["sample numba"]
    assert all(text in said.stdout for text in named), said.stdout
    assert said.returncode == 1
