import io
import os
import signal
import sys

import pytest

from ssp_env.types import Completion, Sampling
from training.progress import Progress, duration


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


class Terminal(io.StringIO):
    """A screen that tests can read."""

    def isatty(self):
        return True

    def drawn(self):
        """Return what was drawn since the last look, one text each, without the blanks that wipe the one before."""
        texts = [text.rstrip() for text in self.getvalue().split("\r") if text.strip()]
        self.seek(0)
        self.truncate()
        return texts


@pytest.fixture
def opened(monkeypatch):
    """Open a terminal of so many columns."""

    def open_(columns=60):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("COLUMNS", str(columns))
        return terminal

    return open_


def test_a_terminal_shows_phase_share_and_time_left_in_one_line(opened, clock):
    terminal = opened()
    with Progress(4, now=clock) as progress:
        progress.at("proposing", 32)
        progress.at("proposing", 8)
        progress.at("checking")
        assert terminal.drawn() == [
            "[..........] round 1/4  proposing 0/32",
            "[..........] round 1/4  proposing 24/32",
            "[..........] round 1/4  checking",
        ]
        clock.seconds = 90.0
        progress.show({"round": 1})
        clock.seconds += 30.0
        progress.at("solving", 160)
        assert terminal.drawn() == ["[##........] round 2/4  solving 0/160  about 4 min left"]


def test_a_printed_line_replaces_the_drawn_one_which_comes_back_below(opened, clock, capsys):
    terminal = opened()
    with Progress(4, now=clock) as progress:
        progress.at("updating")
        terminal.drawn()
        progress.say("a word")
        assert capsys.readouterr().out == "a word\n"
        wiped, again = terminal.getvalue().rsplit("\r", 1)
        assert wiped and not wiped.strip() and again == "[..........] round 1/4  updating"
        terminal.drawn()
        progress.show({"round": 1})
        progress.say("after the round")
        assert terminal.drawn() == []


def test_a_drawn_line_is_cut_to_the_terminal(opened, clock):
    terminal = opened(columns=20)
    with Progress(4, now=clock) as progress:
        progress.at("proposing", 32)
    assert terminal.drawn() == ["[..........] round"]


def test_without_a_terminal_a_line_comes_only_after_a_minute_of_silence(clock, capsys):
    with Progress(4, now=clock) as progress:
        for seconds in range(0, 130, 10):
            clock.seconds = float(seconds)
            progress.at("solving", 130 - seconds)
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["   0/4  solving 60/130", "   0/4  solving 120/130"]
    assert shown.err == ""


def test_the_time_left_is_that_of_the_last_rounds_less_what_this_one_has_taken(clock):
    progress = Progress(30, done=10, now=clock)
    assert progress.seconds_left() is None
    progress.show({"round": 10})
    clock.seconds = 1000.0
    progress.show({"round": 11})
    for number in range(12, 22):
        clock.seconds += 20.0
        progress.show({"round": number})
    clock.seconds += 15.0
    assert progress.seconds_left() == 9 * 20.0 - 15.0, "the slow round is no longer among the last ten"
    clock.seconds += 1000.0
    assert progress.seconds_left() == 0.0


def test_the_evaluation_before_the_first_round_is_no_round(clock):
    progress = Progress(3, now=clock)
    clock.seconds = 500.0
    progress.show({"round": 0})
    assert progress.seconds_left() is None
    clock.seconds += 2.0
    progress.show({"round": 1})
    assert progress.seconds_left() == 4.0


class Said:
    def complete(self, conversations, *, sampling):
        return [Completion(str(sampling.seed))] * len(conversations)

    def read(self, cases):
        return [*cases]


def test_what_is_watched_plays_the_same_and_a_larger_batch_is_a_new_one(opened, clock):
    terminal = opened()
    progress = Progress(4, now=clock)
    agent, reader = progress.watched(Said(), "examining"), progress.watched_reader(Said())
    for n in (6, 2, 4):
        assert agent.complete(["c"] * n, sampling=Sampling(seed=7)) == [Completion("7")] * n
    assert reader.read(["case"]) == ["case"]
    assert [text.partition("  ")[2] for text in terminal.drawn()] == [
        "examining 0/6", "examining 4/6", "examining 0/4", "checking",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (3599, "1 h 0 min"), (12_000, "3 h 20 min")]
)
def test_times_are_said_in_words(seconds, text):
    assert duration(seconds) == text


def test_the_first_interrupt_is_noted_and_the_second_ends(capsys):
    before = signal.getsignal(signal.SIGINT)
    with Progress(5) as progress:
        os.kill(os.getpid(), signal.SIGINT)
        assert progress.interrupted
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "Stopping after this round" in capsys.readouterr().out
