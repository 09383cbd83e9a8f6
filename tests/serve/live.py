"""A server in a thread of the test process, on a free loopback port."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

from ssp_env.corpus import MemoryCorpus  # noqa: E402
from ssp_env.protocols import Retriever  # noqa: E402
from ssp_env.serve.app import LogLevel, build_app  # noqa: E402
from ssp_env.serve.handler import RetrievalHandler, Service  # noqa: E402
from ssp_env.serve.wire import ServeLimits  # noqa: E402
from tests.fakes import PASSAGES, FakeRetriever  # noqa: E402

LOG = logging.getLogger("tests.serve")


def service(retriever: Retriever | None = None) -> Service:
    """The fake retriever over the fake passages."""
    return Service(MemoryCorpus(PASSAGES), retriever or FakeRetriever(), "fake")


@dataclass(frozen=True)
class Live:
    """A running server."""

    handler: RetrievalHandler
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, object], dict[str, str]]:
        """Return status, JSON and headers of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            fields = {name.lower(): value for name, value in response.getheaders()}
            return response.status, json.loads(response.read()), fields
        finally:
            connection.close()

    def post(self, path: str, row: object) -> tuple[int, dict[str, object], dict[str, str]]:
        return self.send("POST", path, json.dumps(row).encode())


@contextmanager
def running(
    served: Service | None = None,
    *,
    limits: ServeLimits | None = None,
    cache_bytes: int = 1 << 20,
    log_level: LogLevel = "summary",
    port: int = 0,
) -> Iterator[Live]:
    """Serve until the block ends."""
    handler = RetrievalHandler(served or service(), limits=limits, cache_bytes=cache_bytes, log=LOG)
    app = build_app(handler, log=LOG, log_level=log_level)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2, lifespan="on")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", port), backlog=512) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            yield Live(handler, listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()
