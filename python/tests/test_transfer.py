"""read_into and write_from on memory of the host: what arrives, what is counted, what is refused."""

import array
import ctypes
import errno
import os
import threading

import pytest

import gpufs

numpy = pytest.importorskip("numpy", reason="there is no NumPy")


def pattern(nbytes, seed=1):
    return numpy.random.default_rng(seed).integers(0, 256, nbytes, dtype=numpy.uint8)


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 300_001, 5_000_000])
def test_bytes_come_back(tmp_path, nbytes):
    content = pattern(nbytes)
    path = tmp_path / "file"
    assert gpufs.write_from(content, path) == nbytes
    assert path.read_bytes() == content.tobytes()
    for into in (bytearray(nbytes), numpy.empty(nbytes, numpy.uint8), array.array("B", bytes(nbytes))):
        assert gpufs.read_into(into, path) == nbytes
        assert bytes(into) == content.tobytes()


def test_offsets_and_the_end_of_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    into = bytearray(b"......")
    assert gpufs.read_into(into, path, 7) == 3
    assert into == b"789..."
    assert gpufs.read_into(into, path, 100) == 0
    assert gpufs.write_from(b"ab", path, numpy.int64(4)) == 2
    assert path.read_bytes() == b"0123ab6789"
    assert gpufs.write_from(b"new", path, fsync=True) == 3
    assert path.read_bytes() == b"new"


def test_many_at_once(tmp_path):
    contents = [pattern(size, size) for size in (1, 70_000, 1_000_000, 0)]
    paths = [tmp_path / f"{index}" for index in range(4)]
    assert gpufs.write_from(contents, paths) == [content.size for content in contents]
    into = [numpy.empty_like(content) for content in contents]
    assert gpufs.read_into(into, paths) == [content.size for content in contents]
    assert all((a == b).all() for a, b in zip(into, contents))
    # Parts of one file, one of them behind its end.
    halves = [bytearray(500_000), bytearray(600_000), bytearray(9)]
    assert gpufs.read_into(halves, paths[2], [0, 500_000, 2_000_000]) == [500_000, 500_000, 0]
    assert halves[0] + halves[1][:500_000] == contents[2].tobytes()
    with pytest.raises(ValueError, match="2 tensors, 1 files"):
        gpufs.read_into([bytearray(1), bytearray(1)], [paths[0]])
    with pytest.raises(ValueError, match="several tensors go to one file"):
        gpufs.write_from([b"a", b"b"], paths[0])


def test_files_that_are_open(tmp_path):
    with open(tmp_path / "file", "wb+") as file:
        assert gpufs.write_from(b"0123", file) == 4
        assert gpufs.write_from(b"45", file.fileno(), 4) == 2
        into = bytearray(6)
        assert gpufs.read_into(into, file) == 6
    assert into == b"012345"


def test_in_the_background(tmp_path):
    content = pattern(20_000_000)
    seen = []
    transfer = gpufs.start_write_from(content, tmp_path / "file")
    assert transfer.wait(lambda done, total: seen.append((done, total))) == [content.size]
    assert transfer.done() and transfer.progress() == (content.size, content.size) and transfer.wait() == [content.size]
    assert seen[-1] == (content.size, content.size)
    into = numpy.empty_like(content)
    # Dropped, it is waited for.
    gpufs.start_read_into(into, tmp_path / "file")
    assert (into == content).all()


def test_the_bar_goes_to_the_standard_error(tmp_path, capsys):
    gpufs.write_from(bytes(1000), tmp_path / "file", progress=True)
    assert "[########" in capsys.readouterr().err


def test_threads_transfer_at_once(tmp_path):
    wrong = []

    def work(number):
        content = pattern(700_000, number)
        into = numpy.empty_like(content)
        for _ in range(5):
            gpufs.write_from(content, tmp_path / f"{number}")
            gpufs.read_into(into, tmp_path / f"{number}")
            if not (into == content).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_forked_child_transfers_too(tmp_path):
    gpufs.write_from(b"parent", tmp_path / "file")
    child = os.fork()
    if child == 0:
        into = bytearray(6)
        good = gpufs.read_into(into, tmp_path / "file") == 6 and into == b"parent"
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_what_is_counted(tmp_path):
    before = gpufs.transfer_statistics()["pageable"]["in_place"]
    with gpufs.Session() as session:
        session.write_from(bytes(1_000_000), tmp_path / "file")
        assert session.read_into(bytearray(10), tmp_path / "file") == 10
        counts = session.statistics()["transfers"]
    assert counts["pageable"]["in_place"]["bytes_written"] == 1_000_000
    assert counts["pageable"]["in_place"]["bytes_read"] == 10 and counts["pageable"]["in_place"]["reads"] == 1
    assert all(sum(count.values()) == 0 for count in (counts["device"]["staged"], counts["pinned"]["in_place"]))
    after = gpufs.transfer_statistics()["pageable"]["in_place"]
    assert after["bytes_written"] == before["bytes_written"] + 1_000_000


