"""Calls of the library that wait for kernels: Python's signals are handled meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Waiting:
    """A call in a thread of its own, which goes on where a wait for it is interrupted. It may be made a second time where a wait is interrupted early."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpufs-waiting", daemon=True)
        self.error: BaseException | None = None

    def _run(self) -> None:
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
                self._run()
        # Looked at now and then: a signal that another thread is given wakes nobody here.
        while not self._ended.wait(0.1):
            pass


def handles_signals() -> bool:
    """Whether this is the thread in which Python handles signals."""
    return threading.current_thread() is threading.main_thread()
