"""The ablations: arms, cells, intervals, figures."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from pathlib import Path

import pytest

from benchmarks.ablations import cells as cells_module
from benchmarks.ablations import learning_curve
from benchmarks.ablations.arms import Cell, cell, flat, read_arms
from benchmarks.ablations.cells import Result, read_result, run_cells
from benchmarks.ablations.report import accuracy, draw, group_figures
from benchmarks.card import ROOT
from benchmarks.run_ablations import main, parse_seeds
from ssp_env.config import complete
from ssp_env.errors import ConfigError, RunError
from ssp_env.world import KINDS
from training.config import to_json
from training.evaluate import MEAN_KINDS, mean_accuracy

FILE = ROOT / "benchmarks" / "arms.toml"
SMALL = """
kinds = ["1-hop", "2-hop"]
seeds = [0, 1]
base = { n_rounds = 2, world.first = 0, game.rule = { n_distractors = 6 } }
seed_step = { world.first = 3 }
[arms]
start = { of = "play", at = "start" }
play = {}
same = { game.rule = { n_distractors = 6 } }
other = { proposer.train = false, game.rule = { gate = false } }
[groups.main]
title = "Main"
arms = ["start", "other", "play"]
differences = [["play", "other"], ["play", "start"]]
"""

# Stands for the training: fails the first time for seed 1, plays one round at a time otherwise.
SCRIPT = """
import json, pathlib, sys
arguments = sys.argv[1:]
run = pathlib.Path(arguments[arguments.index("--out") + 1])
value = lambda name: int(arguments[arguments.index(name) + 1])
resumed = "--resume" in arguments
assert resumed == (run / "config.json").exists()
run.mkdir(exist_ok=True)
(run / "config.json").write_text("{}")
with open(run / "metrics.jsonl", "a") as file:
    start = 1 if resumed else 0
    for n in range(start, value("--n-rounds") + 1):
        if value("--seed") == 1 and not resumed and n == 1:
            sys.exit(1)
        share = n / 10 + value("--seed") / 100 - 0.05 * ("--proposer.no-train" in arguments)
        line = {"round": n, "held_out/1-hop": share + 0.1, "held_out/2-hop": share, "valid_rate": 0.5 if n else None}
        file.write(json.dumps(line) + "\\n")
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "arms.toml"
    path.write_text(SMALL)
    return path


def test_every_arm_of_the_file_is_a_command_line_that_the_training_understands():
    from training.command_line import read_command
    from training.games import game_settings

    file = read_arms(FILE)
    for name in file.arms:
        asked = cell(file, name, 2)
        config = read_command([*asked.flags, "--out", "x"]).run
        if "model" in asked.settings:
            model = ROOT / str(asked.settings["model"])
            assert (model / "model.safetensors").exists() and config.game.prompt_set == "compact", name
        rules = flat({"game": {"rule": complete(game_settings(config, world=0))["rules"]}})
        got = {**flat(to_json(config)), **rules}
        given = {**asked.settings}
        if "model" in given:
            given["model"] = str(Path(str(given["model"])).absolute())
        assert {field: got[field] for field in given} == given, name


def flags_of_make_run():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "training/run_ssp.py $(RUN) $(ARGS)" in makefile
    return next(line for line in makefile.splitlines() if line.startswith("RUN := ")).split()[2:]


@pytest.mark.parametrize(("name", "flags"), [("slow-self-play", []), ("reluctant-self-play", flags_of_make_run())])
def test_the_training_by_default_and_make_run_are_arms_of_the_file(name, flags, monkeypatch):
    from training.command_line import read_command
    from training.games import game_settings

    monkeypatch.chdir(ROOT)
    arm = read_command([*cell(read_arms(FILE), name, 0).flags, "--out", "x"]).run
    default = read_command([*flags, "--out", "x"]).run
    first, second = flat(to_json(arm)), flat(to_json(default))
    differing = {name for name in first if first[name] != second[name]}
    assert differing == {"checkpoints.every", "eval.samples", "checkpoints.keep", "game.rule", "optimizer.threads"}
    assert complete(game_settings(arm, world=0))["rules"] == complete(game_settings(default, world=0))["rules"]


def test_the_file_fixes_the_metric_and_five_seeds_and_reports_every_arm():
    file = read_arms(FILE)
    assert file.seeds == (0, 1, 2, 3, 4)
    assert file.kinds == ("1-hop", "2-hop", "3-hop", "4-hop", "intersection")
    reported = {name for group in file.groups for name in group.arms}
    assert reported == set(file.arms)


