"""Puts an HTTP server on loopback under load: many connections, each sending its requests one after the other.

The client is kept cheap, since it shares the machine with the server: requests are encoded beforehand, and of the
answers only the status and the length are read, plus the bodies that are asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class Load:
    """What came back; ``kept`` holds body and status of the requests that were to be kept, by (client, number)."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    latencies_s: list[float] = field(default_factory=list)
    kept: dict[tuple[int, int], tuple[int, bytes]] = field(default_factory=dict)

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the latencies."""
        latencies: npt.NDArray[np.float64] = np.array(self.latencies_s)
        return round(float(np.percentile(latencies, percent)) * 1000, 2)


def encode(body: bytes, path: str = "/retrieve") -> bytes:
    """Return a whole request."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def put_under_load(port: int, requests: Sequence[Sequence[bytes]], *, keep_every: int) -> Load:
    """Send ``requests[client]`` over one connection a client and return when all are answered.

    Args:
        port: Where the server listens on loopback.
        requests: Whole requests by client.
        keep_every: Keep each so-manieth answer of a client.
    """
    load = Load()

    async def whole() -> None:
        started = time.perf_counter()
        await asyncio.gather(*(_client(port, n, own, keep_every, load) for n, own in enumerate(requests)))
        load.seconds = time.perf_counter() - started

    asyncio.run(whole())
    return load


async def _client(port: int, client: int, requests: Sequence[bytes], keep_every: int, load: Load) -> None:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    except OSError as error:
        load.faults[type(error).__name__] += len(requests)
        return
    for number, request in enumerate(requests):
        started = time.perf_counter()
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(_length(head))
        except (OSError, asyncio.IncompleteReadError) as error:
            load.faults[type(error).__name__] += len(requests) - number
            break
        load.latencies_s.append(time.perf_counter() - started)
        status = int(head[9:12])
        load.statuses[status] += 1
        if number % keep_every == 0:
            load.kept[client, number] = (status, body)
    writer.close()


def _length(head: bytes) -> int:
    lowered = head.lower()
    start = lowered.index(b"content-length:") + len(b"content-length:")
    return int(lowered[start : lowered.index(b"\r\n", start)])
