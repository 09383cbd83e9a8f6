"""How far a long job is and when it will end."""

from __future__ import annotations

import time
from typing import TextIO

MIN_GAP_S = 1.0
"""Seconds between two lines on a terminal; elsewhere it is thirty times that."""


class Clock:
    """Share, rate and remaining time of a job; what was there before it says nothing about the rate."""

    def __init__(self, n: int, unit: str = "passages", *, scale: float = 1.0) -> None:
        """Start, with ``n`` things to come; ``unit`` names ``scale`` of them in the rate."""
        self._n, self._n_known, self._n_new = max(n, 1), 0, 0
        self._unit, self._scale = unit, scale
        self._start_s = self._said_s = time.monotonic()

    @property
    def waited_s(self) -> float:
        """Seconds since the last line."""
        return time.monotonic() - self._said_s

    def count(self, n: int, *, is_new: bool) -> None:
        """Count things that are done, now or by an earlier run; 0 new ones start the clock."""
        if is_new and not n:
            self._start_s = self._said_s = time.monotonic()
        self._n_known += n
        self._n_new += n if is_new else 0

    def line(self) -> str:
        """Return the present state in words."""
        self._said_s = time.monotonic()
        rate = self._n_new / max(self._said_s - self._start_s, 1e-6)
        left_s = int((self._n - self._n_known) / rate) if rate else 0
        ends = f"{left_s // 3600:d}:{left_s // 60 % 60:02d}:{left_s % 60:02d} left"
        return f"{100 * self._n_known / self._n:.1f} %, {rate / self._scale:,.1f} {self._unit}/s, {ends}"


class Progress:
    """Prints how far a job is now and then, on a stream for people; a None stream prints nothing."""

    def __init__(self, label: str, clock: Clock, stream: TextIO | None) -> None:
        """Print the first line with the first step."""
        self._label, self._clock, self._stream = label, clock, stream
        self._next_s = 0.0

    def step(self) -> None:
        """Print if it is time to."""
        if self._stream is not None and time.monotonic() >= self._next_s:
            is_terminal = self._stream.isatty()
            self._next_s = time.monotonic() + MIN_GAP_S * (1 if is_terminal else 30)
            self._print("\r" if is_terminal else "", "" if is_terminal else "\n")

    def close(self) -> None:
        """Print the last line."""
        if self._stream is not None:
            self._print("\r" if self._stream.isatty() else "", "\n")

    def _print(self, start: str, end: str) -> None:
        assert self._stream is not None
        self._stream.write(f"{start}{self._label}: {self._clock.line()}{end}")
        self._stream.flush()
