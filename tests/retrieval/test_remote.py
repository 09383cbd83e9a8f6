from __future__ import annotations

import gc
import json
import multiprocessing
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.http import Patience
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.remote import RemoteRetriever, RemoteSettings
from ssp_env.text import join_contents
from ssp_env.types import SearchResult
from tests.fakes import PASSAGES, FakeRetriever

Reply = tuple[int, bytes, dict[str, str]]
Script = Callable[[str, dict[str, object]], Reply]


def results(request: dict[str, object]) -> bytes:
    """What a correct server answers."""
    queries, k = request["queries"], request["topk"]
    assert isinstance(queries, list) and isinstance(k, int) and request["return_scores"] is True
    return json.dumps(
        {
            "result": [
                [
                    {
                        "document": {"id": r.passage.id, "contents": join_contents(r.passage.title, r.passage.text)},
                        "score": r.score,
                    }
                    for r in found
                ]
                for found in FakeRetriever().search(queries, k)
            ]
        }
    ).encode()


class Server:
    """A loopback server that answers from a script; ``requests`` holds the bodies of ``POST`` requests."""

    def __init__(self, script: Script, *, port: int = 0, health: Reply = (404, b"{}", {}), close: bool = False) -> None:
        self.requests: list[dict[str, object]] = []
        self.n_connections = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def setup(self) -> None:
                outer.n_connections += 1
                super().setup()

            def do_GET(self) -> None:
                self.reply(health)

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append(request)
                self.reply(script(self.path, request))

            def reply(self, reply: Reply) -> None:
                status, body, headers = reply
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = close  # without saying so, as a server that is restarted does

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def stop(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@contextmanager
def serving(script: Script, **options: object) -> Iterator[Server]:
    server = Server(script, **options)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.stop()


def correct(path: str, request: dict[str, object]) -> Reply:
    return 200, results(request), {}


def remote(url: str, *, timeout_s: float = 5.0, **settings: int) -> RemoteRetriever:
    return RemoteRetriever(RemoteSettings(url=url, timeout_s=timeout_s, **settings))


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


QUERIES = ["river", "town", "", "no match", "caf\u00e9 \U0001f600 \ud800", "metal"]


def test_results_are_those_of_the_server() -> None:
    with serving(correct) as server:
        retriever = remote(server.url)
        assert retriever.search(QUERIES, 3) == FakeRetriever().search(QUERIES, 3)
        assert retriever.search([], 3) == []


def test_route_is_added_unless_the_url_has_a_path() -> None:
    paths = []

    def script(path: str, request: dict[str, object]) -> Reply:
        paths.append(path)
        return correct(path, request)

    with serving(script) as server:
        for url in (server.url, f"{server.url}/", f"{server.url}/wiki/find"):
            remote(url).search(["river"], 1)
    assert paths == ["/retrieve", "/retrieve", "/wiki/find"]


def test_batches_keep_to_the_limits_of_the_server() -> None:
    limits = b'{"limits": {"max_queries": 4, "max_body_bytes": 300}}'
    with serving(correct, health=(200, limits, {})) as server:
        queries = [f"river {n}" for n in range(10)] + ["town " * 30] + ["x" * 150]
        assert remote(server.url).search(queries, 2) == FakeRetriever().search(queries, 2)
        sent = [request["queries"] for request in server.requests]
    assert [len(batch) for batch in sent if isinstance(batch, list)] == [4, 4, 3, 1]
    assert max(len(json.dumps(request)) for request in server.requests) <= 300


def test_own_limit_counts_where_the_server_names_none() -> None:
    with serving(correct) as server:
        remote(server.url, max_queries=5).search(["river"] * 11, 1)
        assert len(server.requests) == 3


def test_connection_is_kept() -> None:
    with serving(correct) as server:
        retriever = remote(server.url)
        for _ in range(5):
            retriever.search(["river"], 1)
        assert server.n_connections == 1


def test_kept_connection_that_the_server_closed_is_replaced_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pause(self: Patience, attempt: int, retry_after_s: float) -> float:
        raise AssertionError("paused")

    monkeypatch.setattr(Patience, "pause_s", no_pause)
    with serving(correct, close=True) as server:
        retriever = remote(server.url)
        for _ in range(4):
            assert retriever.search(["river"], 1) == FakeRetriever().search(["river"], 1)
        assert server.n_connections == 5


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_passing_trouble_is_tried_again(status: int) -> None:
    replies = iter([(status, b"busy", {"retry-after": "0"}), (status, b"<html>", {})])

    def script(path: str, request: dict[str, object]) -> Reply:
        return next(replies, None) or correct(path, request)

    with serving(script) as server:
        assert remote(server.url).search(["river"], 2) == FakeRetriever().search(["river"], 2)
        assert len(server.requests) == 3


def test_broken_answer_is_tried_again() -> None:
    replies = iter([(200, b'{"result', {"content-length": "999"})])

    def script(path: str, request: dict[str, object]) -> Reply:
        return next(replies, None) or correct(path, request)

    with serving(script, close=True) as server:
        assert remote(server.url).search(["river"], 2) == FakeRetriever().search(["river"], 2)
        assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 301])
