from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import RetrievalError
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.remote import RemoteRetriever, RemoteSettings
from ssp_env.serve.app import DISCARD_S
from ssp_env.serve.wire import ServeLimits
from ssp_env.types import SearchResult
from tests.fakes import PASSAGES, BrokenRetriever, FakeRetriever
from tests.serve.live import LOG, Live, running, service

FINGERPRINT = MemoryCorpus(PASSAGES).fingerprint


class GatedRetriever(FakeRetriever):
    """Searches only once the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.entered = threading.Event()

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        self.entered.set()
        assert self.gate.wait(20)
        return super().search(queries, k)


def test_remote_retriever_gives_what_the_local_one_gives() -> None:
    queries = ["river", "", "no match", "caf\u00e9 \U0001f600 \ud800", 'a "quoted" AND (thing', "x" * 100_000] + [
        "town"
    ] * 500
    with running() as server:
        remote = make_retriever("remote", MemoryCorpus(PASSAGES), {"url": server.url})
        assert remote.search(queries, 3) == FakeRetriever().search(queries, 3)


def test_answer_names_the_corpus() -> None:
    with running() as server:
        status, _, headers = server.post("/retrieve", {"queries": ["river"]})
        assert (status, headers["x-corpus-fingerprint"]) == (200, FINGERPRINT)
        with pytest.raises(RetrievalError, match="serve the same files"):
            RemoteRetriever(RemoteSettings(url=server.url), fingerprint="another").search(["river"], 1)


def test_clients_are_answered_alike_whatever_the_others_ask() -> None:
    requests = [([f"river {n % 7}", "town"][: 1 + n % 2], 1 + n % 3) for n in range(200)]
    with running(limits=ServeLimits(max_batch=5)) as server, ThreadPoolExecutor(16) as pool:
        remote = RemoteRetriever(RemoteSettings(url=server.url, max_connections=16))
        found = list(pool.map(lambda request: remote.search(*request), requests))
    assert found == [FakeRetriever().search(queries, k) for queries, k in requests]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/retrieve", b"{", 400, "invalid_json"),
        ("POST", "/retrieve", b'{"queries": 1}', 422, "invalid_request"),
        ("POST", "/retrieve", b'{"queries": ["a"], "topk": 101}', 422, "invalid_request"),
        ("POST", "/retrieve", json.dumps({"queries": ["a"] * 257}).encode(), 422, "invalid_request"),
        ("POST", "/retrieve", b'{"queries": ["%s"]}' % (b"a" * 2**20), 413, "too_large"),
        ("POST", "/page", b'{"title": "x"}', 404, "no_pages"),
        ("GET", "/retrieve", None, 405, "unknown_route"),
        ("GET", "/other", None, 404, "unknown_route"),
    ],
)
def test_refusals_are_json_with_a_code(method: str, path: str, body: bytes | None, status: int, code: str) -> None:
    with running() as server:
        got, answer, _ = server.send(method, path, body)
    error = answer["error"]
    assert isinstance(error, dict)
    assert (got, error["code"]) == (status, code)
    assert "expected" in error["message"]


def test_body_that_grows_beyond_the_limit_is_refused() -> None:
    with running(limits=ServeLimits(max_body_bytes=1000)) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(b"POST /retrieve HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
            connection.sendall(b"400\r\n" + b"a" * 0x400 + b"\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 413")
        assert server.post("/retrieve", {"queries": ["river"]})[0] == 200


def test_client_that_sends_far_too_much_is_told_why() -> None:
    with running(limits=ServeLimits(max_body_bytes=2**20)) as server:
        for _ in range(20):
            status, answer, _ = server.post("/retrieve", {"queries": ["a" * 2**23]})
            assert (status, answer["error"]["code"]) == (413, "too_large")  # type: ignore[index]


def _raw(server: Live, *parts: bytes) -> tuple[bytes, float]:
    """Return the whole answer to bytes of a request, and the seconds until it came."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
        started = time.perf_counter()
        return b"".join(iter(lambda: connection.recv(4096), b"")), time.perf_counter() - started


POST = b"POST /retrieve HTTP/1.1\r\nhost: x\r\n"


def test_body_whose_last_chunk_is_too_much_is_refused_as_json() -> None:
    with running(limits=ServeLimits(max_body_bytes=1000)) as server:
        whole = POST + b"transfer-encoding: chunked\r\n\r\n400\r\n" + b"a" * 0x400 + b"\r\n0\r\n\r\n"
        answer, _ = _raw(server, whole)
    assert answer.startswith(b"HTTP/1.1 413") and b'"too_large"' in answer


def test_client_that_asks_first_is_refused_before_it_sends() -> None:
    with running(limits=ServeLimits(max_body_bytes=1000)) as server:
        answer, seconds = _raw(server, POST + b"expect: 100-continue\r\ncontent-length: 5000\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413") and seconds < DISCARD_S


