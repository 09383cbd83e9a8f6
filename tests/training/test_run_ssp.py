"""The run script, from the command line's arguments to the files of a run."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from training.command_line import read_command  # noqa: E402
from training.config import RunConfig  # noqa: E402
from training.display import advice  # noqa: E402
from training.monitor import DETECTORS, PATIENCE  # noqa: E402
from training.progress import Progress  # noqa: E402
from training.run_ssp import main  # noqa: E402

SCRIPT = Path(__file__).resolve().parents[2] / "training" / "run_ssp.py"
# Without the gate nearly every proposal is played, and each of those pays, so that every round has a gradient.
UNEXAMINED = [
    *("--game.rule", "gate=false", "proposer_reward=format", "min_words=1", "max_turns=3", "--game.n-solves", "3"),
    *("--answers-per-round", "4", "--world.number", "2", "--sampling.max-new-tokens", "24"),
    *("--eval.every", "2", "--checkpoints.every", "2", "--proposer.advantage", "raw"),
]
SMALL = [*UNEXAMINED, "--eval.questions", "2"]
UNEXAMINED += ["--eval.questions", "0"]


def lines(path, name):
    return [json.loads(line) for line in (path / name).read_text().splitlines()]


def weights(path, number):
    return load_file(path / "checkpoints" / f"round-{number:06d}" / "model.safetensors")


def trainer_state(path, number):
    """Return what transformers counts and the state of PyTorch's generator, as they were saved."""
    checkpoint = path / "checkpoints" / f"round-{number:06d}"
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    return state["epoch"], torch.load(checkpoint / "rng_state.pth", weights_only=False)["cpu"]