def test_refusal_is_an_error_at_once_with_status_and_body(status: int) -> None:
    with serving(lambda path, request: (status, b"<html>no such thing</html>" + b"x" * 9999, {})) as server:
        with pytest.raises(RetrievalError, match=f"status {status} with the body '<html>no such thing") as caught:
            remote(server.url).search(["river"], 1)
        assert len(server.requests) == 1
    assert len(str(caught.value)) < 500


ENTRY = {"document": {"id": "a", "contents": '"A"\nb'}, "score": 1.0}


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>It works!</html>",
        b"",
        b"[]",
        b'{"results": []}',
        b'{"result": []}',
        b'{"result": [[], []]}',
        b'{"result": [{}]}',
        b'{"result": [[{"id": "a", "contents": "b"}]]}',
        json.dumps({"result": [[ENTRY, ENTRY, ENTRY]]}).encode(),
        json.dumps({"result": [[{**ENTRY, "score": "1"}]]}).encode(),
        json.dumps({"result": [[{**ENTRY, "score": float("nan")}]]}).encode(),
        json.dumps({"result": [[{**ENTRY, "document": {"id": "a"}}]]}).encode(),
        json.dumps({"result": [[{**ENTRY, "score": 1}, {**ENTRY, "score": 2}]]}).encode(),
        b"[" * 100_000,
    ],
)
def test_malformed_answer_is_an_error_never_a_result(answer: bytes) -> None:
    gc.collect()  # what earlier tests left behind cannot be finalised in the depth of the last answer's recursion
    with (
        serving(lambda path, request: (200, answer, {})) as server,
        pytest.raises(RetrievalError, match="is http://.* a retrieval server"),
    ):
        remote(server.url).search(["river"], 2)


def test_equal_scores_are_ordered_by_id_and_numbers_become_strings() -> None:
    entries = [{"document": {"id": n, "contents": f'"T"\n{n}'}, "score": 1} for n in (3, 1, 2)]
    with serving(lambda path, request: (200, json.dumps({"result": [entries]}).encode(), {})) as server:
        found = remote(server.url).search(["river"], 3)[0]
    assert [(r.passage.id, r.rank, r.score) for r in found] == [("1", 0, 1.0), ("2", 1, 1.0), ("3", 2, 1.0)]


def test_missing_server_is_an_error_after_the_deadline() -> None:
    started = time.monotonic()
    with pytest.raises(RetrievalError, match=r"within 0.3 s, got ConnectionRefusedError.* is the server running"):
        remote(f"http://127.0.0.1:{unused_port()}", timeout_s=0.3).search(["river"], 1)
    assert time.monotonic() - started < 2


def test_silent_server_is_an_error_after_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        with pytest.raises(RetrievalError, match="within 0.3 s, got TimeoutError"):
            remote(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.3).search(["river"], 1)
        assert time.monotonic() - started < 2


def test_server_that_always_refuses_is_an_error_after_the_deadline() -> None:
    with serving(lambda path, request: (503, b'{"error": "stopping"}', {})) as server:
        with pytest.raises(RetrievalError, match="503 with the body .*stopping.* attempts"):
            remote(server.url, timeout_s=0.5).search(["river"], 1)
        assert len(server.requests) > 1