def test_equal_settings_are_one_cell_and_anything_else_is_another(small, tmp_path):
    file = read_arms(small)
    key = cell(file, "play", 0).key
    assert cell(file, "same", 0).key == cell(file, "start", 0).key == key
    others = {cell(file, "play", 1).key, cell(file, "other", 0).key, cell(file, "play", 0, n_rounds=3).key}
    assert len(others | {key}) == 4
    model = tmp_path / "model"
    model.mkdir()
    keys = []
    for weights in (b"a", b"b"):
        (model / "m.safetensors").write_bytes(weights)
        text = SMALL.replace("base = {", f'base = {{ model = "{model}",')
        small.write_text(text)
        keys.append(cell(read_arms(small), "play", 0).key)
    assert keys[0] != keys[1]
    (model / "m.safetensors").unlink()
    with pytest.raises(ConfigError, match="expected a model with weights in .*model, got none"):
        cell(read_arms(small), "play", 0)


def test_a_cell_is_the_same_wherever_it_is_asked_for(tmp_path, monkeypatch):
    file = read_arms(FILE)
    keys = {cell(file, "reluctant-self-play", 0).key}
    monkeypatch.chdir(tmp_path)
    assert keys == {cell(file, "reluctant-self-play", 0).key}


def test_rules_merge_one_by_one_and_seeds_move_what_steps(small):
    file = read_arms(small)
    small.write_text(SMALL.replace("n_distractors = 6 } }", "n_distractors = 6, min_words = 1 } }", 1))
    same = cell(read_arms(small), "same", 0).settings
    assert same["game.rule.n_distractors"] == 6 and same["game.rule.min_words"] == 1
    asked = cell(file, "other", 1)
    assert asked.settings["world.first"] == 3 and asked.settings["seed"] == 1
    assert "--proposer.no-train" in asked.flags
    at = asked.flags.index("--game.rule")
    assert asked.flags[at + 1 : at + 3] == ["gate=false", "n_distractors=6"]


@pytest.mark.parametrize(("change", "message"), [
    (('"play", "other"]', '"play", "othr"]'), "did you mean 'other'"),
    (('of = "play"', 'of = "pla"'), "did you mean 'play'"),
    (('at = "start"', 'at = "middle"'), "start"),
    (("[arms]", "[arms"), "TOML"),
    (("seeds = [0, 1]", "seeds = []"), "none of them empty"),
])  # fmt: skip
def test_a_wrong_file_is_refused_with_a_remedy(small, change, message):
    small.write_text(SMALL.replace(*change))
    with pytest.raises(ConfigError, match=message):
        read_arms(small)


def run(file, work, script):
    cells = [cell(file, name, seed) for seed in (0, 1) for name in ("play", "other")]
    said: list[str] = []
    return run_cells(work, cells, n_processes=2, say=said.append, script=script), cells, said


