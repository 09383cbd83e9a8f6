from __future__ import annotations

import multiprocessing
import pickle
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from ssp_env.http import BUSY, Client, Deadline, NoReply, Patience, Reply, split_url
from tests.endpoint import Reply as Sent
from tests.endpoint import serve

NO_PAUSE = Patience(first_s=0.0, longest_s=0.0, max_tries=3)


@contextmanager
def raw_server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Serve connections one after the other, each by a function, which may be slow and rude."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    request = b""
                    while not request.endswith(b"{}") and (piece := connection.recv(1 << 16)):
                        request += piece
                    talk(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def ask(url: str, *, patience: Patience = NO_PAUSE, timeout_s: float = 5.0) -> Reply:
    client = Client(split_url(url), 2)
    return client.request(("POST", "/v1"), b"{}", lambda reply: reply, patience=patience, deadline=Deadline(timeout_s))


def test_pauses_double_up_to_the_longest_and_honour_retry_after() -> None:
    patience = Patience(first_s=0.1, longest_s=2.0)
    for attempt, most in enumerate((0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0)):
        assert most / 2 <= patience.pause_s(attempt, 0.0) <= most
    assert patience.pause_s(0, 1.0) == 1.0
    assert patience.pause_s(10**6, 10.0**6) <= 2.0


def test_deadline_that_is_over_raises() -> None:
    assert 0 < Deadline(10).left_s() <= 10
    assert Deadline().is_ahead(1e9) and not Deadline(10).is_ahead(10)
    with pytest.raises(TimeoutError):
        Deadline(0).left_s()


@pytest.mark.parametrize("status", sorted(BUSY))
def test_busy_statuses_are_tried_again_and_the_last_reply_is_told(status: int) -> None:
    with serve(lambda _: Sent("later", status, {"Retry-After": "nonsense"})) as endpoint:
        with pytest.raises(NoReply) as caught:
            ask(endpoint.url)
    assert (caught.value.got, caught.value.n_tries, len(endpoint.requests)) == (f"status {status}", 3, 3)
    assert caught.value.reply is not None and caught.value.reply.body == b"later"
    assert pickle.loads(pickle.dumps(caught.value)).reply == caught.value.reply


def test_a_redirect_and_an_error_are_replies() -> None:
    with serve(lambda _: Sent("there", 302, {"Location": "http://127.0.0.1:1/"})) as endpoint:
        reply = ask(endpoint.url)
    assert (reply.status, reply.headers["location"], reply.n_tries) == (302, "http://127.0.0.1:1/", 1)


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serve(lambda _: Sent("here")) as endpoint:
        assert ask(endpoint.url).body == b"here"


HEAD = b"HTTP/1.%d 200 OK\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize("minor", [0, 1], ids=["closing", "keep-alive"])
def test_a_server_that_stops_in_the_middle_costs_one_timeout_and_not_two(minor: int) -> None:
    def talk(connection: socket.socket) -> None:
        threading.Event().wait(0.3)
        connection.sendall(HEAD % minor + b"x")
        connection.recv(1)  # until the client gives up

    with raw_server(talk) as url:
        started = time.monotonic()
        with pytest.raises(NoReply, match="TimeoutError"):
            ask(url, patience=Patience(try_s=0.5, max_tries=1))
        assert 0.4 < time.monotonic() - started < 0.75


def test_a_reply_that_is_cut_off_is_tried_again() -> None:
    replies = iter([HEAD % 1 + b"short", HEAD % 1 + b"012345678"])
    with raw_server(lambda connection: connection.sendall(next(replies))) as url:
        reply = ask(url)
    assert (reply.body, reply.n_tries) == (b"012345678", 2)


def test_a_connection_closed_without_a_word_is_replaced_within_the_try() -> None:
    replies = iter([b"", HEAD % 1 + b"012345678"])
    with raw_server(lambda connection: connection.sendall(next(replies))) as url:
        assert ask(url).n_tries == 1


def test_a_reply_that_its_reader_finds_broken_is_tried_again() -> None:
    def read(reply: Reply) -> str:
        if reply.n_tries < 3:
            raise ValueError("half a word")
        return "whole"

    with serve(lambda _: Sent("ha")) as endpoint:
        client = Client(split_url(endpoint.url), 1)
        assert client.request(("POST", "/"), b"{}", read, patience=NO_PAUSE, deadline=Deadline()) == "whole"
        with pytest.raises(NoReply, match="half a word"):
            client.request(("POST", "/"), b"{}", read, patience=Patience(max_tries=1), deadline=Deadline())


def test_the_wait_for_a_free_connection_is_no_part_of_a_try() -> None:
    def slow(_: object) -> Sent:
        threading.Event().wait(0.2)
        return Sent("done")

    with serve(slow) as endpoint:
        client = Client(split_url(endpoint.url), 1)
        patience = Patience(try_s=0.35, max_tries=1)
        bodies: list[bytes] = []

        def request() -> None:
            deadline = Deadline()
            bodies.append(
                client.request(("POST", "/"), b"{}", lambda reply: reply.body, patience=patience, deadline=deadline)
            )

        threads = [threading.Thread(target=request) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert bodies == [b"done"] * 4


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_all_connections_are_busy_leaves_the_child_with_free_ones() -> None:
    busy, done = threading.Event(), threading.Event()

    def hold(request: object) -> Sent:
        if not busy.is_set():
            busy.set()
            done.wait(10)
        return Sent("done")

    with serve(hold) as endpoint:
        client = Client(split_url(endpoint.url), 1)
        holding = threading.Thread(target=_request, args=(client,))
        holding.start()
        assert busy.wait(5)
        child = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(_request(client) != b"done"))
        child.start()
        child.join()
        done.set()
        holding.join()
        assert child.exitcode == 0


def _request(client: Client) -> bytes:
    read = lambda reply: reply.body  # noqa: E731
    return client.request(("POST", "/"), b"{}", read, patience=NO_PAUSE, deadline=Deadline(5.0))


def test_a_copy_by_pickle_asks_the_same_server_with_the_same_headers() -> None:
    with serve(lambda request: Sent(request.headers["Authorization"])) as endpoint:
        client = Client(split_url(endpoint.url), 1, {"Authorization": "Bearer k"})
        assert _request(pickle.loads(pickle.dumps(client))) == b"Bearer k"


def test_the_address_names_no_user_and_no_password() -> None:
    assert Client(urlsplit("https://me:secret@host/v1"), 1).address == "host"
    assert Client(urlsplit("http://host:81"), 1).address == "host:81"


@pytest.mark.parametrize("url", ["", "host:80", "ftp://host", "http://", "http://host:port", "http://host:0"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no scheme and host|Port"):
        split_url(url)
