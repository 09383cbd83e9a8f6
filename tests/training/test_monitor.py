"""Signs of collapse in the figures of a run."""

import pytest

from training.monitor import DETECTORS, PATIENCE, alarms, good_before, role_entropy
from training.rows import TrainingRow
from training.update import ScoredRow

HEALTHY = {
    "valid_rate": 0.7,
    "proposer_reward": 0.4,
    "solver_accuracy": 0.6,
    "zero_variance_share": 0.3,
    "repeat_call_rate": 0.05,
    "entropy/proposer": 0.5,
    "entropy/solver": 0.3,
}


def lines(*changes):
    return [{"round": i, **(HEALTHY | change if i else {})} for i, change in enumerate([{}, *changes])]


def names(found):
    return [alarm.name for alarm in found]


def test_a_healthy_run_and_an_empty_one_raise_nothing():
    assert alarms([]) == alarms(lines(*[{}] * 30)) == []
    assert good_before([]) is good_before(lines({})) is None


@pytest.mark.parametrize(("name", "bad"), [
    ("valid_rate", {"valid_rate": 0.04}),
    ("runaway", {"proposer_reward": 0.96, "solver_accuracy": 0.04}),
    ("decline", {"proposer_reward": 0.7, "solver_accuracy": 0.2}),
    ("zero_variance", {"zero_variance_share": 0.95}),
    ("repeat_calls", {"repeat_call_rate": 0.5}),
    ("entropy", {"entropy/solver": 1.3}),
    ("entropy", {"entropy/proposer": 0.04}),
])  # fmt: skip
def test_an_alarm_comes_after_its_number_of_rounds_and_goes_with_the_first_good_one(name, bad):
    n = DETECTORS[name].n_rounds
    extra = 4 if name == "decline" else 0  # its means are over five rounds
    good = [{}] * 10
    assert name not in names(alarms(lines(*good, *[bad] * (n - 1))))
    found = alarms(lines(*good, *[bad] * (n + extra)))
    assert name in names(found)
    (alarm,) = [alarm for alarm in found if alarm.name == name]
    assert 11 <= alarm.since <= 11 + extra
    if name != "decline":
        assert alarm.since == 11
        assert good_before(lines(*good, *[bad] * n)) == (11 if DETECTORS[name].spoils else None)
        assert name not in names(alarms(lines(*good, *[bad] * n, {})))


def test_only_what_is_surely_fatal_stops():
    assert [name for name, detector in DETECTORS.items() if detector.stops] == ["valid_rate", "runaway"]


def test_missing_figures_raise_no_alarm():
    nothing = dict.fromkeys(HEALTHY)
    assert alarms(lines(*[nothing] * 20)) == []
    assert alarms([{"round": i} for i in range(20)]) == []


def test_a_harder_game_with_an_honest_proposer_is_no_decline():
    assert names(alarms(lines(*[{}] * 10, *[{"solver_accuracy": 0.2, "proposer_reward": 0.1}] * 10))) == []


def test_what_may_become_an_alarm_already_marks_the_last_good_round():
    worse = {"valid_rate": 0.0}
    assert good_before(lines({}, {}, worse)) == 3
    assert good_before(lines({}, worse, {"valid_rate": 0.0, "proposer_reward": 1.0, "solver_accuracy": 0.0})) == 2
    assert good_before(lines({}, worse, {})) is None


def test_entropy_is_the_mean_surprise_of_the_sampled_tokens_by_role():
    row = TrainingRow("solver", (1,), (2, 3, 4), (1, 0, 1), (-0.5, 0.0, -1.5))
    assert role_entropy([ScoredRow(row, 0.0)] * 2) == {"entropy/proposer": None, "entropy/solver": 1.0}


def told(found):
    return {alarm.name: alarm.remedy for alarm in found if alarm.remedy}


def test_a_missing_signal_is_told_only_when_it_lasts_and_with_the_remedy_of_its_cause():
    easy, hard = ({"zero_variance_share": 0.95, "solver_accuracy": share} for share in (0.97, 0.03))
    assert told(alarms(lines(*[easy] * (PATIENCE - 1)))) == {}
    assert told(alarms(lines(*[easy] * 10, {}, *[easy] * 10))) == {}, "it comes and goes in a healthy run"
    assert "demand more searches" in told(alarms(lines(*[easy] * PATIENCE)))["zero_variance"]
    assert "demand fewer searches" in told(alarms(lines(*[hard] * PATIENCE)))["zero_variance"]


@pytest.mark.parametrize(
    ("name", "bad"),
    [("decline", {"proposer_reward": 0.7, "solver_accuracy": 0.2}), ("entropy", {"entropy/solver": 1.3})],
)
def test_a_harder_game_is_not_told_while_held_out_questions_are_answered_as_well_as_ever(name, bad):
    played = [{}] * 10 + [bad] * 15

    def examined(first, last):
        found = lines(*played)
        found[0]["held_out/1-hop"], found[-1]["held_out/1-hop"] = first, last
        return alarms(found)

    assert name in told(alarms(lines(*played)))
    assert name in told(examined(0.8, 0.6))
    assert name not in told(examined(0.8, 0.76)) and name in names(examined(0.8, 0.76))


@pytest.mark.parametrize("name", DETECTORS)
def test_every_alarm_has_a_text_and_may_have_a_remedy_in_one_sentence(name):
    remedy = DETECTORS[name].remedy(lines(*[{"zero_variance_share": 1.0}] * PATIENCE))
    assert remedy and not remedy.endswith(".") and "  " not in remedy
    assert not DETECTORS[name].text.endswith(".")
