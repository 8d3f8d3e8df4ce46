"""safetensors: the same dictionaries, and files that lie."""

import errno
import importlib.util
import json
import os
import struct
import subprocess
import sys
import threading

import pytest

import gpufs
from gpufs.safetensors import FormatError

numpy = pytest.importorskip("numpy", reason="there is no NumPy")


def some():
    generator = numpy.random.default_rng(3)
    return {
        "embed.weight": generator.standard_normal((100, 64)).astype(numpy.float32),
        "norm": generator.standard_normal(64).astype(numpy.float16),
        "ids": generator.integers(-(2**40), 2**40, 77),
        "flags": numpy.array([True, False, True]),
        "scalar": numpy.array(2.5),
        "empty": numpy.zeros((0, 4), numpy.int16),
        "Ümläut \"quoted\"": generator.integers(0, 256, 5, dtype=numpy.uint8),
    }


def same(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        assert (numpy.asarray(found[name]) == numpy.asarray(tensor)).all(), name


def test_what_was_saved_is_loaded(tmp_path):
    gpufs.safetensors.save(some(), tmp_path / "x.safetensors", {"format": "np"}, fsync=True)
    same(gpufs.safetensors.load(tmp_path / "x.safetensors", framework="np"), some())
    assert gpufs.safetensors.header(tmp_path / "x.safetensors").metadata == {"format": "np"}
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_it_is_the_format_of_safetensors(tmp_path):
    reference = pytest.importorskip("safetensors.numpy", reason="there is no safetensors to compare with")
    gpufs.safetensors.save(some(), tmp_path / "ours")
    same(reference.load_file(tmp_path / "ours"), some())
    reference.save_file(some(), tmp_path / "theirs")
    same(gpufs.safetensors.load(tmp_path / "theirs", framework="np"), some())


def test_views_are_of_one_block(tmp_path):
    gpufs.safetensors.save(some(), tmp_path / "x")
    found = gpufs.safetensors.load(tmp_path / "x", framework="np")
    assert numpy.shares_memory(found["embed.weight"].base, found["ids"].base)
    found["ids"][0] = 5  # They may be written to.


def test_tensors_that_are_not_aligned_are_copied(tmp_path):
    header = {
        "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "none": {"dtype": "F32", "shape": [0, 5], "data_offsets": [3, 3]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]},
        "end": {"dtype": "F64", "shape": [4, 0], "data_offsets": [11, 11]},
    }
    write(tmp_path / "x", header, b"abc" + struct.pack("<2f", 1.5, -2))
    for framework in ["np"] + ["pt"] * bool(importlib.util.find_spec("torch")):
        found = gpufs.safetensors.load(tmp_path / "x", framework=framework)
        assert found["b"].tolist() == [1.5, -2.0] and found["a"].tolist() == list(b"abc")
        assert (tuple(found["none"].shape), tuple(found["end"].shape)) == ((0, 5), (4, 0))


def test_partial_loads_read_only_their_bytes(tmp_path):
    gpufs.safetensors.save(some(), tmp_path / "x")
    before = gpufs.transfer_statistics()["pageable"]["in_place"]["bytes_read"]
    found = gpufs.safetensors.load(tmp_path / "x", names=["norm", "ids", "flags"], framework="np")
    same(found, {name: some()[name] for name in ("norm", "ids", "flags")})
    after = gpufs.transfer_statistics()["pageable"]["in_place"]["bytes_read"]
    assert after - before == 128 + 77 * 8 + 3
    with pytest.raises(KeyError, match="'nothing'"):
        gpufs.safetensors.load(tmp_path / "x", names=["norm", "nothing"], framework="np")


def test_shards(tmp_path):
    gpufs.safetensors.save(some(), tmp_path / "model.safetensors", shards=3)
    names = sorted(os.listdir(tmp_path))
    assert names == [f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)] + ["model.safetensors.index.json"]
    same(gpufs.safetensors.load(tmp_path / "model.safetensors.index.json", framework="np"), some())
    same(gpufs.safetensors.load([tmp_path / name for name in names[:3]], framework="np"), some())
    with pytest.raises(FormatError, match="is in .* and in"):
        gpufs.safetensors.load([tmp_path / names[0]] * 2, framework="np")
    (tmp_path / "bad.index.json").write_text('{"weight_map": {"a": "../../etc/passwd"}}')
    with pytest.raises(FormatError, match="does not lie beside"):
        gpufs.safetensors.load(tmp_path / "bad.index.json", framework="np")


