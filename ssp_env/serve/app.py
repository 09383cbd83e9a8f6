"""The routes: ``POST /retrieve``, ``POST /page``, ``GET /health``, and JSON for everything that goes wrong."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ssp_env.serve.handler import RetrievalHandler
from ssp_env.serve.wire import Refusal

LogLevel = Literal["summary", "requests", "queries"]
"""What is logged beyond events: counts every ten seconds, also a line a request, or also its body."""

SUMMARY_S = 10.0
DISCARD_S = 2.0
DISCARD_BODIES = 16
"""How much of a body that is too large is read after all, in largest allowed bodies."""
FINGERPRINT_HEADER = "x-corpus-fingerprint"
DEADLINE_HEADER = "x-deadline-s"

Act = Callable[[bytes], Awaitable[bytes]]


def build_app(handler: RetrievalHandler, *, log: logging.Logger, log_level: LogLevel = "summary") -> FastAPI:
    """Return the application around a handler, which it starts and stops."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        handler.start()
        summary = asyncio.create_task(_summarise(handler, log))
        try:
            yield
        finally:
            summary.cancel()
            with suppress(asyncio.CancelledError):
                await summary
            await handler.stop()
            log.info("stopped", extra={"fields": dict(handler.counts)})

    app = FastAPI(title="Retrieval server", lifespan=lifespan, docs_url=None, redoc_url=None)
    door = _Door(handler, log, log_level)

    @app.post("/retrieve")
    async def retrieve(request: Request) -> Response:
        """Search: see ``serve.wire``."""
        deadline_s = _deadline(request)
        return await door.answer(request, lambda body: handler.retrieve(body, deadline_s=deadline_s))

    @app.post("/page")
    async def page(request: Request) -> Response:
        """Open a page by ``title`` or passage ``id``, whole or one ``section``."""
        return await door.answer(request, handler.page)

    @app.get("/health")
    async def health() -> Response:
        """Say what is served and how it fares."""
        return _json(200, handler.health())

    @app.exception_handler(HTTPException)
    async def refuse(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = "expected POST /retrieve, POST /page or GET /health; check path and method"
        return _refused(Refusal(status, "unknown_route", message))

    return app


class _Door:
    """Lets requests in, one place each, and turns whatever happens into a response."""

    def __init__(self, handler: RetrievalHandler, log: logging.Logger, log_level: LogLevel) -> None:
        self._handler = handler
        self._log = log
        self._log_level = log_level
        self._headers = {FINGERPRINT_HEADER: handler.fingerprint}

    async def answer(self, request: Request, act: Act) -> Response:
        """Read the body and act on it."""
        started = time.perf_counter()
        body, chunks, most = b"", _Chunks(request), self._handler.limits.max_body_bytes
        try:
            with self._handler.admitted(_declared_bytes(request, most)):
                body = await chunks.read(most)
                response = _json(200, await act(body), self._headers)
        except Refusal as refusal:
            response = _refused(refusal)
            self._handler.counts[f"refused_{refusal.code}"] += 1
            if refusal.status == 413:
                await chunks.discard(DISCARD_BODIES * most)
        except ClientDisconnect:
            response = _refused(Refusal(400, "disconnected", "expected a whole body, got a closed connection; resend"))
        except Exception:  # noqa: BLE001 - whatever it is, the client gets an answer and the log the traceback
            self._log.exception("internal_error", extra={"fields": {"path": request.url.path}})
            response = _refused(Refusal(500, "internal", "expected an answer, got a fault of the server; see its log"))
        self._handler.counts["requests"] += 1
        if self._log_level != "summary":
            self._log_request(request, response, body, seconds=time.perf_counter() - started)
        return response

    def _log_request(self, request: Request, response: Response, body: bytes, *, seconds: float) -> None:
        fields: dict[str, object] = {"path": request.url.path, "status": response.status_code}
        fields.update(ms=round(1000 * seconds, 2), n_bytes_in=len(body), n_bytes_out=len(response.body))
        if self._log_level == "queries":
            fields["body"] = body.decode("utf-8", "replace")
        self._log.info("request", extra={"fields": fields})


class _Chunks:
    """The body of a request as it comes in; what was read once does not come again."""

    def __init__(self, request: Request) -> None:
        self._chunks = request.stream()
        self._awaits_leave = request.headers.get("expect", "").lower() == "100-continue"

    async def read(self, max_bytes: int) -> bytes:
        """Return the body, refusing one that grows beyond the limit although it was announced smaller or not at all."""
        self._awaits_leave = False  # reading gives it
        parts: list[bytes] = []
        n_bytes = 0
        async for part in self._chunks:
            n_bytes += len(part)
            if n_bytes > max_bytes:
                raise Refusal(413, "too_large", f"expected at most {max_bytes} bytes, got more; send fewer queries")
            parts.append(part)
        return b"".join(parts)

    async def discard(self, max_bytes: int) -> None:
        """Read on without keeping anything: who still sends when the connection closes never sees the refusal.

        Ends after ``max_bytes`` or ``DISCARD_S``, whatever the client goes on to send.
        """
        if self._awaits_leave:
            return
        n_bytes = 0
        with suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(DISCARD_S):
                async for part in self._chunks:
                    n_bytes += len(part)
                    if n_bytes > max_bytes:
                        return


def _declared_bytes(request: Request, max_bytes: int) -> int:
    """Return the announced size; without one a request may become as large as is allowed."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdecimal() else max_bytes


def _deadline(request: Request) -> float | None:
    """Return the seconds that the client is willing to wait, or None if it does not say so in a positive number."""
    try:
        seconds = float(request.headers.get(DEADLINE_HEADER, ""))
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def _json(status: int, body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def _refused(refusal: Refusal) -> Response:
    headers = {} if refusal.retry_after_s is None else {"retry-after": str(refusal.retry_after_s)}
    if refusal.status == 413:
        headers["connection"] = "close"  # more than is discarded may still come
    return _json(refusal.status, refusal.body(), headers)


async def _summarise(handler: RetrievalHandler, log: logging.Logger) -> None:
    """Log what was counted in each interval in which something was."""
    before = handler.counts.copy()
    while True:
        await asyncio.sleep(SUMMARY_S)
        now = handler.counts.copy()
        if now != before:
            log.info("summary", extra={"fields": dict(now - before)})
        before = now
