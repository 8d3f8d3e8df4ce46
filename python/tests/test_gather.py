"""Rows by an index."""

import pytest

import gpufs

numpy = pytest.importorskip("numpy", reason="there is no NumPy")


@pytest.mark.parametrize("row", [(), (3,), (16, 4), (40_000,), (150_000,)])
def test_rows_are_those_of_the_array(tmp_path, row):
    table = numpy.random.default_rng(5).integers(0, 1 << 30, (10, *row), dtype=numpy.int32)
    numpy.save(tmp_path / "table.npy", table)
    indices = numpy.array([3, 3, 4, 5, 9, 0, -1, -10, 7])
    found = gpufs.gather(tmp_path / "table.npy", indices, framework="np")
    assert found.dtype == table.dtype and (found == table[indices]).all()
    out = numpy.empty((2, *row), numpy.int32)
    assert gpufs.gather(tmp_path / "table.npy", [1, 2], out=out) is out and (out == table[[1, 2]]).all()


def test_raw_files_and_datasets(tmp_path):
    table = numpy.arange(400, dtype=numpy.float32).reshape(100, 4)
    (tmp_path / "raw").write_bytes(b"head" + table.tobytes() + b"x")
    rows = gpufs.Rows(tmp_path / "raw", "float32", (4,), offset=4, framework="np")
    assert len(rows) == 100 and rows.shape == (100, 4)
    assert (rows[7] == table[7]).all() and (rows[-1] == table[-1]).all() and (rows[2:9:3] == table[2:9:3]).all()
    assert (numpy.stack(rows.__getitems__([5, 1])) == table[[5, 1]]).all()
    assert rows.gather(numpy.zeros(0, int)).shape == rows[[]].shape == (0, 4)
    with pytest.raises(IndexError, match="row 100"):
        rows[100]


def test_wrong_requests_are_named(tmp_path):
    path = tmp_path / "table.npy"
    numpy.save(path, numpy.zeros((10, 2)))
    for indices in ([10], [-11], [0, 2**40]):
        with pytest.raises(IndexError, match="not in the 10 rows"):
            gpufs.gather(path, indices, framework="np")
    with pytest.raises(TypeError, match="float64, and are to be integers"):
        gpufs.gather(path, [0.5], framework="np")
    with pytest.raises(ValueError, match="2 axes"):
        gpufs.gather(path, [[1]], framework="np")
    with pytest.raises(ValueError, match="out has 8 bytes"):
        gpufs.gather(path, [1], out=bytearray(8))
    # As many bytes, of another type or shape.
    for out in (numpy.empty((1, 2), numpy.int64), numpy.empty(2), numpy.empty((1, 4), numpy.float32)):
        with pytest.raises(ValueError, match="out has elements of type"):
            gpufs.gather(path, [1], out=out)
    for options in ({"offset": -8}, {"row_shape": (-1, -2)}):
        with pytest.raises(ValueError, match="neither has negative numbers"):
            gpufs.Rows(path, **{"dtype": "float64", "row_shape": (2,), **options})
    with pytest.raises(ValueError, match="NumPy has no tensors on cuda"):
        gpufs.gather(path, [0], framework="np", device="cuda")
    with pytest.raises(ValueError, match="both dtype and row_shape"):
        gpufs.Rows(path, "float32")
    (tmp_path / "text").write_text("nothing of the kind")
    with pytest.raises(ValueError, match="no .npy file"):
        gpufs.gather(tmp_path / "text", [0], framework="np")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="the file ends after 9"):
        gpufs.gather(path, [0], framework="np")
    numpy.save(path, numpy.asfortranarray(numpy.zeros((10, 2))))
    with pytest.raises(ValueError, match="Fortran"):
        gpufs.gather(path, [0], framework="np")
    numpy.save(path, numpy.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="header cannot be read"):
        gpufs.gather(path, [0], framework="np")


def test_rows_of_nothing_and_by_no_number(tmp_path):
    path = tmp_path / "rows.npy"
    numpy.save(path, numpy.arange(20.0).reshape(10, 2))
    rows = gpufs.Rows(path, framework="np")
    for none in (rows[5:2], rows[0:0], rows.gather(range(0)), rows.gather([])):
        assert none.shape == (0, 2)
    assert rows[numpy.int32(-1)].tolist() == [18.0, 19.0]
    for wrong in (1.7, numpy.float64(1.7), numpy.str_("1")):
        with pytest.raises(TypeError):
            rows[wrong]
    with pytest.raises(ValueError, match="offset is 32: a .npy file says itself"):
        gpufs.gather(path, [0], offset=32, framework="np")


def test_what_is_not_there(tmp_path):
    (tmp_path / "raw").write_bytes(bytes(35))
    rows = gpufs.Rows(tmp_path / "raw", "float32", (4,), offset=3, framework="np")
    for wrong in (2, -3):
        with pytest.raises(IndexError, match=f"row {wrong} is not in the 2 rows"):
            rows.gather([0, wrong, 1])


def test_other_orders_of_bytes_are_refused(tmp_path):
    numpy.arange(8, dtype=">f4").tofile(tmp_path / "raw")
    for dtype in (">f4", numpy.dtype(">f4")):
        with pytest.raises(TypeError, match="order of bytes"):
            gpufs.gather(tmp_path / "raw", [0], dtype=dtype, row_shape=(4,), framework="np")
    with pytest.raises(TypeError, match="order of bytes"):
        gpufs.gather(tmp_path / "raw", [0], dtype="<f4", row_shape=(4,), out=numpy.empty((1, 4), ">f4"))
    assert gpufs.gather(tmp_path / "raw", [0], dtype="<f4", row_shape=(4,), framework="np").shape == (1, 4)


@pytest.mark.parametrize("frame", ["np", "pt"])
def test_many_rows_begin_before_all_indices_were_looked_at(tmp_path, frame):
    """64 MiB of rows and more: the first are read while the others' indices are looked at."""
    if frame == "pt":
        torch = pytest.importorskip("torch")
    table = numpy.arange(5000, dtype=numpy.int32)[:, None].repeat(4096, 1)
    numpy.save(tmp_path / "table.npy", table)
    rows = gpufs.Rows(tmp_path / "table.npy", framework=frame)
    indices = numpy.random.default_rng(1).integers(-5000, 5000, 5000)
    given = torch.from_numpy(indices) if frame == "pt" else indices
    found = rows.gather(given)
    assert numpy.array_equal(numpy.asarray(found), table[indices])
    out = numpy.zeros((5000, 4096), numpy.int32)
    assert numpy.array_equal(rows.gather(given, out), table[indices])
    for wrong in (5000, -5001):
        for place in (0, 4999):
            indices = numpy.arange(5000)
            indices[place] = wrong
            with pytest.raises(IndexError, match=f"row {wrong} is not in the 5000 rows"):
                rows.gather(indices)
            out[:] = -1
            with pytest.raises(IndexError):
                rows.gather(indices, out)
            assert (out == -1).all()
    with pytest.raises(TypeError):
        rows.gather(numpy.zeros(5000))
    # The file was cut off: what began is waited for, and told.
    with open(tmp_path / "table.npy", "r+b") as file:
        file.truncate(4096 * 4 * 2000)
    with pytest.raises(OSError):
        rows.gather(numpy.arange(5000))
    assert gpufs.transfer_statistics()