def test_errors_have_number_and_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        gpufs.read_into(bytearray(1), tmp_path / "none")
    assert caught.value.filename == str(tmp_path / "none")
    with pytest.raises(OSError) as caught:
        gpufs.write_from([b"x", b"y"], [tmp_path / "fine", "/dev/full"])
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/dev/full")
    with pytest.raises(IsADirectoryError):
        gpufs.write_from(b"x", tmp_path)
    with pytest.raises(OSError) as caught:
        gpufs.read_into(bytearray(1), 987_654)
    assert caught.value.errno == errno.EBADF
    read_end, write_end = os.pipe()
    with pytest.raises(OSError) as caught:
        gpufs.read_into(bytearray(1), read_end)
    assert caught.value.errno == errno.ESPIPE
    os.close(read_end), os.close(write_end)
    with pytest.raises(OSError) as caught:
        gpufs.read_into(gpufs.Memory(8, 100), "/dev/zero")
    assert caught.value.errno == errno.EFAULT


def test_wrong_memory_is_named(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with pytest.raises(ValueError, match="not writable|read-only"):
        gpufs.read_into(b"constant", path)
    with pytest.raises(ValueError, match="contiguous"):
        gpufs.read_into(numpy.empty((4, 4))[:, 1], path)
    with pytest.raises(TypeError, match="int has no memory"):
        gpufs.read_into(5, path)
    with pytest.raises(ValueError, match="kind is 'fast'"):
        gpufs.read_into(bytearray(1), path, kind="fast")
    with pytest.raises(OSError, match="named memory of a GPU") as caught:
        gpufs.read_into(bytearray(1), path, kind="device")
    assert caught.value.errno == errno.EINVAL
    for offset in (-1, 1 << 63, 1 << 64):
        with pytest.raises(ValueError, match=f"offset is {offset}"):
            gpufs.read_into(bytearray(1), path, offset)
    for memory in (gpufs.Memory(8, -1), gpufs.Memory(-8, 1), gpufs.Memory(1 << 64, 1)):
        with pytest.raises(ValueError, match="there is no memory of"):
            gpufs.read_into(memory, path)
    assert gpufs.read_into(bytearray(1), path, kind="pageable") == 1
    assert gpufs.memory_kind(bytearray(1)) == "pageable"


def test_a_buffer_is_given_back(tmp_path):
    into = bytearray(10)
    gpufs.write_from(into, tmp_path / "file")
    gpufs.read_into(into, tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        gpufs.read_into(into, tmp_path / "none")
    for wrong in (5, b"constant", numpy.empty((4, 4))[:, 1]):
        with pytest.raises((TypeError, ValueError)):
            gpufs.read_into([into, wrong], [tmp_path / "file"] * 2, [0, 0])
    with pytest.raises(IsADirectoryError):
        gpufs.write_from([into, into], [tmp_path / "file", tmp_path])
    # A buffer that is still exported could not grow.
    into.extend(b"more")


def test_a_refused_write_leaves_the_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"here before")
    for wrong in (5, numpy.empty((4, 4))[:, 1], [b"good", 5]):
        with pytest.raises((TypeError, ValueError)):
            gpufs.write_from(wrong, [path, tmp_path / "other"] if isinstance(wrong, list) else path)
    with pytest.raises(ValueError, match="kind is 'fast'"):
        gpufs.write_from(b"new", path, kind="fast")
    assert path.read_bytes() == b"here before" and os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "source, files, options",
    [
        ([b"a", b"b"], ["file", "none/x"], {}),
        ([b"a", b"b"], ["file", "other"], {"offset": [None, -1]}),
        ([b"a", b"b"], ["file", "./file"], {}),
        (b"a", "file", {"kind": "pinned"}),
        (b"a", "file", {"stream": "x"}),
        (b"a", "file", {"session": "x"}),
        (b"a", "file", {"offset": "1"}),
        (b"a", "new", {"offset": 1.5}),
        (gpufs.Memory(0, -5), "file", {}),
        (numpy.array([1, "a"], object), "file", {}),
        (memoryview(numpy.array([1, "a"], object)), "file", {}),
    ],
)
def test_whatever_is_refused_leaves_all_files(tmp_path, monkeypatch, source, files, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"here before")
    with pytest.raises((OSError, TypeError, ValueError, ctypes.ArgumentError)):
        gpufs.write_from(source, files, **options)
    assert (tmp_path / "file").read_bytes() == b"here before" and os.listdir(tmp_path) == ["file"]


