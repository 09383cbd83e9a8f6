"""A retriever behind HTTP: ``ssp serve``, or any server of Search-R1's ``POST /retrieve``.

Searching changes nothing on the server, so whatever may pass (a refused or broken connection, 429, 502, 503, 504) is
tried again until the time is over; the rest is a ``RetrievalError`` at once, with the status and the start of the
body. An error page never becomes a result. Left out: encryption of its own, proxies, redirects, authentication.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult

from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.http import Client, Deadline, NoReply, Patience, Reply, split_url
from ssp_env.protocols import Corpus
from ssp_env.retrieval.ranking import check_arguments
from ssp_env.schema import parse
from ssp_env.text import split_contents
from ssp_env.types import Passage, SearchResult

FINGERPRINT_HEADER = "x-corpus-fingerprint"
HEAD_CHARS = 200
MAX_TIMEOUT_S = 86_400
MAX_CONNECTIONS = 1024


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """What can be set from a configuration.

    Attributes:
        url: The server, such as ``http://127.0.0.1:8000``; ``/retrieve`` is added unless it has a path.
        timeout_s: Seconds for a search, all attempts and batches of it together; a day at most.
        max_connections: Connections a process, 1024 at most; further threads wait for one.
        max_queries: Queries a request, unless the server allows fewer.
        check_corpus: Whether answers must come from the corpus that the retriever is made for. Servers that do not
            name theirs in ``x-corpus-fingerprint`` can be used only without.
    """

    url: str = ""
    timeout_s: float = 60.0
    max_connections: int = 8
    max_queries: int = 256
    check_corpus: bool = True


def make_remote(corpus: Corpus, config: Mapping[str, object], index_dir: Path | None) -> RemoteRetriever:
    """Make the retriever from a plain configuration with the keys of ``RemoteSettings``; nothing is kept on disk."""
    settings = parse(RemoteSettings, config, what="'remote'")
    return RemoteRetriever(settings, fingerprint=corpus.fingerprint if settings.check_corpus else None)


class RemoteRetriever:
    """Asks a server; see ``protocols.Retriever``. Safe to use from several threads and in forked processes.

    Equal scores are put in the order of passage ids. A title is what stands in the first line of ``contents``.
    """

    def __init__(self, settings: RemoteSettings, *, fingerprint: str | None = None) -> None:
        """Prepare; the first search connects.

        Args:
            settings: Where the server is, and how patient to be.
            fingerprint: That of the expected corpus; None accepts any.

        Raises:
            ConfigError: If the URL is not one of HTTP, or a number is out of range.
        """
        self._settings, self._fingerprint = settings, fingerprint
        url = _parse_url(settings.url)
        self._path = url.path if url.path.strip("/") else "/retrieve"
        connects = 1 <= settings.max_connections <= MAX_CONNECTIONS
        if not connects or not 0 < settings.timeout_s <= MAX_TIMEOUT_S or settings.max_queries < 1:
            most = f"at most {MAX_TIMEOUT_S} s and {MAX_CONNECTIONS} connections"
            raise ConfigError(f"expected positive numbers for 'remote', {most}, got {settings!r}; change them")
        self._client = Client(url, settings.max_connections)
        self._limits: tuple[int, int] | None = None

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the best passages for each query; see ``Retriever.search``.

        An answer that is late, refused or no results of the expected corpus is a ``RetrievalError``.
        """
        check_arguments(queries, k)
        deadline = Deadline(self._settings.timeout_s)
        found: list[list[SearchResult]] = []
        if not queries:
            return found
        for batch in _batches(queries, *self._server_limits(deadline)):
            body = json.dumps({"queries": batch, "topk": k, "return_scores": True}).encode()
            reply = self._request("POST", self._path, body, deadline)
            self._check(reply)
            try:
                found.extend(_parse_results(reply.body, n_queries=len(batch), k=k))
            except ValueError as error:
                raise RetrievalError(f"{error}; is {self._settings.url} a retrieval server? {_head(reply)}") from error
        return found

    def _request(self, method: str, path: str, body: bytes | None, deadline: Deadline) -> Reply:
        try:
            return self._client.request(
                (method, path), body, lambda reply: reply, patience=Patience(), deadline=deadline
            )
        except NoReply as error:
            got = _head(error.reply) if error.reply else f"got {error.got}"
            wanted = f"expected an answer from {self._client.address}{path} within {deadline.timeout_s:g} s"
            raise RetrievalError(f"{wanted}, {got} after {error.n_tries} attempts; is the server running?") from error

    def _check(self, reply: Reply) -> None:
        if reply.status != 200:
            raise RetrievalError(f"expected results from {self._settings.url}, {_head(reply)}; see the server's log")
        got = reply.headers.get(FINGERPRINT_HEADER)
        if self._fingerprint is not None and got != self._fingerprint:
            remedy = "serve the same files" if got else "pass check_corpus=False if that is meant"
            wanted = f"expected the corpus {self._fingerprint!r} at {self._settings.url}"
            raise RetrievalError(f"{wanted}, got {got!r}; {remedy}")

    def _server_limits(self, deadline: Deadline) -> tuple[int, int]:
        """Return how many queries and bytes the server takes in a request, asked once."""
        if self._limits is None:
            health = self._path.rpartition("/")[0] + "/health"
            reply = self._request("GET", health, None, deadline)
            self._limits = _parse_limits(reply, self._settings.max_queries)
        return self._limits


