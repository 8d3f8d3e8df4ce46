"""Sessions on CPU lanes: streams, standard output, statistics, errors."""

import contextlib
import ctypes
import errno
import io
import os
import signal
import subprocess
import sys
import threading

import pytest

import gpufs

LINES = """
struct work { gpufs_file *log; long lines; };
void lines(gpufs_session *fs, void *argument) {
    struct work *work = argument;
    (void)fs;
    for (long i = 0; i < work->lines; i++) gpufs_fprintf(work->log, "thread %lu line %ld\\n", (unsigned long)gpufs_thread(), i);
}
void hello(gpufs_session *fs, void *argument) {
    (void)argument;
    gpufs_fprintf(gpufs_stdout(fs), "hello from %lu \\xc3\\xa4\\n", (unsigned long)gpufs_thread());
}
void half(gpufs_session *fs, void *argument) {
    (void)argument;
    gpufs_fprintf(gpufs_stdout(fs), "half \\xc3");
}
void until(gpufs_session *fs, void *argument) {
    while (!*(volatile int *)argument) gpufs_nap(100000);
    gpufs_fprintf(gpufs_stdout(fs), "went on\\n");
}
void missing(gpufs_session *fs, void *argument) {
    (void)argument;
    gpufs_open(fs, "/nothing/here", 0, 0);
}
"""


class Work(ctypes.Structure):
    _fields_ = [("log", ctypes.c_void_p), ("lines", ctypes.c_long)]


@pytest.fixture(scope="module")
def kernels(compiled):
    return compiled(LINES)


def test_kernels_print_to_a_file(tmp_path, kernels):
    with gpufs.Session(rings=1) as session:
        with session.fopen(tmp_path / "log.txt", "w") as log:
            work = Work(int(log), 3)
            session.launch(kernels.lines, 100, 32, ctypes.addressof(work))
            session.synchronize()
            counts = session.statistics()
        assert counts["bytes_written"] > 0 and counts["failed_calls"] == 0
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert len(lines) == 9600 and set(lines) == {f"thread {thread} line {line}" for thread in range(3200) for line in range(3)}


def test_the_standard_output_is_where_sys_stdout_is(kernels, capsys):
    with gpufs.Session() as session:
        print("before")
        session.launch(kernels.hello, 2, 32)
        session.synchronize()
        print("after")
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "before" and lines[-1] == "after" and sorted(lines[1:-1]) == sorted(f"hello from {n} ä" for n in range(64))
        # A text stream without bytes below it, as some notebooks have.
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            session.launch(kernels.hello, 1, 1)
            session.synchronize()
        assert text.getvalue() == "hello from 0 ä\n"
        session.launch(kernels.hello, 1, 1)
    # Closing writes the rest.
    assert capsys.readouterr().out == "hello from 0 ä\n"
    text = io.StringIO()
    with gpufs.Session() as session, contextlib.redirect_stdout(text):
        session.launch(kernels.half, 1, 1)
        session.close()
    assert text.getvalue() == "half \ufffd"


def test_more_output_than_a_pipe_holds(kernels, capsys):
    with gpufs.Session() as session:
        session.launch(kernels.hello, 1000, 32)
        session.synchronize()
    assert capsys.readouterr().out.count("\n") == 32_000


def test_a_broken_sys_stdout_is_told(kernels):
    class Broken(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "full")

    with gpufs.Session() as session, contextlib.redirect_stdout(Broken()):
        session.launch(kernels.hello, 1, 1)
        with pytest.raises(OSError, match="full"):
            session.synchronize()


def test_the_process_own_standard_output(kernels):
    with pytest.raises(ValueError, match="stdout is 'file'"):
        gpufs.Session(stdout="file")
    program = "import gpufs, ctypes, sys\nk = ctypes.CDLL(sys.argv[1])\nwith gpufs.Session(stdout=None) as s: s.launch(k.hello, 1, 2)\n"
    environment = {**os.environ, "LD_PRELOAD": str(gpufs.library_path())}
    said = subprocess.run([sys.executable, "-c", program, kernels._name], env=environment, capture_output=True, text=True, check=True)
    assert sorted(said.stdout.splitlines()) == ["hello from 0 ä", "hello from 1 ä"]


