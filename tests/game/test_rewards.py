"""The reward menu."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ssp_env.errors import ConfigError
from ssp_env.game.game import Episode, Limits, advance
from ssp_env.game.rewards import OVERLISTING_TAGS, PROPOSER_REWARDS, SOLVER_REWARDS, proposer_reward, solver_reward
from ssp_env.game.roles import ROLES
from ssp_env.types import Completion, Conversation, Final, Invalid, Task, ToolCall, Trajectory, Turn, Verdict


def solve(text: str = "<answer>x</answer>", status: str = "finished") -> Trajectory:
    conversation = Conversation((), (Turn(Completion(text), Final("x")),))
    return Trajectory("solver", Task("t", "q", ("x",)), conversation, status)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zero_sum", (1.0, 0.75, 0.5, 0.0)),
        ("zero_sum_solved", (0.0, 0.75, 0.5, 0.0)),
        ("learnability", (0.0, 0.75, 1.0, 0.0)),
        ("format", (1.0, 1.0, 1.0, 1.0)),
    ],
)
def test_proposer_rewards_at_0_quarter_half_and_1(name: str, expected: tuple[float, ...]) -> None:
    assert tuple(proposer_reward(name)(p) for p in (0.0, 0.25, 0.5, 1.0)) == expected


@pytest.mark.parametrize("name", sorted(SOLVER_REWARDS))
def test_solver_rewards_pay_the_verdict_and_nobody_for_an_outage(name: str) -> None:
    pay = solver_reward(name)
    assert pay(Verdict("correct", "exact"), solve()) == 1.0
    assert pay(Verdict("wrong", "exact"), solve()) == 0.0
    assert pay(Verdict("wrong", "truncated"), solve("", "truncated")) == 0.0
    assert pay(Verdict("error", "model"), solve()) is None
    assert pay(Verdict("correct", "exact"), solve(status="failed")) is None


@pytest.mark.parametrize(("tags", "reward"), [(OVERLISTING_TAGS, 1.0), (OVERLISTING_TAGS + 1, 0.25)])
@pytest.mark.parametrize("tag", ["<answer>", "</answer>"])
def test_overlisting_pays_a_quarter_beyond_ten_tags(tags: int, reward: float, tag: str) -> None:
    assert SOLVER_REWARDS["overlisting"](Verdict("correct", "exact"), solve(tag * tags)) == reward


@pytest.mark.parametrize(
    "turn",
    [
        Turn(Completion("hm"), Invalid("no_action")),
        Turn(Completion("<information>It is x.</information><search>a</search>"), ToolCall("search", "a")),
        *(
            Turn(Completion(f"{tag}<search>a</search>"), ToolCall("search", "a"))
            for tag in ("</INFORMATION>", "<information >", "< information>", "<information\n>", "< / information x>")
        ),
    ],
)
def test_strict_pays_nothing_after_a_turn_out_of_format(turn: Turn) -> None:
    good = solve()
    turns = (turn, *good.conversation.turns)
    bad = replace(good, conversation=replace(good.conversation, turns=turns))
    correct = Verdict("correct", "exact")
    assert (solver_reward("strict")(correct, bad), solver_reward("binary")(correct, bad)) == (0.0, 1.0)
    assert solver_reward("strict")(Verdict("error", "model"), bad) is None
    assert solver_reward("strict")(correct, replace(bad, status="failed")) is None


@pytest.mark.parametrize("token_ids", [(), (1, 2)])
@pytest.mark.parametrize(
    ("name", "text", "reward"),
    [
        ("strict", "<answer>x</answer>\n<information>x</information>", 0.0),
        ("strict", "<answer>x</answer> and so on", 1.0),
        ("overlisting", "<answer>x</answer>" * (OVERLISTING_TAGS + 1), 0.25),
    ],
)
def test_text_after_the_action_counts_with_and_without_token_ids(
    name: str, text: str, reward: float, token_ids: tuple[int, ...]
) -> None:
    episode = Episode(ROLES["solver"], Task("t", "q", ("x",)), prompt_set="paper", tools={}, limits=Limits())
    advance([episode], [Completion(text, token_ids=token_ids, logprobs=(0.0,) * len(token_ids))])
    assert solver_reward(name)(Verdict("correct", "exact"), episode.record()) == reward


@pytest.mark.parametrize("find", [solver_reward, proposer_reward])
def test_unknown_name_is_answered_with_the_closest(find) -> None:
    with pytest.raises(ConfigError, match="expected a reward out of .*, got 'zzz'; name one of these"):
        find("zzz")
    with pytest.raises(ConfigError, match="did you mean 'learnability'"):
        proposer_reward("learnabilty")


def test_every_proposer_reward_is_listed_in_the_contract() -> None:
    assert set(PROPOSER_REWARDS) == {"zero_sum", "zero_sum_solved", "learnability", "format"}