def assert_same_run(first, second, number):
    assert lines(first, "metrics.jsonl") == lines(second, "metrics.jsonl")
    assert (first / "rounds.jsonl").read_bytes() == (second / "rounds.jsonl").read_bytes()
    for name, tensor in weights(first, number).items():
        assert torch.equal(tensor, weights(second, number)[name]), name
    (epoch, drawn), (other_epoch, other_drawn) = trainer_state(first, number), trainer_state(second, number)
    assert epoch == other_epoch and torch.equal(drawn, other_drawn)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of four rounds, and what it printed."""
    path = tmp_path_factory.mktemp("whole") / "run"
    assert main(["--out", str(path), "--n-rounds", "4", *SMALL]) == 0
    return path


def test_a_run_writes_every_round_whole(whole):
    figures = lines(whole, "metrics.jsonl")
    assert [line["round"] for line in figures] == [0, 1, 2, 3, 4]
    assert all("held_out/2-hop" in figures[i] for i in (0, 2, 4))
    games = lines(whole, "rounds.jsonl")
    assert [game["round"] for game in games] == [i for i in (1, 2, 3, 4) for _ in range(4)]
    assert all(len(game["solves"]) == 3 for game in games if game["task"])
    assert {game["world"] for game in games} == {0, 1} and len({game["corpus"] for game in games}) == 2
    assert {p.name for p in whole.iterdir()} >= {"config.json", "curves.png", "checkpoints"}
    assert read_command(["--resume", "--out", str(whole)]).run.n_rounds == 4


def test_every_sampled_token_is_trained_and_the_weights_move(whole):
    for line in lines(whole, "metrics.jsonl")[1:]:
        assert line["rows/sampled_tokens"] == line["rows/masked_tokens"] > 0
        assert line["rows/drift"] == 0
        assert line["grad_norm"] > 0
    early, late = weights(whole, 2), weights(whole, 4)
    assert any(not torch.equal(early[name], late[name]) for name in early)


def test_a_resumed_run_equals_an_uninterrupted_one(whole, tmp_path):
    path = tmp_path / "run"
    assert main(["--out", str(path), "--n-rounds", "2", *SMALL]) == 0
    with open(path / "metrics.jsonl", "a") as file:
        file.write('{"round": 3, "val')
    assert main(["--resume", "--out", str(path), "--n-rounds", "4", "--checkpoints.keep", "3"]) == 0
    assert_same_run(whole, path, 4)


def test_a_run_stopped_in_rounds_that_are_evaluated_equals_an_uninterrupted_one(whole, tmp_path, monkeypatch, capsys):
    path, asked = tmp_path / "a run", itertools.count(1)
    monkeypatch.setattr(
        Progress, "interrupted", property(lambda _: next(asked) % 2 == 0, lambda *_: None), raising=False
    )
    assert main(["--out", str(path), "--n-rounds", "4", *SMALL]) == 0
    shown = capsys.readouterr().out
    assert "Stopped after round 2" in shown
    assert shlex.split(shown.partition("Continue with: ")[2])[-3:] == ["--resume", "--out", str(path)]
    assert main(["--resume", "--out", str(path)]) == 0
    assert next(asked) == 5
    assert_same_run(whole, path, 4)


def test_a_run_stopped_at_once_says_what_is_lost_and_how_to_go_on(tmp_path, monkeypatch, capsys):
    asked, show = itertools.count(), Progress.show

    def stop_at_the_third(progress, line):
        show(progress, line)
        if next(asked) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "show", stop_at_the_third)
    at = UNEXAMINED.index("--checkpoints.every") + 1
    flags = ["--out", str(tmp_path / "run"), "--n-rounds", "4", *UNEXAMINED[:at], "1", *UNEXAMINED[at + 1 :]]
    assert main(flags) == 130
    shown = capsys.readouterr()
    assert "after round 2, up to round 3, is lost" in shown.err and "--resume --out" in shown.err
    assert "Playing 4 rounds" in shown.out and "generated worlds" in shown.out


def test_a_finished_run_resumes_to_nothing(whole, capsys):
    before = (whole / "rounds.jsonl").read_bytes()
    assert main(["--resume", "--out", str(whole)]) == 0
    assert (whole / "rounds.jsonl").read_bytes() == before
    assert "2-hop" in capsys.readouterr().out


def test_a_finished_run_tells_its_files_the_best_policy_and_how_to_play_more_rounds(whole, capsys):
    assert main(["--resume", "--out", str(whole)]) == 0
    shown = capsys.readouterr().out
    named = json.loads((whole / "checkpoints.json").read_text())
    for file in ("curves.png", "metrics.jsonl", "rounds.jsonl", *named.values()):
        assert f"\n  {file} " in shown and (whole / file).exists()
    assert shown.count(", the best: ") == 1 and f"{named['best']}  policy after round" in shown
    command = shlex.split(shown.partition("More rounds: ")[2])
    assert read_command(command[2:]).run.n_rounds == 8, "the command that is shown is one that works"


def test_a_finished_run_keeps_no_file_that_only_a_running_one_needs(whole):
    assert not [p.name for p in whole.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        (["--out", "{whole}"], "--resume"),
        (["--resume", "--out", "{whole}", "--seed", "1"], "seed"),
        (["--resume", "--out", "{whole}", "--eval.world", "1001"], "'eval.world'"),
        (["--resume", "--out", "{new}"], "without --resume"),
        (["--out", "{new}", "--model", "{new}"], "save_pretrained"),
        (["--out", "{new}", "--game.rule", "fillin=reuse"], "fillin"),
        (["--out", "{new}", "--sampling.max-context", "5"], "raise --sampling.max-context"),
        (["--out", "{new}", "--corpus", "{new}/none.jsonl", "--model", "x"], "none.jsonl"),
    ],
)
def test_what_a_user_can_put_right_is_one_message(whole, tmp_path, capsys, flags, remedy):
    given = [flag.format(whole=whole, new=tmp_path / "new") for flag in flags]
    assert main(given) == 2
    message = capsys.readouterr().err
    assert remedy in message
    assert "Traceback" not in message
    assert not (tmp_path / "new").exists()


def test_several_processes_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["--out", str(tmp_path / "run")]) == 2
    assert "torchrun" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_flag_given_twice_is_refused_before_it_hides_the_first(capsys):
    assert main(["--game.rule", "n_distractors=2", "--game.rule", "n_solves=3"]) == 2
    message = capsys.readouterr().err
    assert "give all its values after one flag" in message and "make run" not in message
    assert main(["--config", "training/make_run.toml", "--config", "mine.toml"]) == 2
    assert "make run RUN= ARGS=" in capsys.readouterr().err
    for flags in (
        ["--game.rule=n_distractors=2", "--game.rule", "n_solves=3"],
        ["--demanded_searches=1", "--demanded-searches", "2"],
        ["--seed", "1", "--seed", "2"],
        ["--solver.train", "--solver.no-train"],
        ["--resume", "--no-resume"],
    ):
        assert main(flags) == 2
        assert "2 times" in capsys.readouterr().err


def test_a_home_folder_is_found_again(whole, monkeypatch):
    monkeypatch.setenv("HOME", str(whole.parent))
    assert read_command(["--resume", f"--out=~/{whole.name}"]).run.out == str(whole)


def test_an_unknown_flag_is_refused(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--learning-rat", "1"])
    assert exit_.value.code == 2


@pytest.mark.parametrize("frozen", ["proposer", "solver"])
def test_a_role_that_is_not_trained_is_played_by_the_initial_policy(tmp_path, frozen):
    flags = ["--n-rounds", "2", *UNEXAMINED, f"--{frozen}.no-train"]
    for lr in ("0", "0.05"):
        assert main(["--out", str(tmp_path / lr), *flags, "--optimizer.lr", lr]) == 0
    still, moved = (
        [game["proposal"]["turns"] for game in lines(tmp_path / lr, "rounds.jsonl")] for lr in ("0", "0.05")
    )
    # Proposals come first in a round: a proposer that learns has changed in the second one, a frozen one has not.
    assert (still == moved) is (frozen == "proposer")


def test_sequential_updates_and_kl_are_logged_by_role(tmp_path):
    path = tmp_path / "run"
    flags = ["--n-rounds", "1", *UNEXAMINED, "--preset", "code"]
    assert main(["--out", str(path), *flags]) == 0
    figures = lines(path, "metrics.jsonl")[-1]
    assert {"solver/loss", "proposer/loss", "proposer/grad_norm"} <= set(figures)


def test_defaults_are_the_embedded_run():
    config = read_command([]).run
    assert (config.corpus, config.world.number, config.eval.world) == ((), 8, 1000)
    assert config.model == RunConfig().model


def start(*flags):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *flags],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
    )


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_like_an_uninterrupted_one(whole, tmp_path):
    path, moments = tmp_path / "run", random.Random(0)
    flags = ["--out", str(path), "--n-rounds", "4", *SMALL]
    for _ in range(30):
        resume = ["--resume"] if (path / "config.json").exists() else []
        process = start(*flags, *resume)
        try:
            output, _ = process.communicate(timeout=moments.uniform(1, 40))
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        assert "Traceback" not in output
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, output
    assert process.returncode == 0, "the run never came to its end"
    assert_same_run(whole, path, 4)


@pytest.mark.slow
def test_ctrl_c_ends_with_a_checkpoint_and_tells_how_to_go_on(tmp_path):
    path = tmp_path / "run"
    process = start("--out", str(path), "--n-rounds", "500", *SMALL)
    metrics, patience = path / "metrics.jsonl", time.monotonic() + 300
    while not (metrics.exists() and metrics.read_text().count("\n") > 1) and time.monotonic() < patience:
        assert process.poll() is None, process.communicate()[0]
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "--resume --out" in output
    assert "Traceback" not in output
    assert list((path / "checkpoints").glob("round-*"))


def test_every_flag_that_a_warning_or_a_tip_names_exists(capsys):
    lines = [{"round": i, "zero_variance_share": 1.0} for i in range(PATIENCE)]
    texts = [detector.remedy(lines) for detector in DETECTORS.values()]
    texts += [
        advice([{"round": i, "held_out/x": x} for i, x in enumerate(shares)])
        for shares in ([], [1, 0], [0, 1, 0], [0, 1])
    ]
    named = {flag for text in texts for flag in re.findall(r"--[a-z][a-z.-]*", text)}
    with pytest.raises(SystemExit):
        main(["--help"])
    known = set(re.findall(r"--[a-z][a-z.-]*", capsys.readouterr().out))
    assert named and named <= known, named - known