def _parse_url(url: str) -> SplitResult:
    try:
        parts = split_url(url)
        if not url.isascii() or not url.isprintable() or " " in url or parts.query or parts.fragment:
            raise ValueError("a space, a query or the like")
        return parts
    except ValueError as error:
        wanted = f"expected the URL of a retrieval server, got {url!r} ({error})"
        raise ConfigError(f"{wanted}; write it as http://host:port") from error


def _batches(queries: Sequence[str], max_queries: int, max_body_bytes: int) -> list[list[str]]:
    """Split queries so that each request keeps to the limits of the server."""
    room = max_body_bytes - 100  # the rest of the request
    batches: list[list[str]] = []
    n_bytes = 0
    for query in queries:
        size = len(json.dumps(query)) + 2
        if not batches or len(batches[-1]) >= max_queries or n_bytes + size > room:
            batches.append([])
            n_bytes = 0
        batches[-1].append(query)
        n_bytes += size
    return batches


def _parse_limits(reply: Reply, max_queries: int) -> tuple[int, int]:
    """Read the limits from ``/health``; anything unexpected there says only that this is another kind of server."""
    body_bytes = 1 << 20
    try:
        row = json.loads(reply.body)["limits"] if reply.status == 200 else {}
        max_queries = min(max_queries, int(row.get("max_queries", max_queries)))
        body_bytes = int(row.get("max_body_bytes", body_bytes))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return max(1, max_queries), body_bytes


def _parse_results(body: bytes, *, n_queries: int, k: int) -> list[list[SearchResult]]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected JSON, got {error}") from error
    lists = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(lists, list) or len(lists) != n_queries:
        got = len(lists) if isinstance(lists, list) else type(lists).__name__
        raise ValueError(f"expected one list for each of {n_queries} queries under 'result', got {got!r}")
    return [_parse_list(entries, k) for entries in lists]


def _parse_list(entries: object, k: int) -> list[SearchResult]:
    if not isinstance(entries, list) or len(entries) > k:
        raise ValueError(f"expected a list of at most {k} results, got {entries!r:.80}")
    scored = [_parse_entry(entry) for entry in entries]
    if any(after > before for (before, _), (after, _) in zip(scored, scored[1:], strict=False)):
        raise ValueError(f"expected results best first, got the scores {[score for score, _ in scored]!r:.80}")
    scored.sort(key=lambda pair: (-pair[0], pair[1].id))
    return [SearchResult(passage, score, rank) for rank, (score, passage) in enumerate(scored)]


def _parse_entry(entry: object) -> tuple[float, Passage]:
    document = entry.get("document") if isinstance(entry, dict) else None
    score = entry.get("score") if isinstance(entry, dict) else None
    if not isinstance(document, dict) or isinstance(score, bool) or not isinstance(score, int | float):
        raise ValueError(f"expected a 'document' and a 'score', got {entry!r:.80}")
    passage_id, contents = document.get("id"), document.get("contents")
    if type(passage_id) is int:
        passage_id = str(passage_id)
    if not isinstance(passage_id, str) or not isinstance(contents, str) or not math.isfinite(score):
        raise ValueError(f"expected an 'id', 'contents' and a finite score, got {entry!r:.80}")
    title, text = split_contents(contents)
    return float(score), Passage(passage_id, title, text)


def _head(reply: Reply) -> str:
    text = reply.body[: 4 * HEAD_CHARS].decode("utf-8", "replace")[:HEAD_CHARS]
    return f"got status {reply.status} with the body {text!r}"
