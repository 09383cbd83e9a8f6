"""The README's code runs as shown, and what it names exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ssp_env.envs import ENV_IDS
from ssp_env.game.rules import PRESETS
from ssp_env.retrieval import RETRIEVERS
from tests.endpoint import chat, serve
from tests.test_architecture import LAYERS
from training.config import RunConfig, to_json
from training.run_folder import flat

PASSAGES = (
    {"id": "1", "title": "Oxley", "text": "Oxley is a town on the river Elm."},
    {"id": "2", "title": "Elm", "text": "The river Elm flows into Lake Tarn."},
)
ANSWERS = ({"answer": "Lake Tarn"},)
QUESTIONS = ({"question": "Into which lake does the river of Oxley flow?", "answers": ["Lake Tarn"]},)


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def blocks(readme: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in (("passages", PASSAGES), ("questions", QUESTIONS), ("answers", ANSWERS)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(code: str, folder: Path) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_rl_code_learns(blocks: list[str], folder: Path) -> None:
    first, last = map(int, re.findall(r"(\d+)%", run(blocks[0], folder)))
    assert last >= first + 25
    assert last >= 80  # a question's own words find its passage in nine of ten cases


def test_the_rl_code_has_ten_lines_after_its_imports(blocks: list[str]) -> None:
    lines = [line for line in blocks[0].splitlines() if line and not line.startswith(("import", "from"))]
    assert len(lines) == 10


def test_the_environment_over_an_own_corpus_plays(blocks: list[str], folder: Path) -> None:
    search, answer = "<search>Oxley</search>", "<answer>Lake Tarn</answer>"
    code = f"{blocks[1]}env.reset(seed=0)\nprint(env.step({search!r})[0])\nprint(env.step({answer!r})[1])"
    shown = run(code, folder)
    assert "Oxley is a town on the river Elm." in shown
    assert shown.splitlines()[-1] == "1.0"


def test_the_proposer_with_an_own_model_as_reader_and_opponent_plays(blocks: list[str], folder: Path) -> None:
    ask = "<question>Into which lake does the river of Oxley flow?</question>"
    code = f"{blocks[2]}env.reset(seed=0)\nenv.step('<search>Elm</search>')\n_, reward, *_, info = env.step({ask!r})\n"
    assert run(f"{code}print(reward, info['validation'])", folder) == "0.0 ok\n"  # the opponent always knows the answer


def test_the_code_for_a_served_model_plays(blocks: list[str], folder: Path) -> None:
    with serve(lambda _: chat("<answer>Lake Tarn")) as endpoint:
        shown = run(blocks[3].replace("http://127.0.0.1:8000/v1", endpoint.url), folder)
    assert shown == "Into which lake does the river of Oxley flow? -> Lake Tarn\n"


def test_all_environments_presets_and_retrievers_are_named(readme: str) -> None:
    missing = [name for name in (*ENV_IDS, *PRESETS, *RETRIEVERS) if name not in readme]
    assert missing == []


def test_every_linked_file_exists(readme: str, repository: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", readme) if "://" not in link]
    assert links
    assert [link for link in links if not (repository / link).exists()] == []


def test_the_make_targets_exist(readme: str, repository: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE)) <= targets


def test_the_flags_of_the_training_command_exist(readme: str) -> None:
    (command,) = re.findall(r"training/run_ssp\.py (--.*)", readme)
    fields = {*flat(to_json(RunConfig())), "preset"}
    assert {flag.replace("-", "_") for flag in re.findall(r"--([a-z.-]+)", command)} <= fields


def test_the_contribution_guide_shows_layers_as_they_are_enforced(repository: Path) -> None:
    guide = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"lowest layer first \|\n\|---\|\n((?:\|.*\|\n)+)", guide)
    rows = [re.findall(r"`(\w+)`", row) for row in table.splitlines()]
    layer_of = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    layers = [{layer_of[part] for part in row} for row in rows]
    assert all(len(layer) == 1 for layer in layers)
    assert [*map(min, layers)] == sorted({*map(min, layers)})
