"""What the server does, without a web framework: bytes in, bytes out, refusals as exceptions.

FastAPI routes call it here; any other front (replicas of a serving engine) can call the same three methods. Logs are
one JSON object a line on standard error, for our own events and for those of the web server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from ssp_env.corpus.pages import PageStore, only_section
from ssp_env.errors import SSPError
from ssp_env.protocols import Corpus, Retriever
from ssp_env.retrieval.wrappers import OVERHEAD, BlockedRetriever, Blocklist, LruCache
from ssp_env.serve.batcher import Batcher
from ssp_env.serve.wire import (
    PageRequest,
    Refusal,
    ServeLimits,
    dump,
    parse_page,
    parse_search,
    render_answer,
    render_page,
    render_results,
)
from ssp_env.types import Page

LOGGER = "ssp_env.serve"
Group = tuple[int, bool]
"""What all queries of one search share: ``k`` and whether scores are wanted."""


@dataclass(frozen=True, slots=True)
class Service:
    """What is served.

    Attributes:
        corpus: The passages.
        retriever: Finds them; called from one thread at a time.
        name: The retriever's name, for ``/health``.
        pages: Whole pages, or None for a server without ``/page``.
        blocklist: Passages and pages that are never shown.
        load_s: Seconds it took to open all this.
    """

    corpus: Corpus
    retriever: Retriever
    name: str
    pages: PageStore | None = None
    blocklist: Blocklist = Blocklist()
    load_s: float = 0.0


class RetrievalHandler:
    """Answers the requests of all clients; to be used within one running event loop.

    Rendered results are kept in a cache of ``cache_bytes``, keyed by query, ``k`` and whether scores are shown; the
    corpus cannot change while it is served.
    """

    def __init__(
        self, service: Service, *, limits: ServeLimits | None = None, cache_bytes: int = 256 << 20, log: logging.Logger
    ) -> None:
        """Prepare; ``start`` makes it run."""
        self.limits = limits or ServeLimits()
        self.fingerprint = service.corpus.fingerprint
        self.counts: Counter[str] = Counter()
        self._service = service
        blocklist = service.blocklist
        wanted = blocklist.ids or blocklist.title_keys
        self._retriever = BlockedRetriever(service.retriever, blocklist) if wanted else service.retriever
        self._cache: LruCache[bytes] = LruCache(cache_bytes)
        self._batcher: Batcher[Group] = Batcher(self._search, self.limits)
        self._log = log
        self._n_requests = 0
        self._n_bytes = 0
        self._started = time.monotonic()

    def start(self) -> None:
        """Begin to answer, in the running event loop."""
        self._batcher.start()

    async def stop(self) -> None:
        """Refuse what still waits."""
        await self._batcher.stop()

    @contextmanager
    def admitted(self, n_bytes: int) -> Iterator[None]:
        """Hold a place for a request of this size; to be entered before its body is read.

        Raises:
            Refusal: 413 if it is too large, 429 if too many requests or bytes are held already.
        """
        if n_bytes > self.limits.max_body_bytes:
            message = f"expected at most {self.limits.max_body_bytes} bytes, got {n_bytes}; send fewer queries"
            raise Refusal(413, "too_large", message)
        full = self._n_requests >= self.limits.max_requests
        if full or self._n_bytes + n_bytes > self.limits.max_waiting_bytes:
            message = f"expected fewer requests at once, got {self._n_requests} already; try again later"
            raise Refusal(429, "queue_full", message, retry_after_s=1)
        self._n_requests += 1
        self._n_bytes += n_bytes
        try:
            yield
        finally:
            self._n_requests -= 1
            self._n_bytes -= n_bytes

    async def retrieve(self, body: bytes, *, deadline_s: float | None = None) -> bytes:
        """Answer ``POST /retrieve``.

        Args:
            body: The request.
            deadline_s: Seconds that the client will wait; the server's own deadline is never exceeded.

        Raises:
            Refusal: If the request is malformed, too many wait, time is over, or the retriever failed.
        """
        request = parse_search(body, self.limits)
        group = (request.k, request.return_scores)
        found = {query: self._cache.get((query, group)) for query in request.queries}
        missing = [query for query, answer in found.items() if answer is None]
        self.counts["queries"] += len(request.queries)
        if missing:
            timeout_s = min(self.limits.deadline_s, deadline_s or self.limits.deadline_s)
            try:
                found.update(zip(missing, await self._batcher.run(missing, group, timeout_s=timeout_s), strict=True))
            except Refusal:
                raise
            except SSPError as error:
                message = f"expected an answer from the retriever, got {type(error).__name__}: {error}; see the log"
                raise Refusal(503, "search_failed", message, retry_after_s=1) from error
        return render_answer([found[query] or b"[]" for query in request.queries])

    async def page(self, body: bytes) -> bytes:
        """Answer ``POST /page``.

        Raises:
            Refusal: If the request is malformed, nothing has this title or id, or the server has no pages.
        """
        request = parse_page(body)
        return await asyncio.to_thread(self._page, request)

    def health(self) -> bytes:
        """Answer ``GET /health``: what is served, how long it took to load, counts since the start, and limits."""
        service, limits = self._service, asdict(self.limits)
        counts = {**self.counts, "batches": self._batcher.n_batches, "searched": self._batcher.n_searched}
        counts.update(cache_hits=self._cache.n_hits, cache_misses=self._cache.n_misses, cached=len(self._cache))
        return dump(
            {
                "status": "ok",
                "fingerprint": self.fingerprint,
                "retriever": service.name,
                "n_passages": len(service.corpus),
                "n_pages": None if service.pages is None else len(service.pages),
                "load_s": round(service.load_s, 3),
                "uptime_s": round(time.monotonic() - self._started, 3),
                "now": {"requests": self._n_requests, "waiting_queries": self._batcher.n_waiting},
                "counts": counts,
                "limits": limits,
            }
        )

    def _search(self, queries: Sequence[str], group: Group) -> list[bytes]:
        """Search one batch, render and remember its results; runs in the search thread."""
        k, return_scores = group
        try:
            found = self._retriever.search(queries, k)
        except Exception as error:
            self._log.error("search_failed", extra={"fields": {"n_queries": len(queries), "error": repr(error)}})
            raise
        rendered = [render_results(results, return_scores=return_scores) for results in found]
        for query, answer in zip(queries, rendered, strict=True):
            self._cache.put((query, group), answer, cost=len(answer) + 4 * len(query) + OVERHEAD)
        return rendered

    def _page(self, request: PageRequest) -> bytes:
        pages, what = self._service.pages, request.title or request.passage_id
        if pages is None:
            raise Refusal(404, "no_pages", "expected a server with pages, got one with passages only; give it --pages")
        try:
            page = self._find_page(pages, request)
        except KeyError:
            raise Refusal(404, "unknown_page", f"expected a known page, got {what!r:.80}; search for it") from None
        if request.section is None:
            return render_page(page)
        try:
            return render_page(only_section(page, request.section))
        except KeyError:
            headings = [section.heading for section in page.sections if section.heading]
            message = f"expected a section of {page.title!r}, got {request.section!r:.80}; choose one of {headings!r}"
            raise Refusal(404, "unknown_section", message) from None

    def _find_page(self, pages: PageStore, request: PageRequest) -> Page:
        """Return the page, unless it is blocked: by its title or by the id of the passage it is asked by."""
        blocklist = self._service.blocklist
        if request.passage_id is None:
            page = pages.by_title(request.title or "")
        else:
            passage = self._service.corpus.get(request.passage_id)
            if blocklist.blocks(passage):
                raise KeyError(request.passage_id)
            page = pages.of_passage(passage)
        if blocklist.blocks_title(page.title):
            raise KeyError(page.title)
        return page


class JsonFormatter(logging.Formatter):
    """Writes time, level, event and the mapping given as ``extra={"fields": ...}``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=True, default=repr)


def log_config() -> dict[str, object]:
    """Return the logging configuration of a server process, for ``logging.config.dictConfig``."""
    loggers = {name: {"handlers": ["stderr"], "level": "INFO", "propagate": False} for name in (LOGGER, "uvicorn")}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "loggers": loggers,
    }