def test_objects_are_not_read_into(tmp_path):
    (tmp_path / "file").write_bytes(b"A" * 400)
    into = numpy.array([None, None], object)
    with pytest.raises(TypeError, match="objects of Python"):
        gpufs.read_into(into, tmp_path / "file")
    assert list(into) == [None, None]


def test_a_file_that_is_open_for_appending(tmp_path):
    (tmp_path / "log").write_bytes(b"there")
    with open(tmp_path / "log", "ab") as log, pytest.raises(OSError, match="O_APPEND") as caught:
        gpufs.write_from(b"more", log)
    assert caught.value.errno == errno.EINVAL and (tmp_path / "log").read_bytes() == b"there"


def test_a_whole_file_is_cut_to_what_is_written(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert gpufs.write_from([b"abc", b""], [path, tmp_path / "empty"]) == [3, 0]
    assert path.read_bytes() == b"abc" and (tmp_path / "empty").read_bytes() == b""
    (tmp_path / "link").symlink_to("behind")
    assert gpufs.write_from(b"abc", tmp_path / "link") == 3 and (tmp_path / "behind").read_bytes() == b"abc"
    with open(path, "rb+") as file:
        file.seek(2)
        assert gpufs.write_from(b"X", file) == 1
    assert path.read_bytes() == b"Xbc"


def test_what_was_started_is_synchronized_whatever_its_name_is_by_then(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    transfer = gpufs.start_write_from(b"x" * 8000, "file", fsync=True)
    os.rename("file", "renamed")
    monkeypatch.chdir("/")
    assert transfer.wait() == transfer.wait() == [8000]
    with pytest.raises(OSError) as caught:
        gpufs.write_from(b"x", "/dev/null", fsync=True)
    assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, "/dev/null")


def test_a_call_that_is_interrupted_leaves_nothing_in_flight():
    def interrupt(*_):
        raise KeyboardInterrupt

    into = numpy.full(200_000_000, 7, numpy.uint8)
    with pytest.raises(KeyboardInterrupt):
        gpufs.read_into(into, "/dev/zero", progress=interrupt)
    assert not into.any(), "all has come, and nothing comes later"


def test_numbers_are_not_cut_off(tmp_path):
    for call in (lambda: gpufs.read_into(bytearray(1), (1 << 32) + 1), lambda: gpufs.read_into(bytearray(1), -1)):
        with pytest.raises(ValueError, match="no descriptor"):
            call()
    with gpufs.Session() as session:
        for call in (
            lambda: session.buffer((1 << 64) + 4096),
            lambda: session.fdopen((1 << 32) + 1, "w"),
            lambda: session.register_file(1 << 32),
            lambda: session.launch(0, -1, 1),
            lambda: session.fopen(str(tmp_path / "secret") + "\0.txt", "w"),
        ):
            with pytest.raises(ValueError):
                call()
        with pytest.raises(TypeError, match="kernel is 'hello'"):
            session.launch("hello", 1, 1)
    assert not os.listdir(tmp_path)


def test_arrays_whose_elements_the_buffer_protocol_has_no_name_for(tmp_path):
    days = numpy.array(["2026-01-01", "2026-02-03"], "datetime64[D]")
    into = numpy.zeros_like(days)
    assert gpufs.write_from(days, tmp_path / "file") == 16 and gpufs.read_into(into, tmp_path / "file") == 16
    assert (into == days).all()


def test_dlpack(tmp_path):
    class Capsule:
        """An array that has DLPack alone."""

        def __init__(self, of):
            self.of = of

        def __dlpack__(self, **options):
            return self.of.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.of.__dlpack_device__()

    content = numpy.arange(1000, dtype=numpy.float32)
    into = numpy.zeros(1000, numpy.float32)
    gpufs.write_from(Capsule(content[100:]), tmp_path / "file")
    assert gpufs.read_into(Capsule(into), tmp_path / "file") == 3600
    assert (into[:900] == content[100:]).all() and (into[900:] == 0).all()
    with pytest.raises(ValueError, match="contiguous"):
        gpufs.write_from(Capsule(content[::2]), tmp_path / "file")


def test_the_sizes_are_chosen_before():
    with pytest.raises(ValueError, match="threads is -1"):
        gpufs.configure_transfers(threads=-1)
    with pytest.raises(OSError, match="chunk_bytes is 5000") as caught:
        gpufs.configure_transfers(chunk_bytes=5000)
    assert caught.value.errno == errno.EINVAL
    gpufs.read_into(bytearray(1), "/dev/zero")
    with pytest.raises(OSError) as caught:
        gpufs.configure_transfers(threads=7)
    assert caught.value.errno == errno.EBUSY
