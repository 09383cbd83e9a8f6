"""HTTP for what asks a server: pooled connections, tries with growing pauses, and deadlines that hold.

A try ends at its deadline however slowly the body arrives: the socket waits for each piece only as long as is left.
Threads share the connections, and a forked process makes its own. There are no redirects, no proxies and no settings
from the environment. Only for requests that may be sent twice.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar, cast
from urllib.parse import SplitResult, urlsplit

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ProtocolError

from ssp_env.errors import SSPError

ResultT = TypeVar("ResultT")

BUSY = frozenset({429, 502, 503, 504})
"""Statuses that may be another one soon."""
CHUNK_BYTES = 1 << 16
MAX_REPLY_BYTES = 1 << 28
MAX_WAIT_S = 86_400.0
"""Longest that a socket or lock is asked to wait: they know no infinity."""
DEADLINE_HEADER = "x-deadline-s"
"""Tells the server how long this try waits: a later reply is of no use."""


class Deadline:
    """A point in time that several steps share; by default it never comes."""

    def __init__(self, timeout_s: float = math.inf) -> None:
        """Start the clock."""
        self.timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    def is_ahead(self, of_s: float = 0.0) -> bool:
        """Return whether it is more than so many seconds away."""
        return time.monotonic() + of_s < self._end

    def left_s(self) -> float:
        """Return the seconds left, a day at most; raises ``TimeoutError`` when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {self.timeout_s:g} s")
        return min(left, MAX_WAIT_S)


@dataclass(frozen=True, slots=True)
class Patience:
    """When to try again, how often, and after which pause.

    Attributes:
        first_s: Pause after the first try. It doubles with every further one and is shortened at random by up to
            half, which keeps many clients of one server apart.
        longest_s: Longest pause, also when ``Retry-After`` asks for a longer one.
        try_s: Longest duration of one try, without the wait for a free connection.
        max_tries: Tries at most.
        busy: Statuses after which another try may help.
    """

    first_s: float = 0.05
    longest_s: float = 2.0
    try_s: float = math.inf
    max_tries: float = math.inf
    busy: frozenset[int] = BUSY

    def pause_s(self, attempt: int, retry_after_s: float) -> float:
        """Return the pause after this attempt (from 0), at least what the server asks for, within ``longest_s``."""
        doubled = self.first_s * float(1 << min(attempt, 16)) * random.SystemRandom().uniform(0.5, 1.0)
        return min(self.longest_s, max(doubled, retry_after_s))


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response; header names are in lower case, and ``n_tries`` counts the tries that it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    n_tries: int = 1


class NoReply(SSPError):
    """Raised when no try brought a usable reply; ``reply`` is the unusable one that ``got`` tells of, if it is one."""

    def __init__(self, got: str, n_tries: int, reply: Reply | None) -> None:
        """Take what came instead."""
        super().__init__(got, n_tries, reply)
        self.got, self.n_tries, self.reply = got, n_tries, reply


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL; raises ``ValueError`` if it is not one of HTTP."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("no scheme and host of HTTP")
    return parts


