"""The benchmark's tables, from figures that are made up; its stages, without a GPU."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="there is no PyTorch")
BENCH = Path(__file__).parent.parent / "bench"


@pytest.fixture
def bench(monkeypatch):
    if not BENCH.is_dir():
        pytest.skip("the benchmark is not beside these tests")
    monkeypatch.syspath_prepend(str(BENCH))
    sys.modules.pop("bench", None)
    import bench

    return bench


def line(row, what, who, gb_s):
    return {"row": row, "what": what, "who": who, "gb_s": gb_s, "ms": 1.0, "cores": 2.0}


def test_each_transfer_stands_beside_its_stages(bench, capsys):
    bench.TABLE += [
        line(0, "raw", bench.BUS_IN, 52.0),
        line(0, "raw", bench.BUS_OUT, 50.0),
        line(1, "load, shm", "gpufs", 26.0),
        line(1, "load, shm", bench.STAGE + "file, to pinned memory", 40.0),
        line(1, "load, shm", "rival", 13.0),
        line(3, "save, 1 file, shm", "gpufs", 2.0),
        line(3, "save, 1 file, shm", bench.STAGE + "new file, from pinned memory", 2.5),
        line(3, "save, 16 files, shm", "gpufs", 10.0),
        line(3, "save, 1 file, shm", "torch.save", 1.0),
        line(3, "save, 1 file, tmp", "gpufs", 9.0),
        line(3, "save, 1 file, tmp", "torch.save", 2.0),
    ]
    bench.limits()
    rows = [text.split() for text in capsys.readouterr().out.splitlines()]
    shares = [(float(row[0]), float(row[1]), float(row[2])) for row in rows[2:] if row and row[0] != "row"]
    assert shares == [(26, 40, 0.65), (26, 52, 0.5), (2, 2.5, 0.8), (2, 50, 0.04), (10, 50, 0.2), (9, 50, 0.18)]
    bench.verdicts(["/dev/shm", "/tmp/"])
    said = capsys.readouterr().out
    # Stages are no rivals.
    assert "26.00    13.00    2.00  met" in said and "26.00    52.00    0.50  missed" in said and "2.00     1.00    2.00  missed" in said
    # What is in one folder stands beside what is in the same.
    assert "tmp: one file, at least 4" in said and "9.00     2.00    4.50  met" in said


def test_one_writer_writes_all(bench, tmp_path):
    block = bench.torch.arange(3_000_000, dtype=bench.torch.int32)
    bench.one_writer(block.view(bench.torch.uint8), tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == block.numpy().tobytes()


def test_a_first_run_counts_where_it_is_long(bench, monkeypatch):
    monkeypatch.setattr(bench.torch.cuda, "synchronize", lambda: None)
    for slow, expected in ((0.0, 3), (60.0, 4)):
        monkeypatch.setattr(bench, "SLOW", slow)
        runs = []
        seconds, _ = bench.median(lambda: runs.append(0), 3)
        assert len(runs) == expected and 0 < seconds < 1