def test_client_that_stops_amid_too_large_a_body_is_answered_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssp_env.serve.app.DISCARD_S", 0.3)
    with running(limits=ServeLimits(max_body_bytes=1000)) as server:
        answer, seconds = _raw(server, POST + b"content-length: 5000\r\n\r\n" + b"a" * 100)
    assert answer.startswith(b"HTTP/1.1 413") and 0.2 < seconds < 10


def test_client_that_never_stops_sending_is_let_go() -> None:
    with running(limits=ServeLimits(max_body_bytes=1000)) as server:
        with pytest.raises(OSError):
            _raw(server, POST + b"content-length: 1000000000000\r\n\r\n", *[b"a" * 2**16] * 10_000)


def test_full_server_refuses_with_429_and_recovers() -> None:
    retriever = GatedRetriever()
    with running(service(retriever), limits=ServeLimits(max_requests=2)) as server, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(server.post, "/retrieve", {"queries": [f"river {n}"]}) for n in range(2)]
        _until_requests(server, 2)
        status, answer, headers = server.post("/retrieve", {"queries": ["town"]})
        assert (status, headers["retry-after"]) == (429, "1")
        assert answer["error"]["code"] == "queue_full"  # type: ignore[index]
        assert _health(server)["counts"]["refused_queue_full"] == 1  # type: ignore[index]
        retriever.gate.set()
        assert [future.result()[0] for future in waiting] == [200, 200]
        assert server.post("/retrieve", {"queries": ["town"]})[0] == 200


def test_late_answer_is_a_503_after_the_deadline_that_the_client_names() -> None:
    retriever = GatedRetriever()
    with running(service(retriever)) as server:
        status, answer, _ = server.send("POST", "/retrieve", b'{"queries": ["river"]}', {"x-deadline-s": "0.05"})
        assert (status, answer["error"]["code"]) == (503, "deadline")  # type: ignore[index]
        retriever.gate.set()


@pytest.mark.parametrize("deadline", ["nan", "-1", "soon", "inf", "1e9"])
def test_senseless_deadline_leaves_the_own_one(deadline: str) -> None:
    with running() as server:
        assert server.send("POST", "/retrieve", b'{"queries": ["river"]}', {"x-deadline-s": deadline})[0] == 200


def test_outage_of_the_retriever_reaches_the_client_as_an_error() -> None:
    with running(service(BrokenRetriever("river"))) as server:
        remote = RemoteRetriever(RemoteSettings(url=server.url, timeout_s=0.5))
        with pytest.raises(RetrievalError, match="503 with the body .*search_failed.*the retriever is down"):
            remote.search(["river"], 1)
        assert remote.search(["town"], 1) == FakeRetriever().search(["town"], 1)


def test_bug_is_a_500_that_tells_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Buggy(FakeRetriever):
        def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
            raise ZeroDivisionError("secret")

    with caplog.at_level(logging.ERROR, logger=LOG.name), running(service(Buggy())) as server:
        status, answer, _ = server.post("/retrieve", {"queries": ["river"]})
    assert (status, answer["error"]["code"]) == (500, "internal")  # type: ignore[index]
    assert "secret" not in str(answer)
    assert "internal_error" in [record.message for record in caplog.records]


def test_queries_are_logged_only_when_asked(caplog: pytest.LogCaptureFixture) -> None:
    for log_level, n_lines, has_text in (("summary", 0, False), ("requests", 1, False), ("queries", 1, True)):
        caplog.clear()
        with caplog.at_level(logging.INFO, logger=LOG.name), running(log_level=log_level) as server:  # type: ignore[arg-type]
            server.post("/retrieve", {"queries": ["my private question"]})
        lines = [record.__dict__["fields"] for record in caplog.records if record.message == "request"]
        assert len(lines) == n_lines
        assert ("my private question" in str(lines)) == has_text
        assert all(line["status"] == 200 for line in lines)


def test_request_that_has_begun_is_answered_when_the_server_stops() -> None:
    retriever = GatedRetriever()
    with ThreadPoolExecutor(1) as pool:
        with running(service(retriever)) as server:
            begun = pool.submit(server.post, "/retrieve", {"queries": ["river"]})
            assert retriever.entered.wait(20)
            opener = threading.Timer(0.3, retriever.gate.set)
            opener.start()
        assert begun.result()[0] == 200
        opener.join()


def test_restart_during_searches_costs_time_only() -> None:
    expected = FakeRetriever().search(["river"], 2)
    with running() as server:
        remote = RemoteRetriever(RemoteSettings(url=server.url, timeout_s=30), fingerprint=FINGERPRINT)
        assert remote.search(["river"], 2) == expected
    with ThreadPoolExecutor(1) as pool:
        during_outage = pool.submit(remote.search, ["river"], 2)
        with running(port=server.port):
            assert during_outage.result() == expected


def _health(server: Live) -> dict[str, object]:
    return server.send("GET", "/health")[1]


def _until_requests(server: Live, n_requests: int) -> None:
    while _health(server)["now"]["requests"] < n_requests:  # type: ignore[index]
        pass
