"""Runs the samples of a document, as they stand there, and counts their output.

    python3 documents.py FILE KIND...

A sample begins with ```python KIND FILE:LINES. It runs in a folder of its own; then FILE there, or what it printed ("stdout"), has so many lines, all
of them different. Kinds: cpu, cupy, torch, numba; one whose modules are not here is skipped by name."""

import importlib.metadata
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


def at_odds(kind):
    """Why the modules of a kind do not work with each other as they are installed, whatever a sample does; None where nothing is known.

    What fails is tried, so that a release that has mended it is not skipped."""
    if kind != "numba":
        return None
    # numba-cuda loads this before it compiles the first kernel.
    said = subprocess.run([sys.executable, "-c", "import numba.cuda.np.arrayobj"], capture_output=True, text=True)
    if said.returncode != 0 and "row_stack" in (said.stderr.strip().splitlines() or [""])[-1]:
        versions = [importlib.metadata.version(name) for name in ("numba-cuda", "numpy")]
        return "numba-cuda {} takes numpy.row_stack, which NumPy {} has no more; NumPy 2.4 has it".format(*versions)
    return None


def main(document, *kinds):
    failed = 0
    found = list(samples(document))
    for kind in kinds:
        if kind not in {kind for kind, *_ in found}:
            print(f"SKIP sample {kind}: {document} has none")
    for kind, file, lines, text in found:
        if kind not in kinds:
            continue
        missing = [name for name in NEEDS[kind] if importlib.util.find_spec(name) is None]
        why = f"there is no {missing[0]}" if missing else at_odds(kind)
        if why:
            print(f"SKIP sample {kind}: {why}")
            continue
        wrong = run(file, lines, text)
        failed += wrong is not None
        print(f"sample {kind}: {wrong or f'{lines} lines in {file}'}")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