def write(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def tensor(dtype="U8", shape=(4,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


HOSTILE = {
    "huge header": (b"{}", b"", 1 << 62, "at most 100000000"),
    "header longer than the file": (b"{}", b"", 1000, "the file ends after"),
    "no JSON": (b"{,}", b"", None, "no JSON"),
    "no text": (b'{"\xff": 1}', b"", None, "no JSON"),
    "deep": (b'{"a":' + b"[" * 100_000, b"", None, "no JSON"),
    "no object": (b"[1]", b"", None, "no JSON object"),
    "twice": (b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}', b"", None, "'a' stands twice"),
    "not all fields": ({"a": {"dtype": "U8"}}, b"", None, "has not dtype"),
    "unknown type": ({"a": tensor("F7")}, b"1234", None, "unknown type 'F7'"),
    "negative shape": ({"a": tensor(shape=(-2, -2))}, b"1234", None, "shape"),
    "shape that is no list": ({"a": {**tensor(), "shape": "4"}}, b"1234", None, "shape"),
    "boolean shape": (b'{"a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}}', b"1", None, "shape"),
    "fraction": ({"a": tensor(offsets=(0.0, 4.0))}, b"1234", None, "data_offsets"),
    "backwards": ({"a": tensor(offsets=(4, 0))}, b"1234", None, "data_offsets"),
    "another length": ({"a": tensor(shape=(5,))}, b"1234", None, "has 5 bytes, and its data_offsets say 4"),
    "product that overflows": ({"a": tensor(shape=(1 << 62, 1 << 62, 4), offsets=(0, 0))}, b"", None, "more than there can be"),
    "nothing of too much": ({"a": tensor("F64", (0, 1 << 62), (0, 0))}, b"", None, "more than there can be"),
    "product that takes hours": ({"a": tensor(shape=[(1 << 63) - 1] * 1_000_000)}, b"1234", None, "more than there can be"),
    "too many axes": ({"a": tensor(shape=[1] * 65, offsets=(0, 1))}, b"1", None, "more than there can be"),
    "number that takes hours": (b'{"a":{"dtype":"U8","shape":[' + b"9" * 1_000_000 + b'],"data_offsets":[0,1]}}', b"1", None, "no JSON"),
    "offsets far behind": ({"a": tensor(shape=((1 << 62),), offsets=(0, 1 << 62))}, b"1234", None, "cut off"),
    "out of range": ({"a": tensor(offsets=(0, 4))}, b"12", None, "cut off"),
    "overlap": ({"a": tensor(), "b": tensor(offsets=(2, 6))}, b"123456", None, "overlaps"),
    "hole": ({"a": tensor(), "b": tensor(offsets=(5, 9))}, b"123456789", None, "leaves a hole"),
    "rest": ({"a": tensor()}, b"12345", None, "not all is described"),
    "metadata": ({"__metadata__": {"a": 1}}, b"", None, "no object of strings"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_lie(tmp_path, name):
    header, data, length, message = HOSTILE[name]
    write(tmp_path / "x", header, data, length)
    with pytest.raises(FormatError, match=message):
        gpufs.safetensors.load(tmp_path / "x", framework="np")


def test_files_that_are_cut_off_anywhere(tmp_path):
    gpufs.safetensors.save({"a": numpy.arange(10), "b": numpy.arange(3.0)}, tmp_path / "x")
    whole = (tmp_path / "x").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(FormatError):
            gpufs.safetensors.load(tmp_path / "cut", framework="np")


def test_bytes_changed_at_random_load_or_are_refused(tmp_path):
    generator = numpy.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    gpufs.safetensors.save({"a": numpy.arange(10), "b": numpy.arange(3.0)}, tmp_path / "x")
    whole = numpy.frombuffer((tmp_path / "x").read_bytes(), numpy.uint8)
    refused = 0
    for _ in range(500):
        changed = whole.copy()
        changed[generator.integers(0, 100, 3)] = generator.integers(0, 256, 3)
        changed.tofile(tmp_path / "y")
        try:
            gpufs.safetensors.load(tmp_path / "y", framework="np")
        except FormatError:
            refused += 1
    assert refused > 300


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    gpufs.safetensors.save({"a": numpy.arange(4)}, path)
    old = path.read_bytes()
    program = (
        "import resource, sys, numpy, gpufs\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: gpufs.safetensors.save({'a': numpy.zeros(1_000_000)}, sys.argv[1])\n"
        "except OSError as error: print(error.errno)\n"
    )
    said = subprocess.run([sys.executable, "-c", program, str(path)], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == str(errno.EFBIG), said
    assert path.read_bytes() == old and os.listdir(tmp_path) == ["x"]


def test_permissions_stay(tmp_path):
    before = os.umask(0o022)
    try:
        gpufs.safetensors.save({"a": numpy.arange(4)}, tmp_path / "x.safetensors")
        assert (tmp_path / "x.safetensors").stat().st_mode & 0o777 == 0o644
        # What only its owner reads is not opened to others by the next save; what is read-only can be replaced.
        for mode in (0o600, 0o440):
            os.chmod(tmp_path / "x.safetensors", mode)
            gpufs.safetensors.save({"a": numpy.arange(5)}, tmp_path / "x.safetensors")
            assert (tmp_path / "x.safetensors").stat().st_mode & 0o777 == mode
        gpufs.safetensors.save({"a": numpy.arange(4)}, tmp_path / "y.safetensors", shards=2)
        os.chmod(tmp_path / "y.safetensors.index.json", 0o600)
        gpufs.safetensors.save({"a": numpy.arange(4)}, tmp_path / "y.safetensors", shards=2)
        assert (tmp_path / "y.safetensors.index.json").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_two_threads_save_to_one_path(tmp_path):
    def work(number):
        for _ in range(10):
            gpufs.safetensors.save({"a": numpy.full(100_000, number)}, tmp_path / "x")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = gpufs.safetensors.load(tmp_path / "x", framework="np")["a"]
    assert found.shape == (100_000,) and (found == found[0]).all() and os.listdir(tmp_path) == ["x"]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    try:
        gpufs.safetensors.save({"a": numpy.arange(4)}, small / "x")
        old = (small / "x").read_bytes()
        for shards in (1, 4):
            with pytest.raises(OSError) as caught:
                gpufs.safetensors.save({f"{index}": numpy.zeros(100_000) for index in range(4)}, small / "x", shards=shards)
            assert caught.value.errno == errno.ENOSPC and "x" in str(caught.value.filename)
        assert (small / "x").read_bytes() == old and os.listdir(small) == ["x"]
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_what_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(ValueError, match="__metadata__"):
        gpufs.safetensors.save({"__metadata__": numpy.zeros(1)}, tmp_path / "x")
    with pytest.raises(ValueError, match="strings to strings"):
        gpufs.safetensors.save({}, tmp_path / "x", {"a": 1})
    with pytest.raises(TypeError, match="there is no type"):
        gpufs.safetensors.save({"a": numpy.array(["text"])}, tmp_path / "x")
    for wrong in (5, [1.0], None, b"bytes"):
        with pytest.raises(TypeError, match=r"'b' is a \w+, and no tensor"):
            gpufs.safetensors.save({"a": numpy.zeros(1), "b": wrong}, tmp_path / "x")
    with pytest.raises(TypeError, match="tensor 'a': there is no type"):
        gpufs.safetensors.save({"a": numpy.zeros(1, "complex128")}, tmp_path / "x")
    with pytest.raises(TypeError, match="names is 'a', and is to be a list"):
        gpufs.safetensors.load(tmp_path / "x", names="a")
    with pytest.raises(ValueError, match="NumPy has no tensors on cuda:0"):
        gpufs.safetensors.load(tmp_path / "x", "cuda:0", framework="np")
    with pytest.raises(ValueError, match="use 'pt'"):
        gpufs.safetensors.load(tmp_path / "x", framework="tf")
    assert os.listdir(tmp_path) == []
    # Other orders of bytes and of axes are stored as the format wants them.
    odd = {"big": numpy.arange(5, dtype=">i4"), "columns": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3))}
    gpufs.safetensors.save(odd, tmp_path / "x")
    found = gpufs.safetensors.load(tmp_path / "x", framework="np")
    assert found["big"].tolist() == list(range(5)) and found["columns"].tolist() == odd["columns"].tolist()


def test_subclasses_of_arrays(tmp_path):
    class Own(numpy.ndarray):
        """Of another module than NumPy."""

    gpufs.safetensors.save({"a": numpy.arange(5, dtype=">i4").view(Own)}, tmp_path / "x")
    assert gpufs.safetensors.load(tmp_path / "x", framework="np")["a"].tolist() == list(range(5))
    with pytest.raises(TypeError, match="tensor 'a': the format has no masks"):
        gpufs.safetensors.save({"a": numpy.ma.masked_array([1, 2], [0, 1])}, tmp_path / "x")


def test_what_a_save_replaces(tmp_path):
    """A link stays one, and what is no file stays."""
    weights = {"a": numpy.arange(5)}
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        gpufs.safetensors.save(weights, tmp_path / "link", fsync=True)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "real").is_file()
    assert gpufs.safetensors.load(tmp_path / "link", framework="np")["a"].tolist() == list(range(5))
    os.mkfifo(tmp_path / "fifo")
    for place, number in ((tmp_path / "fifo", errno.EINVAL), (tmp_path, errno.EISDIR)):
        with pytest.raises(OSError, match="not replaced") as caught:
            gpufs.safetensors.save(weights, place)
        assert (caught.value.errno, caught.value.filename) == (number, str(place))
    assert (tmp_path / "fifo").is_fifo() and sorted(os.listdir(tmp_path)) == ["fifo", "link", "real"]


def test_errors_of_a_save_have_the_names_that_the_caller_gave(tmp_path):
    weights = {"a": numpy.arange(5)}
    with pytest.raises(OSError) as caught:
        gpufs.safetensors.save(weights, tmp_path / "none" / "x")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "none" / "x"))
    gpufs.safetensors.save(weights, tmp_path / ("long" * 62 + "name"))
    assert os.listdir(tmp_path) == ["long" * 62 + "name"]
    with pytest.raises(TypeError, match="metadata is a list"):
        gpufs.safetensors.save(weights, tmp_path / "x", metadata=["x"])


def test_an_index_that_promises_too_much(tmp_path):
    gpufs.safetensors.save({"a": numpy.arange(5), "b": numpy.arange(5)}, tmp_path / "x.safetensors", shards=2)
    index = tmp_path / "x.safetensors.index.json"
    said = json.loads(index.read_text())
    assert set(gpufs.safetensors.load(index, framework="np")) == {"a", "b"}
    for wrong in ({"lost": said["weight_map"]["a"]}, {"a": said["weight_map"]["b"]}):
        index.write_text(json.dumps({"weight_map": said["weight_map"] | wrong}))
        with pytest.raises(gpufs.safetensors.FormatError, match=f"tensor '{next(iter(wrong))}' is not in"):
            gpufs.safetensors.load(index, framework="np")


# With eight threads one file in memory is written through a mapping, where a full disk is no error of a call.
FULL = """
import sys, numpy, gpufs
gpufs.configure_transfers(threads=8)
gpufs.safetensors.save({"a": numpy.arange(100_000)}, sys.argv[1])
try: gpufs.safetensors.save({"a": numpy.zeros(4_000_000)}, sys.argv[1])
except OSError as error: print(error.errno)
print(gpufs.safetensors.load(sys.argv[1], framework="np")["a"].sum())
gpufs.safetensors.save({"a": numpy.arange(1_500_000)}, sys.argv[1])
print(gpufs.safetensors.load(sys.argv[1], framework="np")["a"].sum())
"""


def test_a_full_file_system_in_memory_and_many_threads(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    try:
        said = subprocess.run([sys.executable, "-c", FULL, str(small / "x")], capture_output=True, text=True)
        expected = [errno.ENOSPC, sum(range(100_000)), sum(range(1_500_000))]
        assert said.returncode == 0 and said.stdout.split() == list(map(str, expected)), said
        assert os.listdir(small) == ["x"]
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
