"""Runs the samples of a document, as they stand there, and counts their output.

    python3 documents.py FILE KIND...

A sample begins with ```python KIND FILE:LINES. It runs in a folder of its own; then FILE there, or what it printed ("stdout"), has so many lines, all
of them different. Kinds: cpu, cupy, torch, numba; one whose modules are not here is skipped by name."""

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

NEEDS = {"cpu": ["numpy"], "cupy": ["cupy"], "torch": ["torch", "cuda"], "numba": ["numba", "numba_cuda"]}


def samples(document):
    """Kind, file, lines and text of each."""
    pattern = r"^```python (\w+) (\S+):(\d+)\n(.*?)^```$"
    for found in re.finditer(pattern, Path(document).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        yield found[1], found[2], int(found[3]), found[4]


def run(file, lines, text, limit=300):
    """What is wrong with a sample; None if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sample.py").write_text(text, encoding="utf-8")
        try:
            said = subprocess.run([sys.executable, "sample.py"], cwd=folder, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return f"not done after {limit} s"
        if said.returncode != 0:
            return f"status {said.returncode}: {said.stderr.strip()[-2000:]}"
        output = said.stdout if file == "stdout" else (Path(folder) / file).read_text(encoding="utf-8")
        found = output.splitlines()
        return None if len(found) == len(set(found)) == lines else f"{len(set(found))} different lines of {len(found)} in {file}, not {lines}"


def main(document, *kinds):
    failed = 0
    for kind, file, lines, text in samples(document):
        if kind not in kinds:
            continue
        missing = [name for name in NEEDS[kind] if importlib.util.find_spec(name) is None]
        if missing:
            print(f"SKIP sample {kind}: there is no {missing[0]}")
            continue
        wrong = run(file, lines, text)
        failed += wrong is not None
        print(f"sample {kind}: {wrong or f'{lines} lines in {file}'}")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
