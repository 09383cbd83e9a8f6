"""What travels between client and server: Search-R1's format for searches, one of our own for pages and refusals.

``POST /retrieve`` takes ``{"queries": [...], "topk": 3, "return_scores": true}`` and answers
``{"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}``, one list a query; without scores the
documents stand bare in the lists.
``topk`` defaults to 3 and ``return_scores`` to false. Unknown keys are ignored, as in the original.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ssp_env.errors import ConfigError, SSPError
from ssp_env.schema import Count, Positive, check, load, shown, within
from ssp_env.text import join_contents
from ssp_env.types import Page, SearchResult

DEFAULT_K = 3


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """What the server refuses, and how it gathers.

    Attributes:
        max_queries: Queries a request.
        max_k: Passages a query.
        max_body_bytes: Size of a request.
        max_requests: Requests being read, waiting or searched; more are refused with 429.
        max_waiting_bytes: Sum of their sizes; more are refused with 429.
        max_waiting_queries: Queries waiting for a search; more are refused with 429.
        deadline_s: Seconds after which a request is given up with 503, unless it asks for fewer.
        window_s: Seconds that a query waits for company while nothing is searched.
        max_batch: Queries a search.
    """

    max_queries: Count = 256
    max_k: Count = 100
    max_body_bytes: Count = 1 << 20
    max_requests: Count = 1024
    max_waiting_bytes: Count = 64 << 20
    max_waiting_queries: Count = 16_384
    deadline_s: Positive = 30.0
    window_s: Annotated[float, within(0)] = 0.002
    max_batch: Count = 64

    def __post_init__(self) -> None:
        """Check the limits."""
        check(self, what="the server's limits", error=ConfigError)


class Refusal(SSPError):
    """An answer other than 200; ``code`` is its machine-readable reason."""

    def __init__(self, status: int, code: str, message: str, *, retry_after_s: int | None = None) -> None:
        """Describe the refusal; ``retry_after_s`` tells that asking again may help."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self) -> bytes:
        """Return the JSON that is sent."""
        return dump({"error": {"code": self.code, "message": str(self)}})


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A checked ``POST /retrieve``."""

    queries: tuple[str, ...]
    k: int
    return_scores: bool


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A checked ``POST /page``: exactly one of title and passage id, and perhaps the heading of one section."""

    title: str | None
    passage_id: str | None
    section: str | None


@dataclass(frozen=True, slots=True)
class _SearchBody:
    queries: tuple[str, ...]
    topk: int | None = None
    return_scores: bool | None = None


@dataclass(frozen=True, slots=True)
class _PageBody:
    title: str | None = None
    id: str | None = None
    section: str | None = None


def dump(value: object) -> bytes:
    """Return strict JSON in UTF-8; raises ``ValueError`` for numbers that JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")


def parse_search(body: bytes, limits: ServeLimits) -> SearchRequest:
    """Parse and check the body of ``POST /retrieve``.

    Raises:
        Refusal: 400 for what is no JSON object, 422 for a wrong value.
    """
    given = load(_SearchBody, body, what="a search", error=_invalid, broken=_no_json)
    if len(given.queries) > limits.max_queries:
        raise _invalid(f"expected at most {limits.max_queries} queries, got {len(given.queries)}; send fewer")
    k = DEFAULT_K if given.topk is None else given.topk
    if not 1 <= k <= limits.max_k:
        raise _invalid(f"expected a whole number from 1 to {limits.max_k} for 'topk', got {shown(k)}; change it")
    return SearchRequest(given.queries, k, bool(given.return_scores))


def parse_page(body: bytes) -> PageRequest:
    """Parse and check the body of ``POST /page``: ``{"title"}`` or ``{"id"}``, and optionally ``"section"``.

    Raises:
        Refusal: 400 for what is no JSON object, 422 for a wrong value.
    """
    given = load(_PageBody, body, what="a page request", error=_invalid, broken=_no_json)
    if (given.title is None) == (given.id is None):
        raise _invalid("expected either 'title' or 'id' (of a passage), got both or none; send exactly one")
    return PageRequest(given.title, given.id, given.section)


def render_results(results: Sequence[SearchResult], *, return_scores: bool) -> bytes:
    """Return the JSON list for one query."""
    return dump([_hit(result, return_scores) for result in results])


def render_answer(lists: Sequence[bytes]) -> bytes:
    """Join the lists of all queries into the body of the answer."""
    return b'{"result": [' + b", ".join(lists) + b"]}"


def render_page(page: Page) -> bytes:
    """Return the body of the answer to ``POST /page``."""
    sections = [{"heading": s.heading, "level": s.level, "text": s.text} for s in page.sections]
    return dump({"page": {"id": page.id, "title": page.title, "sections": sections, "links": list(page.links)}})


def _hit(result: SearchResult, return_scores: bool) -> dict[str, object]:
    passage = result.passage
    document: dict[str, object] = {"id": passage.id, "contents": join_contents(passage.title, passage.text)}
    return {"document": document, "score": float(result.score)} if return_scores else document


def _no_json(message: str) -> Refusal:
    return Refusal(400, "invalid_json", message)


def _invalid(message: str) -> Refusal:
    return Refusal(422, "invalid_request", message)
