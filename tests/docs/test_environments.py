"""``docs/environments.md``: its examples run and print what it shows; it names all that an environment has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ssp_env.envs import ENV_IDS
from ssp_env.envs.info import Info
from ssp_env.game.rewards import PROPOSER_REWARDS, SOLVER_REWARDS
from ssp_env.game.rules import PRESETS
from ssp_env.retrieval import RETRIEVERS
from tests.docs.pages import blocks_of, missing_links, run_block, shown_in


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "environments.md").read_text(encoding="utf-8")


def block(page: str, part: str) -> str:
    """Return the only block of code that holds this text."""
    (found,) = [block for block in blocks_of(page) if part in block]
    return found


def test_the_episode_reads_as_shown(page: str, folder: Path) -> None:
    assert run_block(block(page, "env.render())\nprint(reward"), folder) == blocks_of(page, "text")[0]


def test_the_questions_of_the_self_play_example_are_accepted(page: str, folder: Path) -> None:
    shown = run_block(block(page, "ExpertAgent"), folder)
    n_accepted, n_games = map(int, re.findall(r"^(\d+) of (\d+) questions were accepted$", shown, re.MULTILINE)[0])
    assert n_accepted > n_games / 2
    assert shown.count(": ok, ") == n_accepted
    assert shown_in([line for line in blocks_of(page, "text")[1].splitlines() if line != "..."], shown)


def test_the_vector_environment_gives_what_the_comments_say(page: str, folder: Path) -> None:
    code = block(page, "gym.make_vec(")
    assert run_block(code, folder).splitlines() == re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)


def test_the_learner_learns(page: str, folder: Path) -> None:
    first, last = map(int, re.findall(r"(\d+)%", run_block(block(page, "rng.gumbel()"), folder)))
    assert last >= first + 25
    assert last >= 80  # a question's own words find its passage in nine of ten cases


def test_the_options_of_reset_are_taken(page: str, folder: Path) -> None:
    shown = run_block(f"{block(page, 'solver.reset(')}print(proposer.unwrapped.state.item.n_searches)", folder)
    assert shown == "2\n"


def test_the_environment_over_an_own_corpus_plays(page: str, folder: Path) -> None:
    search, answer = "<search>Oxley</search>", "<answer>Lake Tarn</answer>"
    code = block(page, 'corpus="passages.jsonl"')
    shown = run_block(
        f"{code}env.reset(seed=0)\nprint(env.step({search!r})[0])\nprint(env.step({answer!r})[1])", folder
    )
    assert "Oxley is a town on the river Elm." in shown
    assert shown.splitlines()[-1] == "1.0"


def test_the_rules_are_those_that_were_asked_for(page: str, folder: Path) -> None:
    shown = "played = env.unwrapped.game.rules\nprint(played.n_solves, played.proposer_reward)"
    assert run_block(block(page, "learnability") + shown, folder) == "8 learnability\n"


def test_all_keys_of_info_are_described_and_no_others(page: str) -> None:
    (part,) = re.findall(r"^## `info`\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) == set(Info.__annotations__)


def test_all_environments_presets_rewards_and_retrievers_are_named(page: str) -> None:
    names = (*ENV_IDS, *PRESETS, *SOLVER_REWARDS, *PROPOSER_REWARDS, *RETRIEVERS)
    assert [name for name in names if name not in page] == []


def test_every_linked_file_and_heading_exists(repository: Path) -> None:
    assert missing_links(repository / "docs" / "environments.md") == []
