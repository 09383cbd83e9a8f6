"""The ``ssp`` command: results on standard output, errors on standard error, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from ssp_env.cli.main import COMMANDS, main
from tests.build.ingest.samples import write_rows

ROW = {"id": "1", "contents": '"A"\nSome text.'}


def test_corpus_build_prints_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_rows(tmp_path / "s.jsonl", [ROW])
    assert main(["corpus", "build", str(source), "--out", str(tmp_path / "c"), "--workers", "0"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["counts"]["passages"] == 1
    assert "100.0 %" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.jsonl"], "does not exist"),
        (["s.jsonl", "--format", "jsonnl"], "did you mean 'jsonl'"),
        (["s.jsonl", "--words", "0"], "n_words >= 1"),
    ],
)
def test_failures_are_one_line_and_exit_code_one(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_rows(tmp_path / "s.jsonl", [ROW])
    monkeypatch.chdir(tmp_path)
    assert main(["corpus", "build", *arguments, "--out", "c"]) == 1
    error = capsys.readouterr().err.strip()
    assert error.startswith("error: ") and message in error and "\n" not in error


@pytest.mark.parametrize(
    "words",
    [
        ["corpus", "get", "everything", "--out", "c"],
        ["corpus", "build", "--out", "c"],
        ["serve", "--corpus"],
        ["serve", "--corpus", "c", "--prot", "80"],
        ["corpsu", "build", "--help"],
        ["--versoin"],
        ["index"],
        [],
    ],
)
def test_wrong_usage_is_exit_code_two_and_is_told_on_standard_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(words)
    except SystemExit as raised:
        code = raised.code
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "") and printed.err


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["corpus", "--help"]])
def test_help_names_the_sub_commands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert [name in shown for name in COMMANDS] == [name.startswith(words[0]) or len(words) == 1 for name in COMMANDS]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_sub_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main([*name.split(), "--help"])
    shown = capsys.readouterr().out
    assert raised.value.code == 0 and shown.startswith(f"usage: ssp {name} ") and COMMANDS[name][1][1:] in shown


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ssp {version('ssp-env')}\n"


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_load_nothing_heavy(flag: str) -> None:
    code = (
        "import sys, time, ssp_env\nstart = time.process_time()\nfrom ssp_env.cli.main import main\n"
        f"main([{flag!r}])\nspent = time.process_time() - start\n"
        "heavy = ('tyro', 'tantivy', 'faiss', 'torch', 'ssp_env.build', 'ssp_env.serve')\n"
        "print([name for name in heavy if name in sys.modules], spent)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, _, spent = done.stdout.strip().splitlines()[-1].rpartition(" ")
    assert loaded == "[]" and float(spent) < 1.0


@pytest.mark.parametrize("words", [["--help"], ["corpus", "build", "--help"], ["corpus", "build", "s.jsonl"]])
def test_a_reader_that_has_seen_enough_causes_no_traceback(words: list[str], tmp_path: Path) -> None:
    write_rows(tmp_path / "s.jsonl", [ROW])
    out = ["--out", str(tmp_path / "c")] if "s.jsonl" in words else []
    command = [sys.executable, "-m", "ssp_env", *words, *out]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    os.close(write)
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if not line.startswith("corpus build: ")] == []
