"""What a run writes about its questions, and what it does when it collapses."""

import json
from dataclasses import replace

import pytest

from ssp_agents.scripted import FunctionAgent
from ssp_env.errors import AgentError
from ssp_env.world.experts import ExpertAgent
from training.config import RunConfig, resolved, to_json
from training.driver import SelfPlayDriver
from training.games import build_games
from training.monitor import figures, measure
from training.progress import Progress
from training.run_folder import RunFolder
from training.settings import CheckpointSettings, EvalSettings, GameSettings, WorldSettings

SMALL = RunConfig(
    answers_per_round=6,
    n_rounds=20,
    world=WorldSettings(2),
    game=GameSettings(n_solves=2),
    eval=EvalSettings(every=2, questions=0),
)


@pytest.fixture
def drive(tmp_path):
    """Open drivers over small worlds; their folders are closed in the end."""
    opened = []

    def driven(**changes):
        config = resolved(replace(SMALL, **changes))
        folder = RunFolder.create(tmp_path / "run", to_json(config))
        opened.append(folder)
        return SelfPlayDriver(config, build_games(config), folder, progress=Progress(config.n_rounds)), folder

    yield driven
    for folder in opened:
        folder.__exit__()


def rounds_of(folder):
    return [json.loads(line) for line in (folder.path / "rounds.jsonl").read_text().splitlines()]


def test_the_truth_about_every_question_that_was_read_stands_in_both_logs(drive):
    driver, folder = drive()
    for _ in range(2):
        driver.run_round(ExpertAgent())
        driver.finish_round(ExpertAgent(), {})
    first, second = folder.metrics()
    assert first["quality/n_accepted"] > 0 and 0 < first["quality/precision"] <= 1
    assert "quality/closed_book" not in first and second["quality/closed_book"] == 0.0
    games = rounds_of(folder)
    accepted = [g for g in games if g["validation"]["reason"] == "ok"]
    assert all(g["quality"]["parseable"] for g in accepted)
    assert [g["quality"]["closed_book"] for g in accepted if g["round"] == 2] == ["wrong"] * second[
        "quality/n_accepted"
    ]
    unread = [g for g in games if g["validation"]["reason"] not in ("ok", "not_answerable")]
    assert all("quality" not in g for g in unread)


def test_an_agent_that_knows_the_answers_is_found_out(drive):
    expert, known = ExpertAgent(), {}

    def reply(conversation):
        text = expert.complete([conversation], sampling=None or _sampling())[0].text
        prompt = conversation.prompt[-1]["content"]
        if "Answer: " in prompt and "<question>" in text:
            known[text.split("<question>")[1].split("</question>")[0].strip()] = prompt.split("Answer: ")[1].split(
                "\n"
            )[0]
        asked = prompt.rpartition("Question: ")[2].split("\n")[0].strip()
        return f"<answer>{known[asked]}</answer>" if asked in known else text

    driver, folder = drive()
    agent = FunctionAgent(reply)
    for _ in range(2):
        driver.run_round(agent)
        driver.finish_round(agent, {})
    assert folder.metrics()[-1]["quality/closed_book"] == 1.0


def _sampling():
    from ssp_env.types import Sampling

    return Sampling()


def test_a_broken_agent_is_not_called_ignorant(drive):
    class Tires:
        def complete(self, conversations, *, sampling):
            raise AgentError("down")

    driver, folder = drive()
    driver.run_round(ExpertAgent())
    driver.round = 1
    driver.finish_round(Tires(), {})
    assert folder.metrics()[-1]["quality/closed_book"] is None


def test_no_world_no_truth():
    games = build_games(resolved(SMALL))
    assert measure([], games) == [] and figures([], [], None) == {}


@pytest.mark.parametrize("what", ["warn", "stop"])
def test_a_collapse_warns_keeps_the_last_good_checkpoint_and_stops_if_asked_to(drive, capsys, what):
    driver, folder = drive(on_collapse=what, checkpoints=CheckpointSettings(keep=1))
    agents = [ExpertAgent()] * 2 + [FunctionAgent(lambda _: "nothing")] * 6
    ends = []
    for agent in agents:
        driver.run_round(agent)
        ends.append(driver.finish_round(agent, {}))
        checkpoint = folder.staging / "checkpoint"
        checkpoint.mkdir()
        driver.publish(checkpoint)
    lines = folder.metrics()
    assert [line.get("collapse/valid_rate") for line in lines] == [None] * 6 + [3.0, 3.0]
    assert [end.stop for end in ends] == [False] * 6 + [what == "stop"] * 2
    said = capsys.readouterr().out
    assert said.count("(valid_rate)") == 1 and "since round 3" in said
    assert [p.name for p in folder.checkpoints] == ["round-000002", "round-000008"]
    assert "Last checkpoint before that: round-000002" in said
    assert "What to do: if more were valid before, start again from a checkpoint" in said
    assert SelfPlayDriver(driver.config, driver.games, folder, progress=Progress(20))._alarms == driver._alarms, (
        "a resumed run knows the alarms"
    )


def test_a_game_is_shown_every_few_rounds_and_after_the_last(drive, capsys):
    driver, _ = drive(sample_every=2, n_rounds=3)
    for _ in range(3):
        driver.run_round(ExpertAgent())
        driver.finish_round(ExpertAgent(), {})
    said = capsys.readouterr().out
    assert [f"A game of round {i}\n    answer " in said for i in (1, 2, 3)] == [False, True, True]
    assert all(f"    {word}" in said for word in ("proposer", "question", "gate", "solver", "rewards"))


def test_no_game_is_shown_where_none_is_asked_for(drive, capsys):
    driver, _ = drive(sample_every=0, n_rounds=1)
    driver.run_round(ExpertAgent())
    driver.finish_round(ExpertAgent(), {})
    assert "A game" not in capsys.readouterr().out


def test_the_first_examined_round_and_every_better_one_is_saved_and_the_best_stays(drive, monkeypatch):
    shares = iter([0.9, 0.2, 0.5, 0.5, 0.3])
    monkeypatch.setattr("training.driver.evaluate", lambda *_, **__: {"1-hop": next(shares)})
    driver, folder = drive(
        eval=EvalSettings(questions=1, every=1), checkpoints=CheckpointSettings(every=20, keep=1), n_rounds=4
    )
    saved = []
    for _ in range(4):
        driver.run_round(ExpertAgent())
        if driver.finish_round(ExpertAgent(), {}).save:
            saved.append(driver.round)
            (folder.staging / "checkpoint").mkdir()
            driver.publish(folder.staging / "checkpoint")
    assert saved == [1, 2, 4], "the last round is always saved"
    assert [p.name for p in folder.checkpoints] == ["round-000002", "round-000004"]