def test_search_goes_on_when_the_server_is_back_within_the_deadline() -> None:
    with serving(correct) as server:
        retriever = remote(server.url, timeout_s=20)
        expected = retriever.search(["river"], 2)
    port = int(server.url.rpartition(":")[2])
    with ThreadPoolExecutor(1) as pool:
        during_outage = pool.submit(retriever.search, ["river"], 2)
        with serving(correct, port=port):
            assert during_outage.result(timeout=20) == expected


def test_other_corpus_is_refused_and_an_unnamed_one_too() -> None:
    corpus = MemoryCorpus(PASSAGES)
    expected = FakeRetriever().search(["river"], 1)

    def named(fingerprint: str) -> Script:
        return lambda path, request: (200, results(request), {"X-Corpus-Fingerprint": fingerprint})

    with serving(named(corpus.fingerprint)) as server:
        assert make_retriever("remote", corpus, {"url": server.url}).search(["river"], 1) == expected
    with serving(named("other")) as server, pytest.raises(RetrievalError, match="got 'other'; serve the same files"):
        make_retriever("remote", corpus, {"url": server.url}).search(["river"], 1)
    with serving(correct) as server:
        with pytest.raises(RetrievalError, match="got None; pass check_corpus=False"):
            make_retriever("remote", corpus, {"url": server.url}).search(["river"], 1)
        settings = {"url": server.url, "check_corpus": False}
        assert make_retriever("remote", corpus, settings).search(["river"], 1) == expected


def test_many_threads_share_few_connections() -> None:
    with serving(correct) as server:
        retriever = remote(server.url, timeout_s=30, max_connections=3)
        expected = FakeRetriever().search(["river", "town"], 2)
        with ThreadPoolExecutor(32) as pool:
            found = list(pool.map(lambda _: retriever.search(["river", "town"], 2), range(300)))
        assert found == [expected] * 300
        assert server.n_connections <= 3


def test_pickled_copies_search_on() -> None:
    with serving(correct) as server:
        retriever = remote(server.url)
        expected = retriever.search(["river"], 2)
        assert pickle.loads(pickle.dumps(retriever)).search(["river"], 2) == expected
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(retriever.search, (["river"], 2)) == expected
        assert retriever.search(["river"], 2) == expected


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process_makes_connections_of_its_own() -> None:
    with serving(correct) as server:
        retriever = remote(server.url)
        expected = retriever.search(["river"], 2)
        child = multiprocessing.get_context("fork").Process(target=_exit_0_if, args=(retriever, expected))
        child.start()
        assert retriever.search(["river"], 2) == expected
        child.join()
        assert child.exitcode == 0
        assert server.n_connections == 2


def _exit_0_if(retriever: RemoteRetriever, expected: list[list[SearchResult]]) -> None:
    sys.exit(retriever.search(["river"], 2) != expected)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://x", "http://", "http://x:port", "http://x/a b", "http://x?q"]
)
def test_url_must_be_one_of_http(url: str) -> None:
    with pytest.raises(ConfigError, match="expected the URL"):
        remote(url)


@pytest.mark.parametrize("setting", ["timeout_s", "max_connections", "max_queries"])
def test_settings_must_be_positive(setting: str) -> None:
    with pytest.raises(ConfigError, match="positive numbers"):
        RemoteRetriever(RemoteSettings(**{"url": "http://127.0.0.1:1", setting: 0}))


@pytest.mark.parametrize("settings", [{"timeout_s": 1e308}, {"timeout_s": float("nan")}, {"max_connections": 10**30}])
def test_settings_have_an_upper_limit(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="at most 86400 s and 1024 connections"):
        RemoteRetriever(RemoteSettings(url="http://127.0.0.1:1", **settings))  # type: ignore[arg-type]


def test_k_must_be_positive_without_asking_the_server() -> None:
    with pytest.raises(ValueError, match="positive k"):
        remote(f"http://127.0.0.1:{unused_port()}").search(["river"], 0)
