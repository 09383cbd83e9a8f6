import os
import signal

import pytest

from training.progress import Progress, draw_curves, round_text, summary

LINES = [
    {"round": 0, "held_out/1-hop": 1.0, "held_out/2-hop": 0.25, "held_out/all": 0.5},
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
    {"round": 2, "solver_accuracy": 0.4, "held_out/1-hop": 0.98, "held_out/2-hop": 0.75, "held_out/all": 0.7},
]


def test_a_round_in_words_names_rejections_by_frequency():
    text = round_text(LINES[1])
    assert "valid 62% (not_answerable 9, answer_leak 3)" in text
    assert "solver -" in text
    assert "searches 1.75/2.00" in text


def test_the_table_compares_first_and_last_evaluation_by_kind():
    rows = [line.split() for line in summary(LINES).splitlines()]
    assert rows[0] == ["held-out", "round", "0", "round", "2", "change"]
    assert ["2-hop", "25%", "75%", "+50%"] in rows
    assert ["1-hop", "100%", "98%", "-2%"] in rows
    assert summary(LINES[:2]) == ""


@pytest.mark.parametrize("lines", [LINES, LINES[1:2], []])
def test_curves_are_a_png_whatever_was_evaluated(tmp_path, lines):
    draw_curves(lines, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["curves.png"]


def test_the_first_interrupt_is_noted_and_the_second_ends(capsys):
    before = signal.getsignal(signal.SIGINT)
    with Progress(5) as progress:
        os.kill(os.getpid(), signal.SIGINT)
        assert progress.interrupted
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "Stopping after this round" in capsys.readouterr().out
