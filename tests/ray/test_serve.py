from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssp_env.errors import ConfigError
from ssp_env.serve.wire import ServeLimits
from tests.cli.test_serve import passages_file, serving

pytestmark = [
    pytest.mark.ray,
    pytest.mark.usefixtures("joining"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray itself
]

HEADERS = ("content-type", "x-corpus-fingerprint", "retry-after")
REQUESTS: tuple[tuple[str, str, bytes], ...] = (
    ("POST", "/retrieve", b'{"queries": ["Which river flows through Oxley?"], "topk": 3, "return_scores": true}'),
    ("POST", "/retrieve", b'{"queries": ["chess", "river", "chess"], "topk": 2}'),
    ("POST", "/retrieve", '{"queries": ["東京 Café", ""]}'.encode()),
    ("POST", "/retrieve", b'{"queries": []}'),
    ("POST", "/retrieve", b'{"queries": "chess"}'),
    ("POST", "/retrieve", b'{"queries": ["chess"], "topk": 101}'),
    ("POST", "/retrieve", b"no JSON"),
    ("POST", "/retrieve", b'{"queries": ["' + b"x" * 2000 + b'"]}'),
    ("POST", "/page", b'{"title": "Nothing"}'),
    ("GET", "/retrieve", b""),
    ("GET", "/else", b""),
)
OPTIONS = ("--max-body-bytes", "1000")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return passages_file(tmp_path)


def command(corpus: Path) -> list[str]:
    serve = [sys.executable, "-m", "ssp_env", "serve", "--corpus", str(corpus), "--port", "0", *OPTIONS]
    return [*serve, "--ray-replicas", "2"]


@contextmanager
def replicated(corpus: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command with two replicas in a process of its own; yields it and its address."""
    process = subprocess.Popen(command(corpus), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("{"):
                break
        assert said and json.loads(said[-1])["event"] == "serving", "".join(said)
        yield process, json.loads(said[-1])["url"]
    finally:
        process.kill()
        process.communicate()


def ask(url: str, method: str, path: str, body: bytes) -> tuple[int, bytes, dict[str, str | None]]:
    """Return status, body and headers of the answer."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read(), {name: response.getheader(name) for name in HEADERS}
    finally:
        connection.close()


def test_two_replicas_answer_the_bytes_of_the_local_server(corpus: Path) -> None:
    import ray

    with serving(corpus, *OPTIONS) as (_, url):
        local = [ask(url, *request) for request in REQUESTS]
    assert [status for status, _, _ in local] == [200, 200, 200, 200, 422, 422, 400, 413, 404, 405, 404]
    n_rounds = 8
    with replicated(corpus) as (process, url):
        with ThreadPoolExecutor(8) as pool:
            rounds = [[pool.submit(ask, url, *request) for request in REQUESTS] for _ in range(n_rounds)]
            for answers in rounds:
                assert [answer.result() for answer in answers] == local
        counted = [json.loads(ask(url, "GET", "/health", b"")[1])["counts"]["requests"] for _ in range(10)]
        n_all = n_rounds * sum(method == "POST" for method, _, _ in REQUESTS)
        assert 0 < counted[0] < n_all and set(counted) <= {counted[0], n_all - counted[0]}
        second = subprocess.run(command(corpus), capture_output=True, text=True, timeout=120)
        assert second.returncode == 1 and "stop that one first" in second.stderr
        assert ask(url, *REQUESTS[0]) == local[0]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(err.splitlines()[-1])["event"] == "stopped"
    with pytest.raises(ValueError, match="SERVE_CONTROLLER_ACTOR"):
        ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")


def test_replicas_that_do_not_start_are_told() -> None:
    from ssp_env.serve.ray_serve import replicas

    def build() -> None:
        raise ValueError("no such index")

    running = replicas(
        build,  # type: ignore[arg-type]
        n_replicas=1,
        n_gpus=0.0,
        address=("127.0.0.1", 8123),
        limits=ServeLimits(),
        fingerprint="none",
    )
    with pytest.raises(ConfigError, match="expected 1 running replicas, got ValueError: no such index; see"), running:
        pass
