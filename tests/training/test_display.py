from dataclasses import replace

import pytest

from ssp_env.types import (
    Answer,
    Completion,
    Conversation,
    Final,
    JudgedReading,
    Reading,
    ReadingCase,
    Round,
    Task,
    ToolCall,
    Trajectory,
    Turn,
    Validation,
    Verdict,
)
from training.display import advice, draw_curves, game_text, round_text, sample_game, summary

LINES = [
    {"round": 0, "held_out/1-hop": 1.0, "held_out/2-hop": 0.25, "held_out/comparison": 0.5, "held_out/all": 0.5},
    {
        "round": 1,
        "valid_rate": 0.625,
        "rejected/answer_leak": 3,
        "rejected/too_short": 0,
        "rejected/not_answerable": 9,
        "solver_accuracy": None,
        "proposer_reward": 0.5,
        "proposer_searches": 1.75,
        "solver_searches": 2.0,
    },
    {"round": 2, "held_out/1-hop": 0.96, "held_out/2-hop": 0.9, "held_out/comparison": 0.4, "held_out/all": 0.7},
    {
        "round": 3,
        "solver_accuracy": 0.4,
        "held_out/1-hop": 0.98,
        "held_out/2-hop": 0.75,
        "held_out/comparison": 0.5,
        "held_out/all": 0.7,
    },
]


def test_a_round_in_words_names_rejections_by_frequency():
    text = round_text(LINES[1])
    assert "valid 62% (not_answerable 9, answer_leak 3)" in text
    assert "solver -" in text
    assert "searches 1.75/2.00" in text


def test_an_evaluation_stands_on_a_line_of_its_own_with_the_mean_first():
    first, second = round_text({**LINES[1], **LINES[2]}).splitlines()
    assert "valid" in first and "held-out" not in first
    assert second.strip() == "held-out 93% on average: 1-hop 96%, 2-hop 90%, comparison 40%"


def test_the_table_compares_first_last_and_best_evaluation_by_kind_in_points():
    rows = [line.split() for line in summary(LINES).splitlines()]
    assert rows[0] == ["held-out", "round", "0", "round", "3", "change", "best:", "2"]
    assert ["2-hop", "25%", "75%", "+50.0", "90%"] in rows
    assert ["1-hop", "100%", "98%", "-2.0", "96%"] in rows
    assert rows.index(["mean", "62%", "86%", "+24.0", "93%"]) < [row[0] for row in rows].index("comparison")
    assert "percentage points" in summary(LINES)
    assert summary(LINES[:2]) == ""


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([], "--eval.tasks"),
        ([0.5], ""),
        ([0.5, 0.4], "No round beat the start"),
        ([0.5, 0.7, 0.6], "its checkpoint"),
        ([0.5, 0.6, 0.7], "more rounds may help"),
    ],
)
def test_what_to_try_next_follows_from_the_course_of_the_run(shares, words):
    lines = [{"round": 10 * i, "held_out/x": share} for i, share in enumerate(shares)]
    assert words in advice(lines) and bool(words) == bool(advice(lines))


@pytest.mark.parametrize("lines", [LINES, LINES[1:2], []])
def test_curves_are_a_png_whatever_was_evaluated(tmp_path, lines):
    draw_curves(lines, tmp_path / "curves.png", title="a run")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["curves.png"]


def test_curves_say_what_was_run_and_name_both_axes_with_units(tmp_path, monkeypatch):
    from matplotlib import pyplot

    figures = []
    monkeypatch.setattr(pyplot, "close", figures.append)
    draw_curves(LINES, tmp_path / "curves.png", title="a run of 3 rounds")
    monkeypatch.undo()
    (figure,) = figures
    left, right = figure.axes
    assert figure.get_suptitle() == "a run of 3 rounds"
    assert (left.get_xlabel(), left.get_ylabel()) == ("round", "correct answers (%)")
    assert (right.get_xlabel(), right.get_ylabel()) == ("round", "share, or mean reward (0 to 1)")
    curves = {curve.get_label(): list(curve.get_ydata()) for curve in left.get_lines()}
    assert curves["mean of the solid ones"] == pytest.approx([62.5, 93.0, 86.5])
    assert "best: round 2" in curves and "all" not in curves
    for axes in (left, right):
        legend = axes.get_legend().get_window_extent()
        assert not legend.overlaps(axes.get_window_extent()), "the legend hides no curve"
    pyplot.close(figure)


def episode(role, item, queries, final, reward):
    turns = [Turn(Completion(query), ToolCall("search", query), observation="found") for query in queries]
    conversation = Conversation((), (*turns, Turn(Completion(final or ""), Final(final or ""))))
    return Trajectory(role, item, conversation, "finished", reward=reward)


def game(*, reason="ok", rewards=(1.0, 0.0), question="what lake lies in Oslo ?"):
    task = Task("t", question, ("Tarn",))
    read = JudgedReading("gate", ReadingCase(question, ()), Reading("a tarn"), ())
    solves = tuple(episode("solver", task, ["lake oslo"], "tarn", reward) for reward in rewards)
    return Round(
        answer=Answer("s", "Tarn", n_searches=2),
        proposal=episode("proposer", Answer("s", "Tarn"), ["tarn", "oslo"], question, 0.5),
        validation=Validation(reason, "a \x1b[2Jtarn", readings=(read,)),
        origin="fresh",
        task=task,
        solves=solves,
        verdicts=tuple(Verdict("correct" if reward else "wrong", "exact") for reward in rewards),
        success_rate=sum(rewards) / len(rewards) if rewards else None,
        proposer_reward=0.5,
    )


def test_a_game_reads_from_answer_to_rewards():
    lines = [line.split(maxsplit=1) for line in game_text(game(), width=100).splitlines()]
    assert lines == [
        ["answer", "Tarn (searches demanded: 2)"],
        ["proposer", 'searched "tarn", "oslo"'],
        ["question", "what lake lies in Oslo ?"],
        ["gate", 'accepted; the reader answered "a  [2Jtarn"'],
        ["solver", 'searched "lake oslo"; answered "tarn": correct'],
        ["rewards", "solver 1.00, proposer 0.50 (50% of 2 solves are correct)"],
    ]


def test_a_rejected_game_tells_the_reason_and_no_solve_of_another_question():
    text = game_text(game(reason="not_answerable"), width=100)
    assert "rejected: not_answerable; the reader" in text
    assert "solver" not in text and "proposer 0.50" in text


def test_a_game_is_plain_text_cut_to_the_width():
    played = game(question="long " * 50 + "\n\x1b[31m")
    text = game_text(played, width=40)
    assert all(len(line) <= 40 for line in text.splitlines()) and len(text.splitlines()) == 6
    assert "\x1b" not in game_text(played, width=1000) and "..." in text


def test_the_game_that_is_shown_was_accepted_and_solved_by_some():
    rejected, easy, mixed = game(reason="too_short"), game(rewards=(1.0, 1.0)), game()
    assert sample_game([rejected, easy, mixed]) is mixed
    assert sample_game([rejected, easy]) is easy
    assert sample_game([rejected, replace(easy, solves=())]) is rejected
    assert sample_game([]) is None
