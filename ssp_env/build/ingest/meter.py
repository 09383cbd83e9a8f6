"""How far a long job is and when it will end, on a stream for people."""

from __future__ import annotations

import time
from typing import TextIO

MIN_GAP_S = 1.0
"""Seconds between two lines on a terminal; elsewhere it is thirty times that."""


class Progress:
    """Prints share, rate and remaining time as bytes of the sources are done; a None stream prints nothing."""

    def __init__(self, label: str, n_bytes: int, *, stream: TextIO | None) -> None:
        """Start the clock."""
        self._label, self._n_bytes, self._stream = label, max(n_bytes, 1), stream
        self._start_s = time.monotonic()
        self._next_s = self._start_s
        self._n_done = self._n_skipped = 0

    def skip(self, n_bytes: int) -> None:
        """Count bytes that were done by an earlier run; they say nothing about the rate."""
        self._n_skipped += n_bytes

    def add(self, n_bytes: int) -> None:
        """Count bytes done now, and print when it is time to."""
        self._n_done += n_bytes
        now_s = time.monotonic()
        if self._stream is not None and now_s >= self._next_s:
            is_terminal = self._stream.isatty()
            self._next_s = now_s + MIN_GAP_S * (1 if is_terminal else 30)
            self._stream.write(f"\r{self.line()}" if is_terminal else f"{self.line()}\n")
            self._stream.flush()

    def line(self) -> str:
        """Return the present state in words."""
        n_known = self._n_done + self._n_skipped
        rate = self._n_done / max(time.monotonic() - self._start_s, 1e-6)
        left_s = int((self._n_bytes - n_known) / rate) if rate else 0
        ends = f"{left_s // 3600:d}:{left_s // 60 % 60:02d}:{left_s % 60:02d} left"
        return f"{self._label}: {100 * n_known / self._n_bytes:5.1f} %, {rate / 1e6:.2f} MB/s of input, {ends}"

    def close(self) -> None:
        """Print the last line."""
        if self._stream is not None:
            end = "\r" if self._stream.isatty() else ""
            self._stream.write(f"{end}{self.line()}\n")
            self._stream.flush()
