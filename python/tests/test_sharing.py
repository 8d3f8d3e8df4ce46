"""What threads, children that were forked, and the end of the program share: sessions, transfers, output."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import gpufs

PRINTS = """
void lines(gpufs_session *fs, void *argument) {
    for (long i = 0; i < (long)argument; i++) gpufs_fprintf(gpufs_stdout(fs), "line %ld\\n", i);
}
"""


def program(text, *arguments, status=0):
    """Runs a program of its own; what it printed, on both outputs."""
    command = [sys.executable, "-c", "import os, sys, threading, time\nimport gpufs\n" + text, *map(str, arguments)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert said.returncode == status, said.stderr
    return said.stdout, said.stderr


def test_threads_share_a_transfer(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    for _ in range(300):
        into = bytearray(100_000)
        transfer = gpufs.start_read_into(into, tmp_path / "file")
        looks = threading.Thread(target=lambda transfer=transfer: [transfer.progress() for _ in iter(transfer.done, True)])
        found = []
        waits = [threading.Thread(target=lambda transfer=transfer: found.append(transfer.wait())) for _ in range(3)]
        for thread in (looks, *waits):
            thread.start()
        for thread in (looks, *waits):
            thread.join()
        assert found == [[100_000]] * 3 and into == b"x" * 100_000


def test_a_session_is_closed_while_others_ask():
    for _ in range(30):
        session = gpufs.Session(quiet=True)
        ended = []

        def ask(session=session, ended=ended):
            try:
                while True:
                    session.statistics()
            except ValueError as error:
                ended.append(str(error))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        session.close()
        for thread in threads:
            thread.join(60)
        assert ended == ["the session is closed"] * 3


def test_nothing_that_goes_on_is_copied():
    with gpufs.Session(stdout=None) as session, session.fopen("/dev/null", "w") as stream:
        transfer = gpufs.start_write_from(b"text", "/dev/null")
        for thing in (session, stream, transfer):
            for way in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="copied or pickled"):
                    way(thing)
        assert transfer.wait() == [4]


def test_a_stream_that_is_closed_is_no_pointer():
    with gpufs.Session() as session:
        stream, other = session.fopen("/dev/null", "w"), session.fopen("/dev/null", "w")
        stream.close()
        stream.close()
        with pytest.raises(ValueError, match="/dev/null is closed"):
            int(stream)
    with pytest.raises(ValueError, match="closed"):
        int(other)


def test_a_child_leaves_its_parents_session_alone(compiled, capfd):
    kernels = compiled(PRINTS)
    session = gpufs.Session()
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    try:
        session.launch(kernels.lines, 1, 1, 20_000)
        if os.fork() == 0:
            with session:
                pass
            os._exit(0)
        os.wait()
        began = time.monotonic()
        session.close()
        assert time.monotonic() - began < 15, "the child has the pipe, too"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert capfd.readouterr().out.splitlines()[-20_000:] == [f"line {line}" for line in range(20_000)]


def test_a_child_is_told_whose_things_are():
    out, _ = program(
        """
session, into = gpufs.Session(), bytearray(300_000_000)
transfer = gpufs.start_read_into(into, "/dev/zero")
if os.fork() == 0:
    for call in (session.statistics, transfer.wait, transfer.done):
        try:
            call()
        except PermissionError as error:
            print(error, flush=True)
    sys.exit(0)
_, status = os.wait()
print(status, transfer.wait())
"""
    )
    assert out.count("belongs to the process that") == 3 and out.endswith("0 [300000000]\n")


@pytest.mark.parametrize("held", ["sys.held = gpufs.Session()", "threading.Thread(target=lambda session: time.sleep(1000), args=[gpufs.Session()], daemon=True).start()"])
def test_a_session_that_is_held_to_the_end_gives_its_output(compiled, held):
    path = compiled(PRINTS)._name
    out, err = program(
        f"""
import ctypes
gpufs.version()
kernels = ctypes.CDLL(sys.argv[1])
{held}
session = next(iter(gpufs._session._opened))
session.launch(kernels.lines, 1, 1, 50_000)
del session
print("main ends")
""",
        path,
    )
    lines = out.splitlines()
    assert sorted(lines) == sorted(["main ends", *(f"line {line}" for line in range(50_000))]) and not err


def test_errors_of_transfers_are_told_once(tmp_path):
    for name in ("dropped", "kept", "caught"):
        (tmp_path / name).symlink_to("/dev/full")
    out, err = program(
        """
os.chdir(sys.argv[1])
gpufs.start_write_from(b"lost", "dropped")
kept = gpufs.start_write_from(b"lost", "kept")
try:
    gpufs.write_from(b"told", "caught")
except OSError as error:
    print(error.errno, error.filename)
""",
        tmp_path,
    )
    told = [line.rsplit(": ", 1)[1] for line in err.splitlines() if "nobody waited for failed: [Errno 28]" in line]
    assert out == "28 caught\n" and told == ["'dropped'", "'kept'"], err
