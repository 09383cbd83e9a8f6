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

from ssp_env.errors import ConfigError, SSPError
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

    max_queries: int = 256
    max_k: int = 100
    max_body_bytes: int = 1 << 20
    max_requests: int = 1024
    max_waiting_bytes: int = 64 << 20
    max_waiting_queries: int = 16_384
    deadline_s: float = 30.0
    window_s: float = 0.002
    max_batch: int = 64

    def __post_init__(self) -> None:
        """Check the limits."""
        counts = (self.max_queries, self.max_k, self.max_body_bytes, self.max_requests, self.max_waiting_bytes)
        if min(*counts, self.max_waiting_queries, self.max_batch) < 1 or self.deadline_s <= 0 or self.window_s < 0:
            raise ConfigError(f"expected positive limits, got {self!r}; raise what is not")


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


def dump(value: object) -> bytes:
    """Return strict JSON in UTF-8; raises ``ValueError`` for numbers that JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")


def parse_search(body: bytes, limits: ServeLimits) -> SearchRequest:
    """Parse and check the body of ``POST /retrieve``.

    Raises:
        Refusal: 400 for what is no JSON object, 422 for a wrong value.
    """
    row = _object(body)
    queries = row.get("queries")
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise _invalid("queries", "a list of strings", queries)
    if len(queries) > limits.max_queries:
        raise _invalid("queries", f"at most {limits.max_queries} queries", len(queries))
    k = DEFAULT_K if row.get("topk") is None else row["topk"]
    if type(k) is not int or not 1 <= k <= limits.max_k:
        raise _invalid("topk", f"a whole number between 1 and {limits.max_k}", k)
    return_scores = False if row.get("return_scores") is None else row["return_scores"]
    if not isinstance(return_scores, bool):
        raise _invalid("return_scores", "true or false", return_scores)
    return SearchRequest(tuple(queries), k, return_scores)


def parse_page(body: bytes) -> PageRequest:
    """Parse and check the body of ``POST /page``: ``{"title"}`` or ``{"id"}``, and optionally ``"section"``.

    Raises:
        Refusal: 400 for what is no JSON object, 422 for a wrong value.
    """
    row = _object(body)
    for key in ("title", "id", "section"):
        if not isinstance(row.get(key), str | None):
            raise _invalid(key, "a string", row[key])
    title, passage_id, section = row.get("title"), row.get("id"), row.get("section")
    if (title is None) == (passage_id is None):
        raise Refusal(422, "invalid_request", "expected either 'title' or 'id' (of a passage); send exactly one")
    return PageRequest(
        title if isinstance(title, str) else None,
        passage_id if isinstance(passage_id, str) else None,
        section if isinstance(section, str) else None,
    )


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


def _object(body: bytes) -> dict[str, object]:
    try:
        row = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "invalid_json", f"expected a JSON object in UTF-8, got {error}; fix the body") from error
    if not isinstance(row, dict):
        raise Refusal(400, "invalid_json", f"expected a JSON object, got a {type(row).__name__}; fix the body")
    return row


def _invalid(key: str, expected: str, got: object) -> Refusal:
    return Refusal(422, "invalid_request", f"expected {expected} for {key!r}, got {got!r:.80}; change it")
