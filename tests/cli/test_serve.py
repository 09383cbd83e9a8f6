from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssp_env.cli.main import main
from ssp_env.cli.serve import Serve
from ssp_env.corpus import open_corpus
from ssp_env.errors import RetrievalError
from ssp_env.retrieval import make_retriever
from tests.fakes import PASSAGES

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


def passages_file(folder: Path) -> Path:
    path = folder / "passages.jsonl"
    rows = [{"id": p.id, "title": p.title, "text": p.text} for p in PASSAGES]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return passages_file(tmp_path)


@contextmanager
def serving(corpus: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command in a process of its own; yields it and its address."""
    command = [sys.executable, "-m", "ssp_env", "serve", "--corpus", str(corpus), "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        assert first["event"] == "serving"
        yield process, first["url"]
    finally:
        process.kill()
        process.communicate()


def test_command_serves_and_stops_when_told_and_logs_json_without_queries(corpus: Path) -> None:
    opened = open_corpus([corpus])
    with serving(corpus) as (process, url):
        remote = make_retriever("remote", opened, {"url": url, "timeout_s": 20.0})
        local = make_retriever("bm25", opened)
        queries = ["Which river flows through Oxley?", "chess"]
        assert remote.search(queries, 3) == local.search(queries, 3)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    events = [json.loads(line) for line in err.splitlines()]
    assert {"time", "level", "event"} <= set(events[0])
    assert "stopped" in [event["event"] for event in events]
    assert "Oxley" not in err


def test_nothing_is_written_beside_a_corpus_when_the_indexes_have_a_folder(tmp_path: Path) -> None:
    (tmp_path / "read_only").mkdir()
    indexes = str(tmp_path / "indexes")
    path = passages_file(tmp_path / "read_only")
    pages = path.with_name("pages.jsonl")
    pages.write_text(
        '{"id": "1", "title": "River", "sections": [{"heading": "", "level": 1, "text": "Water."}], "links": []}\n'
    )
    assert main(["index", "build", str(path), "--index-dir", indexes]) == 0
    with serving(path, "--index-dir", indexes, "--pages", str(pages)):
        assert sorted(path.parent.iterdir()) == [pages, path]


def test_killed_server_is_an_error_and_a_new_one_goes_on(corpus: Path) -> None:
    opened = open_corpus([corpus])
    with serving(corpus) as (process, url):
        remote = make_retriever("remote", opened, {"url": url, "timeout_s": 1.0})
        expected = remote.search(["chess"], 3)
        process.kill()
        process.wait()
        with pytest.raises(RetrievalError, match="is the server running"):
            remote.search(["chess"], 3)
    with serving(corpus, "--port", url.rpartition(":")[2]):
        assert remote.search(["chess"], 3) == expected


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Run a command that must fail, and return what it says."""
    assert main(["serve", *options]) == 1
    return capsys.readouterr().err


def test_taken_address_is_refused_before_anything_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "pass another --port" in refused(capsys, "--corpus", "none.jsonl", "--port", port)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--max-k", "0"], "at least 1 for 'max_k' of the server's limits, got 0"),
        (["--retriever", "bm52"], "did you mean 'bm25'"),
        (["--ray-replicas", "-1"], "expected no negative numbers"),
        (["--cache-mb", "-5"], "expected no negative numbers, got --cache-mb -5"),
        (["--redirects", "r.jsonl"], "give --pages"),
        (["--blocklist", "none.json"], "expected a blocklist"),
    ],
)
def test_senseless_options_are_refused(
    corpus: Path, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert problem in refused(capsys, "--corpus", str(corpus), "--port", "0", *options)


def test_replicas_without_ray_are_refused_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "ssp-env[ray]" in refused(capsys, "--corpus", "none.jsonl", "--port", "0", "--ray-replicas", "2")


def test_configuration_must_be_a_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("{", "[]"):
        with pytest.raises(SystemExit):
            main(["serve", "--corpus", "x", "--config", text])
        assert "expected a JSON object" in capsys.readouterr().err


def test_default_address_is_loopback() -> None:
    assert Serve((Path("x"),)).host == "127.0.0.1"
