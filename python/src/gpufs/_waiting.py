"""Calls of the library that wait for kernels: Python's signals are handled meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Waiting:
    """A call in a thread of its own, which goes on where a wait for it is interrupted; a second time, where that happens as the thread starts."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self.run, name="gpufs-waiting", daemon=True)
        self.error: BaseException | None = None

    def run(self) -> None:
        """Makes the call in this thread."""
        try:
            self._call()
        except BaseException as error:
            self.error = error
        finally:
            self._ended.set()

    def wait(self) -> None:
        """Waits for its end; its error is kept."""
        if self._thread.ident is None:
            try:
                self._thread.start()
            except RuntimeError:
                # At the end of the program there are no new threads.
                self.run()
        # In short waits: a handler of SA_RESTART, which NVRTC leaves of any for SIGINT, ends none that has no limit.
        while not self._ended.wait(0.1):
            pass


def handles_signals() -> bool:
    """Whether this is the thread in which Python handles signals."""
    return threading.current_thread() is threading.main_thread()
