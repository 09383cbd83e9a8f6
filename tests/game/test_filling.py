"""Filling the slots of rejected proposals."""

from __future__ import annotations

import numpy as np
import pytest

from ssp_env.game.pool import DUMMY_QUESTION, QuestionPool, Slot, fill_slots
from ssp_env.types import Answer, Completion, Conversation, Final, Round, Task, Trajectory, Turn, Validation
from tests.fakes import tiny_game

GAME = tiny_game()


def proposed(i: int, ok: bool) -> Slot:
    answer = Answer(f"s{i}", f"answer {i}")
    turn = Turn(Completion(""), Final(f"question {i}"))
    trajectory = Trajectory("proposer", answer, Conversation((), (turn,)), "finished")
    return GAME, Round(answer, trajectory, Validation("ok" if ok else "too_short"), corpus="fake")


def fill(filling: str, accepted: str, pool: QuestionPool | None = None, n_tasks: int | None = None) -> list[Round]:
    proposals = [proposed(i, char == "+") for i, char in enumerate(accepted)]
    slots = fill_slots(
        proposals,
        filling,
        n_tasks=len(proposals) if n_tasks is None else n_tasks,
        pool=pool or QuestionPool(),
        games={"fake": GAME},
        rng=np.random.default_rng(0),
    )
    assert all(game is GAME for game, _ in slots)
    return [played for _, played in slots]


@pytest.mark.parametrize("filling", ["none", "dummy", "reuse", "reset", "resample"])
def test_accepted_proposals_keep_their_slots(filling: str) -> None:
    slots = fill(filling, "-+-+")
    assert [slots[i].task for i in (1, 3)] == [Task(f"s{i}", f"question {i}", (f"answer {i}",)) for i in (1, 3)]
    assert [slots[i].origin for i in (1, 3)] == ["fresh", "fresh"]


def test_none_leaves_the_slot_open() -> None:
    (played,) = fill("none", "-")
    assert (played.task, played.origin, played.task_corpus) == (None, "none", "")


@pytest.mark.parametrize("filling", ["dummy", "reuse", "reset"])
def test_dummy_asks_nothing_and_wants_the_seeds_answer(filling: str) -> None:
    (played,) = fill(filling, "-")
    assert played.task == Task("s0", DUMMY_QUESTION, ("answer 0",), "dummy")
    assert (played.origin, played.task_corpus) == ("dummy", "fake")


@pytest.mark.parametrize("filling", ["reuse", "reset"])
def test_every_slot_draws_for_itself_from_the_pool(filling: str) -> None:
    pool = QuestionPool()
    for i in range(3):
        pool.add("fake", Task(f"old{i}", "q", ("a",)), success_rate=0.5)
    drawn = [slot.task.id for slot in fill(filling, "-" * 20, pool) if slot.task]
    assert set(drawn) == {"old0", "old1", "old2"} and len(drawn) == 20
    assert {slot.origin for slot in fill(filling, "--", pool)} == {"reused"}


def test_tasks_of_unknown_games_are_not_drawn() -> None:
    pool = QuestionPool()
    pool.add("elsewhere", Task("old", "q", ("a",)), success_rate=0.5)
    assert fill("reuse", "-", pool)[0].origin == "dummy"


def test_resample_copies_accepted_tasks_or_leaves_the_slot_open() -> None:
    slots = fill("resample", "+-+--")
    fresh = {slot.task for slot in slots if slot.origin == "fresh"}
    assert [slot.origin for slot in slots] == ["fresh", "reused", "fresh", "reused", "reused"]
    assert {slot.task for slot in slots if slot.origin == "reused"} <= fresh
    assert [slot.origin for slot in fill("resample", "--")] == ["none", "none"]


def test_slots_beyond_the_tasks_that_are_wanted_stay_open() -> None:
    assert [slot.origin for slot in fill("resample", "-+--+-", n_tasks=3)] == [
        "reused", "fresh", "none", "none", "fresh", "none",
    ]  # fmt: skip
    assert [slot.origin for slot in fill("resample", "--++", n_tasks=2)] == ["none", "none", "fresh", "fresh"]