class Client:
    """Talks to one server over at most ``n_connections`` at a time; further threads wait for one."""

    def __init__(self, url: SplitResult, n_connections: int, headers: Mapping[str, str] | None = None) -> None:
        """Prepare; connections open when they are needed.

        Args:
            url: Scheme, host and port of the server.
            n_connections: Connections a process.
            headers: Sent with every request.
        """
        self._arguments = (url, n_connections, headers)
        self.address = f"{url.hostname}:{url.port}" if url.port else str(url.hostname)
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._open()

    def __reduce__(self) -> tuple[type[Client], tuple[SplitResult, int, Mapping[str, str] | None]]:
        """Pickle what it was made from; the copy makes connections of its own."""
        return (Client, self._arguments)

    def request(
        self,
        target: tuple[str, str],
        body: bytes | None,
        read: Callable[[Reply], ResultT],
        *,
        patience: Patience,
        deadline: Deadline,
    ) -> ResultT:
        """Return what ``read`` makes of the first reply whose status is not one of ``patience.busy``.

        Args:
            target: Method and path.
            body: JSON, or None.
            read: Takes a reply; its ``ValueError`` says that the reply is broken and asks for another.
            patience: When to try again.
            deadline: The end of all tries and pauses.

        Raises:
            NoReply: If there is none after ``patience.max_tries`` or before the deadline.
        """
        n_tries, got, reply = 0, "", None
        while True:
            n_tries += 1
            retry_after_s = 0.0
            try:
                reply = replace(self._try(target, body, patience.try_s, deadline), n_tries=n_tries)
                if reply.status not in patience.busy:
                    return read(reply)
                got, retry_after_s = f"status {reply.status}", _seconds(reply.headers.get("retry-after", ""))
            except (OSError, HTTPError) as error:
                cause = _cause(error)
                cut_short = isinstance(cause, TimeoutError) and not deadline.is_ahead()
                if not (got and cut_short):  # what came before tells more
                    got, reply = f"{type(cause).__name__}: {cause}", None
            except ValueError as error:
                got = str(error)
            pause_s = patience.pause_s(n_tries - 1, retry_after_s)
            if n_tries >= patience.max_tries or not deadline.is_ahead(pause_s):
                raise NoReply(got, n_tries, reply)
            time.sleep(pause_s)

    def _try(self, target: tuple[str, str], body: bytes | None, try_s: float, deadline: Deadline) -> Reply:
        if self._pid != os.getpid():
            self._open()
        free = self._free
        if not free.acquire(timeout=deadline.left_s()):
            raise TimeoutError("all connections are busy")
        try:
            deadline = Deadline(min(try_s, deadline.left_s()))
            try:
                return self._send(target, body, deadline)
            except ProtocolError as error:
                if not isinstance(_cause(error), ConnectionError):
                    raise
            # The server closed a kept connection the moment before. That costs a new one, not a pause.
            return self._send(target, body, deadline)
        finally:
            free.release()

    def _send(self, target: tuple[str, str], body: bytes | None, deadline: Deadline) -> Reply:
        left_s = deadline.left_s()
        response = self._pool.urlopen(
            *target,
            body,
            {**self._headers, DEADLINE_HEADER: f"{left_s:.3f}"},
            retries=False,
            redirect=False,
            timeout=Timeout(total=left_s),
            preload_content=False,
        )
        socket = cast("_Plain | _Secure", response.connection).socket
        content = bytearray()
        with closing(response):
            while not response.closed:
                socket.settimeout(deadline.left_s())
                content += (piece := response.read1(CHUNK_BYTES))
                if len(content) > MAX_REPLY_BYTES:
                    raise ProtocolError(f"a reply of more than {MAX_REPLY_BYTES} bytes")
                if not piece:
                    break
        return Reply(response.status, {name.lower(): value for name, value in response.headers.items()}, bytes(content))

    def _open(self) -> None:
        url, n_connections, _ = self._arguments
        is_secure = url.scheme == "https"
        pool = HTTPSConnectionPool if is_secure else HTTPConnectionPool
        self._pool = pool(str(url.hostname), url.port, maxsize=n_connections)
        self._pool.ConnectionCls = _Secure if is_secure else _Plain
        self._free = threading.BoundedSemaphore(n_connections)
        self._pid = os.getpid()


class _Plain(HTTPConnection):
    """Keeps hold of its socket, which ``http.client`` forgets when the response is to end the connection."""

    def connect(self) -> None:
        super().connect()
        self.socket = self.sock


class _Secure(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.socket = self.sock


def _cause(error: BaseException) -> BaseException:
    """Return the error of the operating system, or of the protocol, that urllib3 has wrapped."""
    inner = error.__cause__ or next((argument for argument in error.args if isinstance(argument, Exception)), None)
    return error if inner is None else _cause(inner)


def _seconds(retry_after: str) -> float:
    """Return the seconds of a ``Retry-After`` header; dates and nonsense count as none."""
    return float(retry_after) if retry_after.isdecimal() else 0.0
