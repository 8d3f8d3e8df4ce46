"""Samples of the documents that need no GPU run as they stand there; the others compile."""

from pathlib import Path

import pytest

import documents

pytest.importorskip("numpy", reason="there is no NumPy")
ROOT = Path(__file__).parent.parent.parent
FOUND = [
    (name, index, *sample)
    for name in ("README.md", "python/README.md")
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
