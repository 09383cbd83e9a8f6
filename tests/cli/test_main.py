"""The ``ssp`` command: results on standard output, errors on standard error, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
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


def test_wrong_usage_is_exit_code_two() -> None:
    with pytest.raises(SystemExit) as raised:
        main(["corpus", "get", "everything", "--out", "c"])
    assert raised.value.code == 2


def test_help_names_every_sub_command_and_loads_no_reader() -> None:
    code = (
        "import sys\nfrom ssp_env.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = ('mwparserfromhell', 'pyarrow', 'libzim', 'torch', 'ssp_env.build.ingest')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in COMMANDS)
    assert done.stdout.strip().endswith("[]")
