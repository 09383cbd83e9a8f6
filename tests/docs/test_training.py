"""The flags, rules and reasons that the README and ``docs/training.md`` name exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from ssp_env.game.rules import GameRules
from ssp_env.types import Reason
from tests.docs.pages import blocks_of, missing_links
from training.command_line import read_command
from training.config import PRESETS


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "training.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def flags(repository: Path) -> set[str]:
    """The flags that ``run_ssp.py --help`` lists."""
    command = [sys.executable, str(repository / "training" / "run_ssp.py"), "--help"]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return flags_in(done.stdout)


def flags_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z.-]*[a-z]", text))


def test_the_flags_of_the_page_exist(page: str, flags: set[str]) -> None:
    named = flags_in(page.replace("vllm serve", "")) - {"--help"}
    assert {"--config", "--preset", "--resume", "--solver.beta"} <= named
    assert sorted(named - flags) == []


def test_the_flags_of_the_readme_exist(repository: Path, flags: set[str]) -> None:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"training/run_ssp\.py (--.*\\\n.*)", readme)
    assert sorted(flags_in(command) - flags) == []


def test_the_settings_of_the_file_are_flags_too(page: str, flags: set[str]) -> None:
    (text,) = blocks_of(page, "toml")
    settings = tomllib.loads(text)
    tables = {f"{group}.{name}" for group, value in settings.items() if isinstance(value, dict) for name in value}
    names = {name for name, value in settings.items() if not isinstance(value, dict)} | tables
    assert sorted({f"--{name.replace('_', '-')}" for name in names} - flags) == []


def test_the_file_of_settings_is_read(page: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(blocks_of(page, "toml")[0], encoding="utf-8")
    config = read_command(["--config", str(file), "--out", str(tmp_path / "run")]).run
    assert (config.n_rounds, config.solver.beta, config.game.rule) == (40, 0.02, ("n_distractors=4",))
    assert config.optimizer == PRESETS["paper"].optimizer


def test_the_rules_named_exist(page: str) -> None:
    told = " ".join(re.findall(r"--game\.rule ([^`\\\n]*)", page))
    named = set(re.findall(r"(\w+)=", told)) | set(tomllib.loads(blocks_of(page, "toml")[0])["game"]["rule"])
    assert len(named) > 5
    assert sorted(named - {field.name for field in fields(GameRules)}) == []


def test_all_reasons_of_a_rejection_are_told_and_no_others(page: str) -> None:
    (part,) = re.findall(r"^## Why a question is rejected\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    cells = "".join(re.findall(r"^\|([^|]+)\|", part, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", cells)) == set(get_args(Reason)) - {"ok", "failed"}


def test_every_linked_file_and_heading_exists(repository: Path) -> None:
    assert missing_links(repository / "docs" / "training.md") == []
