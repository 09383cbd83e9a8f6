from __future__ import annotations

import argparse
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssp_env.corpus import open_corpus
from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.retrieval import make_retriever
from ssp_env.serve.command import add_arguments, main
from ssp_env.serve.logs import JsonFormatter
from tests.fakes import PASSAGES

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "passages.jsonl"
    rows = [{"id": p.id, "title": p.title, "text": p.text} for p in PASSAGES]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


@contextmanager
def serving(corpus: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command in a process of its own; yields it and its address."""
    program = "import sys; from ssp_env.serve.command import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "--corpus", str(corpus), "--port", "0", *options]
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


def test_taken_address_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ConfigError, match="pass another --port"):
            main(["--corpus", str(tmp_path / "none.jsonl"), "--port", str(taken.getsockname()[1])])


@pytest.mark.parametrize("options", [["--max-k", "0"], ["--retriever", "bm52"], ["--redirects", "r.jsonl"]])
def test_senseless_options_are_refused(corpus: Path, options: list[str]) -> None:
    with pytest.raises(ConfigError):
        main(["--corpus", str(corpus), "--port", "0", *options])


def test_configuration_must_be_a_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("{", "[]"):
        with pytest.raises(SystemExit):
            main(["--corpus", "x", "--config", text])
        assert "expected a JSON object" in capsys.readouterr().err


def test_default_address_is_loopback() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert parser.parse_args(["--corpus", "x"]).host == "127.0.0.1"


def test_log_line_is_json_whatever_is_in_it() -> None:
    record = logging.LogRecord("a", logging.WARNING, __file__, 1, "event\n%s", ("x",), None)
    record.fields = {"odd": object(), "text": "\u2028\n"}
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["event"] == "event\nx"
