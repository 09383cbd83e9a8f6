"""HTTP connections that are kept, shared by threads, and replaced when the other side has closed them.

A request is sent again, after a growing pause, for as long as its deadline allows; only for requests that may be
repeated. Kept connections may have been closed at any time: one that fails costs a new one, not a pause.
"""

from __future__ import annotations

import http.client
import os
import queue
import random
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ssp_env.errors import RetrievalError

PASSING = frozenset({429, 502, 503, 504})
"""Statuses that may be another one soon."""
CHUNK_BYTES = 1 << 16
MAX_ANSWER_BYTES = 1 << 28
DEADLINE_HEADER = "x-deadline-s"


class Deadline:
    """A point in time that all attempts share."""

    def __init__(self, timeout_s: float) -> None:
        """Start the clock."""
        self.timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Return the seconds left; raises ``TimeoutError`` when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {self.timeout_s:g} s")
        return left


@dataclass(frozen=True, slots=True)
class Patience:
    """Pauses between attempts: they double from ``first_s`` to ``longest_s``, each shortened at random by up to half.

    The randomness keeps many clients of one server apart and shows in nothing but time.
    """

    first_s: float = 0.05
    longest_s: float = 2.0

    def pause_s(self, attempt: int, retry_after_s: float) -> float:
        """Return the pause after this attempt (from 0), at least what the server asks for, within ``longest_s``."""
        doubled = self.first_s * float(1 << min(attempt, 16))
        return min(self.longest_s, max(doubled, retry_after_s)) * random.SystemRandom().uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is; a ``port`` of None is the scheme's own."""

    host: str
    port: int | None
    is_secure: bool = False

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection that opens with its first request."""
        kind = http.client.HTTPSConnection if self.is_secure else http.client.HTTPConnection
        return kind(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Pool:
    """At most ``size`` connections to one address; a forked process starts with none of them."""

    def __init__(self, address: Address, size: int) -> None:
        """Prepare; connections open when they are needed."""
        self._address = address
        self._size = size
        self._refill()

    def request(self, method: str, path: str, body: bytes, *, deadline: Deadline, patience: Patience) -> Answer:
        """Send a request that may be repeated and return the first answer that will not change by itself.

        Raises:
            RetrievalError: If there is none within the deadline; the message tells the last failure.
        """
        last = "no attempt"
        attempt = 0
        while True:
            retry_after_s = 0.0
            try:
                answer = self._attempt(method, path, body, deadline)
                if answer.status not in PASSING:
                    return answer
                last = f"status {answer.status} with the body {answer.body[:200]!r}"
                retry_after_s = _seconds(answer.headers.get("retry-after", ""))
            except (OSError, http.client.HTTPException) as error:
                last = last if isinstance(error, TimeoutError) and attempt else f"{type(error).__name__}: {error}"
            try:
                time.sleep(min(deadline.left_s(), patience.pause_s(attempt, retry_after_s)))
                deadline.left_s()
            except TimeoutError as error:
                where = f"{self._address.host}:{self._address.port}{path}"
                message = f"expected an answer from {where} within {deadline.timeout_s:g} s, got {last}"
                raise RetrievalError(f"{message} after {attempt + 1} attempts; is the server running?") from error
            attempt += 1

    def _attempt(self, method: str, path: str, body: bytes, deadline: Deadline) -> Answer:
        if self._pid != os.getpid():
            self._refill()
        slots = self._slots
        try:
            kept = slots.get(timeout=deadline.left_s())
        except queue.Empty:
            raise TimeoutError("all connections are busy") from None
        connection: http.client.HTTPConnection | None = None
        try:
            if kept is not None:
                with suppress(ConnectionError, http.client.BadStatusLine):
                    return self._send(connection := kept, method, path, body, deadline)
                kept.close()
            connection = self._address.connect()
            return self._send(connection, method, path, body, deadline)
        except BaseException:
            if connection is not None:
                connection.close()
                connection = None
            raise
        finally:
            slots.put(connection if connection is not None and connection.sock is not None else None)

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes, deadline: Deadline
    ) -> Answer:
        left_s = deadline.left_s()
        connection.timeout = left_s  # for connecting
        if connection.sock is not None:
            connection.sock.settimeout(left_s)
        headers = {"Content-Type": "application/json", DEADLINE_HEADER: f"{left_s:.3f}"}
        connection.request(method, path, body or None, headers)
        response = connection.getresponse()
        chunks: list[bytes] = []
        n_bytes = 0
        while chunk := response.read1(CHUNK_BYTES):
            n_bytes += len(chunk)
            if n_bytes > MAX_ANSWER_BYTES:
                raise http.client.HTTPException(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
            chunks.append(chunk)
            left_s = deadline.left_s()
            if connection.sock is not None:
                connection.sock.settimeout(left_s)
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        response.close()  # read1 leaves it open, and with it the connection busy
        fields = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, fields, b"".join(chunks))

    def _refill(self) -> None:
        self._pid = os.getpid()
        self._slots: queue.LifoQueue[http.client.HTTPConnection | None] = queue.LifoQueue()
        for _ in range(self._size):
            self._slots.put(None)
        finalizer = weakref.finalize(self, _close, self._slots)
        finalizer.atexit = False


def _close(slots: queue.LifoQueue[http.client.HTTPConnection | None]) -> None:
    with suppress(queue.Empty):
        while True:
            connection = slots.get_nowait()
            if connection is not None:
                connection.close()


def _seconds(retry_after: str) -> float:
    """Return the seconds of a ``Retry-After`` header; dates and nonsense count as none."""
    return float(retry_after) if retry_after.isdecimal() else 0.0
