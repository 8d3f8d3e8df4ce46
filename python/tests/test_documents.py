"""Samples of the documents that need no GPU run as they stand there; the others compile."""

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

import pytest

import documents

pytest.importorskip("numpy", reason="there is no NumPy")
ROOT = Path(__file__).parent.parent.parent
FOUND = [
    (name, index, *sample)
    for name in ("README.md", "python/README.md", "docs/start/python.md")
    if (ROOT / name).exists()
    for index, sample in enumerate(documents.samples(ROOT / name))
]


@pytest.mark.parametrize("name, index, kind, file, lines, text", FOUND, ids=[f"{name}-{index}" for name, index, *_ in FOUND])
def test_samples(name, index, kind, file, lines, text):
    compile(text, f"{name} sample {index}", "exec")
    assert kind in documents.NEEDS
    if kind == "cpu":
        assert documents.run(file, lines, text) is None


def test_there_are_samples():
    assert sum(kind == "cpu" for _, _, kind, *_ in FOUND) >= 1


@pytest.mark.parametrize("says, skipped", [("raise AttributeError('`np.row_stack` was removed')", True), ("raise ImportError('other')", False), ("", False)])
def test_versions_that_do_not_go_together_are_skipped_by_name(tmp_path, monkeypatch, capsys, says, skipped):
    """A Numba whose import says so; the sample itself fails, which is seen where it is not skipped."""
    if importlib.util.find_spec("numba_cuda") is not None:
        pytest.skip("numba-cuda is installed, and leads imports of numba.cuda to itself")
    for name, text in {"numba/__init__.py": "", "numba/cuda/__init__.py": "", "numba/cuda/np/__init__.py": "", "numba/cuda/np/arrayobj.py": says}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "numba_cuda.py").write_text("")
    (tmp_path / "numba_cuda-0.30.4.dist-info").mkdir()
    (tmp_path / "numba_cuda-0.30.4.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: numba-cuda\nVersion: 0.30.4\n")
    (tmp_path / "document").write_text("```python numba stdout:1\nraise SystemExit('it ran')\n```\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    failed = documents.main(tmp_path / "document", "numba", "torch")
    said = capsys.readouterr().out
    assert "SKIP sample torch: " in said and "has none" in said
    if skipped:
        version = importlib.metadata.version("numpy")
        assert failed == 0 and f"SKIP sample numba: numba-cuda 0.30.4 takes numpy.row_stack, which NumPy {version} has no more" in said
    else:
        assert failed == 1 and "it ran" in said