def test_failed_runs_are_told_and_resumed_and_complete_ones_are_not_run_again(small, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    file, work = read_arms(small), tmp_path / "work"
    failed, cells, said = run(file, work, script)
    assert [c.seed for c in failed] == [1, 1]
    assert read_result(work, cells[2]) is None
    assert any("failed (see" in line for line in said) and any("min a cell" in line for line in said)
    failed, cells, said = run(file, work, script)
    assert failed == [] and len(said) == 2
    results = [read_result(work, c) for c in cells]
    assert [line["round"] for line in results[2].lines] == [0, 1, 2]
    assert results[2].wall_s > 0 and results[2].cpu_s > 0 and len(results[2].commits) == 1
    assert run(file, work, script)[2] == []


@pytest.mark.parametrize(("name", "change"), [
    ("attempts.jsonl", lambda text: text.replace("cpu_s", "x")), ("run/metrics.jsonl", lambda text: text[:-9]),
    ("attempts.jsonl", lambda text: "null\n"),
    ("attempts.jsonl", lambda text: re.sub(r'"wall_s": [0-9.]+', '"wall_s": "a"', text)),
    ("run/metrics.jsonl", None), ("run/metrics.jsonl", lambda text: ""), ("run/metrics.jsonl", lambda text: "[1]\n"),
    ("run/metrics.jsonl", lambda text: text + "{}\n"), ("run/metrics.jsonl", lambda text: f"[1]\n{text}"),
])  # fmt: skip
def test_a_damaged_run_is_named(small, tmp_path, name, change, capsys):
    script, work = tmp_path / "train.py", tmp_path / "work"
    script.write_text(SCRIPT)
    file = read_arms(small)
    for _ in range(2):
        run(file, work, script)
    damaged = cell(file, "play", 0)
    path = work / damaged.key / name
    path.write_text(change(path.read_text())) if change else path.unlink()
    with pytest.raises(RunError, match=f"{damaged.key}, got .*delete this folder"):
        read_result(work, damaged)
    assert main(["--file", str(small), "--work", str(work), "--arms", "play", "--dry-run"]) == 2
    assert "delete this folder" in capsys.readouterr().err


def attempts(work, c):
    return [json.loads(line) for line in (work / c.key / "attempts.jsonl").read_text().splitlines()]


def test_a_run_killed_while_it_wrote_a_line_has_failed_and_the_others_go_on(small, tmp_path):
    script, work = tmp_path / "train.py", tmp_path / "work"
    killed = """file.write('{"round": 1, "he'); file.flush(); __import__("os").kill(__import__("os").getpid(), 9)"""
    script.write_text(SCRIPT.replace("sys.exit(1)", killed))
    failed, cells, said = run(read_arms(small), work, script)
    assert failed == cells[2:] and [read_result(work, c) is None for c in cells] == [False, False, True, True]
    assert attempts(work, cells[2])[0]["exit_code"] == -signal.SIGKILL
    assert sum("failed (see" in line and "log.txt" in line for line in said) == 2
    script.write_text(SCRIPT.replace("sys.exit(1)", """file.write('{"round": 1, "he'); sys.exit()"""))
    assert run(read_arms(small), tmp_path / "again", script)[0] == cells[2:]


def test_an_interruption_when_a_run_has_just_ended_notes_its_attempt(small, tmp_path, monkeypatch):
    script, work = tmp_path / "train.py", tmp_path / "work"
    script.write_text("")
    cells = [cell(read_arms(small), "play", seed) for seed in (0, 1)]

    def interrupted_when_all_have_ended(_):
        for run in runs:
            os.waitid(os.P_PID, run.process.pid, os.WEXITED | os.WNOWAIT)
        raise KeyboardInterrupt

    runs, start = [], cells_module._start
    monkeypatch.setattr(cells_module.time, "sleep", interrupted_when_all_have_ended)
    monkeypatch.setattr(cells_module, "_start", lambda *a: runs.append(start(*a)) or runs[-1])
    with pytest.raises(KeyboardInterrupt):
        run_cells(work, cells, n_processes=2, say=lambda _: None, script=script)
    assert [attempts(work, c)[0]["exit_code"] for c in cells] == [0, 0]


def test_whatever_ends_the_driver_the_other_runs_are_stopped_and_noted(small, tmp_path):
    script, work = tmp_path / "train.py", tmp_path / "work"
    script.write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "sys.argv[sys.argv.index('--seed') + 1] == '1' or time.sleep(60)\n"
    )
    cells = [cell(read_arms(small), "play", seed) for seed in (0, 1)]

    def broken(_):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_cells(work, cells, n_processes=2, say=broken, script=script)
    assert [attempts(work, c)[0]["exit_code"] for c in cells] == [-signal.SIGINT, 0]


def test_a_second_signal_does_not_lose_what_a_run_took(small, tmp_path):
    """Opening a FIFO waits for the other end, which keeps script and test in step."""
    script, work = tmp_path / "train.py", tmp_path / "work"
    ready, asked, end = (tmp_path / name for name in ("ready", "asked", "end"))
    for fifo in (ready, asked, end):
        os.mkfifo(fifo)
    script.write_text(
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        f"open({str(ready)!r}, 'w').close()\n"
        "signal.sigwait({signal.SIGINT})\n"
        f"open({str(asked)!r}, 'w').close()\n"
        f"open({str(end)!r}).close()\n"
        "print('ended by itself')\n"
    )
    only, handler = [cell(read_arms(small), "play", 0)], signal.getsignal(signal.SIGINT)

    def interrupt():
        open(ready).close()
        os.kill(os.getpid(), signal.SIGINT)
        open(asked).close()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        open(end, "w").close()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_cells(work, only, n_processes=1, say=lambda _: None, script=script)
    assert (work / only[0].key / "log.txt").read_text() == "ended by itself\n"
    (attempt,) = (work / only[0].key / "attempts.jsonl").read_text().splitlines()
    assert json.loads(attempt)["cpu_s"] > 0
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_run_that_ends_early_is_not_complete(small, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace('value("--n-rounds") + 1', "2"))
    failed, *_ = run(read_arms(small), tmp_path / "work", script)
    assert len(failed) == 4


def result(seed: int, *, gain: float, alarm: bool = False) -> Result:
    lines = []
    for n in range(0, 21, 10):
        share = 0.2 + gain * n / 20 + seed / 10
        lines.append({"round": n, "held_out/1-hop": share, "held_out/2-hop": share - 0.1, "held_out/all": 0.0})
        if n:
            lines[-1] |= {"valid_rate": 0.5, "quality/precision": None if n == 10 else 0.8, "proposer_reward": 0.1}
    if alarm:
        lines[1]["collapse/entropy"] = 9.0
    return Result(Cell(f"c{seed}", seed, {"n_rounds": 20}), tuple(lines), 40.0, 30.0, ("abc",))