@contextlib.contextmanager
def interrupted():
    """What is done within is interrupted as by Ctrl-C, once; by a handler that ends no system call (SA_RESTART), as NVRTC leaves it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.siginterrupt(signal.SIGINT, False)
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_interrupts_a_wait_and_nothing_is_lost(kernels, capsys):
    go_on = ctypes.c_int(0)
    session = gpufs.Session()
    session.launch(kernels.until, 2, 32, ctypes.addressof(go_on))
    for wait in (session.synchronize, session.synchronize, session.statistics, session.close):
        with interrupted():
            wait()
    go_on.value = 1
    session.synchronize()
    assert capsys.readouterr().out == "went on\n" * 64
    go_on.value = 0
    session.launch(kernels.until, 1, 1, ctypes.addressof(go_on))
    with interrupted():
        session.close()
    go_on.value = 1
    session.close()
    assert capsys.readouterr().out == "went on\n"
    with pytest.raises(ValueError, match="closed"):
        session.synchronize()


def test_an_interrupted_wait_keeps_its_error(kernels):
    go_on = ctypes.c_int(0)
    with contextlib.suppress(OSError), gpufs.Session() as session:
        full = session.fopen("/dev/full", "w")
        session.launch(kernels.until, 1, 1, ctypes.addressof(go_on))
        work = Work(int(full), 1)
        session.launch(kernels.lines, 1, 1, ctypes.addressof(work))
        with interrupted():
            session.synchronize()
        go_on.value = 1
        with pytest.raises(OSError, match="No space left") as failed:
            session.synchronize()
        assert failed.value.errno == errno.ENOSPC


def test_failed_calls_are_counted_by_kind(kernels):
    with gpufs.Session(quiet=True) as session:
        session.launch(kernels.missing, 1, 5)
        session.synchronize()
        assert session.failures() == [("open", errno.ENOENT, 5)]
        assert session.statistics()["failed_calls"] == 5


def test_errors_have_number_and_name(tmp_path):
    with gpufs.Session(quiet=True) as session:
        with pytest.raises(OSError) as caught:
            session.fopen(tmp_path / "none" / "x", "r")
        assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "none" / "x"))
        with pytest.raises(OSError, match="the mode is 'q'") as caught:
            session.fopen(tmp_path / "x", "q")
        assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, str(tmp_path / "x"))
        with pytest.raises(OSError) as caught:
            session.fdopen(12_345, "r")
        assert caught.value.errno == errno.EBADF
        with open(tmp_path / "x", "wb") as file:
            number = session.register_file(file)
            session.unregister_file(number)
        assert session.buffer(100) % 4096 == 0
        assert "CPU lanes" in session.describe()
    with pytest.raises(ValueError, match="closed"):
        session.statistics()
    session.close()


def test_choices():
    with gpufs.Session("cpu", mode="threads", rings=2) as session:
        counts = session.statistics()
        assert (counts["mode"], counts["rings"]) == ("threads", 2)
        assert session.fs
    with pytest.raises(TypeError, match="no choice 'ring'"):
        gpufs.Session(ring=1)
    for value in (-1, 1 << 32, (1 << 32) + 2):
        with pytest.raises(ValueError, match=f"rings is {value}; it is 0 to 4294967295"):
            gpufs.Session(rings=value)
    with pytest.raises(TypeError, match="rings is '2', and is to be an integer"):
        gpufs.Session(rings="2")
    with pytest.raises(ValueError, match="mode is 'fast'"):
        gpufs.Session(mode="fast")
    with pytest.raises(ValueError, match="device is 'tpu'"):
        gpufs.Session("tpu")
    with pytest.raises(OSError, match="rings: 1000") as caught:
        gpufs.Session(rings=1000)
    assert caught.value.errno == errno.EINVAL


def test_no_gpu_is_said(without_gpu):
    with pytest.raises(OSError) as caught:
        gpufs.Session(device=0)
    assert caught.value.errno == errno.ENODEV


def test_the_library():
    assert gpufs.version() == gpufs.__version__
    report = gpufs.doctor(["/tmp"])
    assert report.status in (0, 1, 2) and "/tmp" in report


def test_what_a_session_does_is_traced(tmp_path):
    with gpufs.Session(trace=tmp_path / "session.pftrace"):
        pass
    assert b"synchronize" in (tmp_path / "session.pftrace").read_bytes()
    with pytest.raises(OSError, match="session.pftrace"):
        gpufs.Session(trace=tmp_path / "missing" / "session.pftrace")
