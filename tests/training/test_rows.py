import pytest

from ssp_env.errors import RunError
from ssp_env.types import Completion, Conversation, Final, Message, Task, ToolCall, Trajectory, Turn
from training.rows import TrainingRow, training_row, training_rows

PROMPT = (1, 2, 3)


def trajectory(*completions, status="finished"):
    turns = tuple(Turn(c, ToolCall("search", "x"), (), "shown") for c in completions[:-1])
    turns += tuple(Turn(c, Final("x")) for c in completions[-1:])
    prompt = (Message(role="user", content="q"),)
    return Trajectory("solver", Task("t", "q", ("x",)), Conversation(prompt, turns), status)


def said(prompt_ids, token_ids, finish="stop"):
    return Completion("x", finish, tuple(prompt_ids), tuple(token_ids), tuple(-0.1 * i for i in token_ids))


def test_observations_are_masked_and_sampled_tokens_kept_in_order():
    row = training_row(
        trajectory(said(PROMPT, [4, 5]), said([*PROMPT, 4, 5, 9, 9], [6]), said([*PROMPT, 4, 5, 9, 9, 6, 8], [7]))
    )
    assert row == TrainingRow(
        "solver",
        PROMPT,
        (4, 5, 9, 9, 6, 8, 7),
        (1, 1, 0, 0, 1, 0, 1),
        tuple(-0.1 * i if i in (4, 5, 6, 7) else 0.0 for i in (4, 5, 9, 9, 6, 8, 7)),
    )
    assert row.n_sampled == 4
    assert len(row) == 10


@pytest.mark.parametrize("second", [(*PROMPT, 4, 6, 9), (*PROMPT, 4), (0, 2, 3, 4, 5, 9)])
def test_a_context_that_does_not_continue_the_tokens_is_drift(second):
    assert training_row(trajectory(said(PROMPT, [4, 5]), said(second, [6]))) == "drift"


def test_a_full_context_gives_no_tokens_but_keeps_the_turns_before_it():
    full = said([*PROMPT, 4, 5, 9], [], finish="context")
    row = training_row(trajectory(said(PROMPT, [4, 5]), full, status="truncated"))
    assert isinstance(row, TrainingRow)
    assert row.completion_ids == (4, 5)
    assert training_row(trajectory(said(PROMPT, [], finish="context"))) == "no_tokens"


def test_agents_without_token_ids_give_no_rows():
    assert training_row(trajectory(Completion("text"))) == "no_tokens"
    assert training_row(trajectory(Completion("text", "stop", PROMPT, (4,), ()))) == "no_tokens"


def test_a_sampled_token_that_would_not_be_trained_is_an_error():
    odd = trajectory(said(PROMPT, [4, 5]), said([*PROMPT, 4, 5, 9], [6], finish="context"))
    with pytest.raises(RunError, match="got 3 sampled and 2 masked in a row"):
        training_rows([trajectory(said(PROMPT, [4])), odd])


def test_rows_keep_the_order_and_the_counts_tell_what_was_left_out():
    good, drifted = trajectory(said(PROMPT, [4, 5])), trajectory(said(PROMPT, [4]), said([1], [5]))
    rows, counts = training_rows([good, drifted, trajectory(Completion("text")), good])
    assert [row is not None for row in rows] == [True, False, False, True]
    assert (counts.rows, counts.drift, counts.no_tokens) == (2, 1, 1)
    assert counts.sampled_tokens == counts.masked_tokens == 4