def test_figures_are_per_seed_means_paired_by_seed(small):
    file = read_arms(small)
    results = {
        "start": {s: result(s, gain=0.3) for s in (0, 1)},
        "play": {s: result(s, gain=0.3) for s in (0, 1)},
        "other": {s: result(s, gain=0.1, alarm=s == 1) for s in (0, 1)},
    }
    figures = group_figures(file.groups[0], file.arms, results, kinds=file.kinds)
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    play, start, other = (figures["arms"][name] for name in ("play", "start", "other"))
    assert play["accuracy_by_seed"] == {"0": 0.45, "1": 0.55} and start["accuracy_by_seed"] == {"0": 0.15, "1": 0.25}
    assert (play["accuracy"]["mean"], play["held_out/1-hop"]["mean"], play["accuracy"]["n"]) == (0.5, 0.55, 2)
    assert play["seconds_per_round"] == 2.0 and list(play["curve"]) == ["0", "10", "20"]
    assert play["last_rounds"]["quality/precision"]["mean"] == 0.8
    assert play["curve_by_seed"] == {"0": {"0": 0.15, "10": 0.3, "20": 0.45}, "1": {"0": 0.25, "10": 0.4, "20": 0.55}}
    assert play["game"]["valid_rate"] == {"10": 0.5, "20": 0.5}
    assert (other["alarms_in_runs"], play["alarms_in_runs"]) == ({"entropy": 1}, {})
    assert "curve" not in start
    gain = figures["differences"]["play - start"]
    assert (gain["mean"], gain["low"], gain["high"], gain["established"]) == (0.3, 0.3, 0.3, True)


def test_pictures_are_drawn_as_png_and_svg(small, tmp_path):
    file = read_arms(small)
    results = {name: {s: result(s, gain=0.1) for s in (0, 1)} for name in file.groups[0].arms}
    draw(file.groups[0], file.arms, results, kinds=file.kinds, path=tmp_path / "a" / "x.json")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["x.png", "x.svg"]


def test_the_metric_is_the_mean_over_the_kinds_alone():
    assert accuracy({"held_out/a": 0.2, "held_out/b": 0.4, "held_out/all": 1.0}, ["a", "b"]) == pytest.approx(0.3)
    with pytest.raises(KeyError):
        accuracy({"held_out/a": 0.2}, ["a", "b"])


def test_the_metric_of_the_arm_file_is_the_mean_that_a_run_shows():
    kinds = tuple(read_arms(FILE).kinds)
    line = {f"held_out/{kind}": i / 10 for i, kind in enumerate((*KINDS, "all"))}
    assert kinds == MEAN_KINDS
    assert accuracy(line, kinds) == mean_accuracy(line)


def test_a_dry_run_starts_nothing_and_writes_nothing(small, tmp_path, capsys):
    arguments = ["--file", str(small), "--work", str(tmp_path / "w"), "--output", str(tmp_path / "o"), "--dry-run"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "4 arms, 2 seeds: 4 runs, 0 complete" in out and out.count("to run") == 8
    assert not (tmp_path / "w").exists() and not (tmp_path / "o").exists()
    assert main([*arguments, "--arms", "plai"]) == 2
    assert "did you mean 'play'" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seeds"), [("0-4", (0, 1, 2, 3, 4)), ("0,2,5-6", (0, 2, 5, 6)), ("3", (3,))])
def test_seeds_are_lists_and_ranges(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["x", "4-0", "1,1", "-3"])
def test_seeds_that_make_no_sense_are_refused(text):
    with pytest.raises(ConfigError, match="0-4"):
        parse_seeds(text)


def test_the_learning_curve_is_drawn_from_finished_runs_or_refused(small, tmp_path, capsys):
    script, work = tmp_path / "train.py", tmp_path / "work"
    script.write_text(SCRIPT)
    flags = ["--arm", "play", "--beside", "other", "--file", str(small)]
    flags += ["--work", str(work), "--output", str(tmp_path / "curve")]
    assert learning_curve.main(flags) == 2
    assert "got none for seeds [0, 1]" in capsys.readouterr().err
    for _ in range(2):
        run(read_arms(small), work, script)
    assert learning_curve.main(flags) == 0
    assert (tmp_path / "curve.png").stat().st_size > 5000 and (tmp_path / "curve.svg").exists()
