"""What kernels print on the standard output goes where `sys.stdout` goes at that time: notebooks, captures, redirections."""

from __future__ import annotations

import codecs
import os
import select
import sys
import threading


class Output:
    """A pipe whose write end is the kernels' standard output, and a thread that empties it."""

    def __init__(self) -> None:
        self._read, self.write_end = os.pipe()
        os.set_blocking(self._read, False)
        self._lock = threading.Lock()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._error: BaseException | None = None
        self._ended = False
        self._process = os.getpid()
        # Written to when the session is closed. A child that was forked has the kernels' end of the pipe, too, which therefore may never end.
        self._closing, self._close = os.pipe()
        self._thread = threading.Thread(target=self._run, name="gpufs-output", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        poll.register(self._closing, select.POLLIN)
        while not self._ended:
            ready = {descriptor for descriptor, _ in poll.poll()}
            self._take()
            if self._closing in ready:
                return

    def _take(self) -> None:
        """Hands on what is in the pipe."""
        with self._lock:
            while not self._ended:
                try:
                    data = os.read(self._read, 1 << 20)
                except BlockingIOError:
                    return
                if not data:
                    self._ended = True
                    return
                self._hand_on(data)

    def _hand_on(self, data: bytes) -> None:
        # An error is kept for the thread that synchronizes: nothing is lost in silence, and kernels must not wait for a full pipe.
        try:
            out = sys.stdout
            if out is None:
                return
            raw = getattr(out, "buffer", None)
            if raw is not None:
                out.flush()
                raw.write(data)
                raw.flush()
            else:
                out.write(self._decoder.decode(data))
                out.flush()
        except Exception as error:
            self._error = error

    def drain(self) -> None:
        """Hands on all that was flushed to the pipe; an error of `sys.stdout` since the last time."""
        if os.getpid() != self._process:
            return
        self._take()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """After the session is closed, which held the other write end: nothing more comes. In a child that was forked nothing is done."""
        if os.getpid() != self._process:
            return
        os.close(self.write_end)
        os.write(self._close, b"x")
        try:
            self._thread.join()
            self.drain()
            rest = self._decoder.decode(b"", True)
            if rest and sys.stdout is not None:
                sys.stdout.write(rest)
        finally:
            for descriptor in (self._read, self._closing, self._close):
                os.close(descriptor)
