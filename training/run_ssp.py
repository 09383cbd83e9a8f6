"""Train a language model by search self-play, from the command line.

With no arguments the small shipped policy plays in generated worlds and learns within minutes on two processor cores::

    python training/run_ssp.py

The same script trains a real model over real passages::

    python training/run_ssp.py --model DIR --corpus PASSAGES.jsonl --optimizer paper --out runs/real

``--help`` lists all flags; ``--resume --out DIR`` continues a run.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

# A script's own folder must not hide installed modules; the repository's root holds the packages used here.
sys.path[0:1] = [str(Path(__file__).resolve().parent.parent)] if __name__ == "__main__" else sys.path[0:1]
for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS", "DO_NOT_TRACK"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import tyro  # noqa: E402

from agents.hf import HFAgent, load_model  # noqa: E402
from ssp_env.cli.arguments import in_flags  # noqa: E402
from ssp_env.errors import ConfigError, SSPError  # noqa: E402
from ssp_env.types import Answer, Item, ReadingCase, RoleName, Task  # noqa: E402
from training.config import MAY_CHANGE, RunConfig, resolved, speaks_of_worlds_only  # noqa: E402
from training.config_json import from_json, to_json  # noqa: E402
from training.display import LEGEND, advice, draw_curves, summary  # noqa: E402
from training.driver import SelfPlayDriver  # noqa: E402
from training.evaluate import best_round, mean_accuracy  # noqa: E402
from training.games import Games, build_games  # noqa: E402
from training.progress import Progress  # noqa: E402
from training.run_folder import RunFolder, read_config  # noqa: E402
from training.settings import update_settings  # noqa: E402

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SMALL_MODEL = 5_000_000


def parse(arguments: Sequence[str] | None = None) -> RunConfig:
    """Return the resolved configuration of the command line; a resumed run's flags default to those of the run."""
    _refuse_repeated(sys.argv[1:] if arguments is None else arguments)
    config = tyro.cli(RunConfig, args=arguments, description=__doc__)
    if config.resume:
        saved = from_json(read_config(Path(config.out).expanduser()))
        config = tyro.cli(RunConfig, args=arguments, default=saved)
    return resolved(config)


def _refuse_repeated(arguments: Sequence[str]) -> None:
    """Refuse a flag of several values given twice, of which only the last would count."""
    given = [argument.partition("=")[0].replace("_", "-") for argument in arguments]
    for flag in ("--corpus", "--demanded-searches", "--rule"):
        if (n_times := given.count(flag)) > 1:
            of_make = '; make run gives it itself: make run RUN= ARGS="..." leaves that to you'
            remedy = "give all its values after one flag" + of_make * (flag == "--demanded-searches")
            raise ConfigError(f"expected {flag} once, got it {n_times} times; {remedy}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; what a user can put right is one message, not a traceback."""
    try:
        run(parse(arguments))
    except SSPError as error:
        print(f"{type(error).__name__}: {in_flags(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(stop.args[0] if stop.args else "Stopped before anything was played.", file=sys.stderr)
        return 130
    return 0


def run(config: RunConfig) -> None:
    """Train as configured: build what is played, open the folder, play and learn, show what came out."""
    require_one_process()
    keep_quiet()
    games = build_games(config)
    model, tokenizer = load_model(config.model, dtype=config.dtype)
    set_threads(config.threads, model.num_parameters())
    require_room(HFAgent(model, tokenizer, max_context=config.max_context), games)
    frozen = None
    if not (config.train_proposer and config.train_solver):
        frozen = HFAgent(load_model(config.model, dtype=config.dtype)[0], tokenizer, max_context=config.max_context)

    with open_folder(config) as folder, Progress(config.n_rounds, done=folder.round) as progress:
        driver = SelfPlayDriver(config, games, folder, progress=progress, frozen=frozen)
        if driver.round < config.n_rounds:
            progress.say(introduction(config, games, model))
            try:
                train(config, driver, model, tokenizer, folder)
            except KeyboardInterrupt as stop:
                raise KeyboardInterrupt(what_is_lost(folder, driver.round)) from stop
        report(config, folder, driver.round)


def introduction(config: RunConfig, games: Games, model: PreTrainedModel) -> str:
    """Say what is about to be played: on a large model the first round takes minutes."""
    size = f"{model.num_parameters() / 1e6:.3g} million weights"
    n_passages = sum(len(game.corpus) for game in games.training)
    place = f"{n_passages:,} passages of " + ("files" if config.corpus else f"{len(games.training)} generated worlds")
    text = f"Playing {config.n_rounds} rounds with {config.model} ({size}) over {place}; files in {config.out}"
    if config.corpus and speaks_of_worlds_only(config.model):
        text += (
            "\nThis policy knows the words of generated worlds only and will find little here; use a model of yours."
        )
    return f"{text}\n{LEGEND}"


def train(
    config: RunConfig,
    driver: SelfPlayDriver,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: RunFolder,
) -> None:
    """Play and update, round after round, from the folder's checkpoint on."""
    from training.trainer import SelfPlayTrainer

    trainer = SelfPlayTrainer(
        model,
        tokenizer,
        driver=driver,
        settings=update_settings(config, folder.staging),
        max_context=config.max_context,
        lora_rank=config.lora_rank,
    )
    if driver.frozen is not None:
        driver.frozen.model.to(trainer.model.device)
    trainer.train(resume_from_checkpoint=str(folder.checkpoint.path) if folder.checkpoint else None)


def open_folder(config: RunConfig) -> RunFolder:
    """Start a new folder, or reopen one and cut it back to its last checkpoint."""
    values = to_json(replace(config, resume=False))
    if config.resume:
        return RunFolder.reopen(Path(config.out), values, may_change=MAY_CHANGE)
    return RunFolder.create(Path(config.out), values)


def report(config: RunConfig, folder: RunFolder, rounds: int) -> None:
    """Draw the curves; print held-out accuracy before and after, where the files are, and what can be done next."""
    lines = folder.metrics()
    played_in = "passages of files" if config.corpus else f"{config.train_worlds} generated worlds"
    title = f"{Path(config.model).name} after {rounds} rounds of self-play in {played_in}, seed {config.seed}"
    draw_curves(lines, folder.path / "curves.png", title=title)
    if table := summary(lines):
        print(f"\n{table}")
    files = {folder.checkpoints[-1]: f"policy after round {rounds}"}
    best = best_round(lines)
    if best is not None and (place := folder.of_round(best)) in folder.checkpoints:
        (mean,) = (mean_accuracy(line) or 0.0 for line in lines if line["round"] == best)
        files[place] = f"policy after round {best}, the best: {mean:.0%} of the held-out questions on average"
    files |= {folder.path / "curves.png": "the figures as a picture", folder.path / "metrics.jsonl": "figures by round"}
    files[folder.path / "rounds.jsonl"] = "every game, whole"
    print(f"\nRun folder {folder.path}")
    print("\n".join(f"  {path.relative_to(folder.path).as_posix():<26}{text}" for path, text in files.items()))
    if rounds < config.n_rounds:
        print(f"Stopped after round {rounds}. {how_to_go_on(folder)}")
    else:
        if tip := advice(lines):
            print(f"\n{tip}")
        print(f"More rounds: {_resume(folder)} --n-rounds {2 * rounds}")


def what_is_lost(folder: RunFolder, rounds: int) -> str:
    """Say where a run that was stopped at once goes on."""
    kept = int(folder.checkpoints[-1].name.rpartition("-")[2]) if folder.checkpoints else 0
    since = (
        f"what was played after round {kept}, up to round {rounds}, is lost" if rounds > kept else "no round is lost"
    )
    return f"Stopped at once; {since}. {how_to_go_on(folder)}"


def how_to_go_on(folder: RunFolder) -> str:
    """Say how to continue a run that was stopped."""
    return f"Continue with: {_resume(folder)}"


def _resume(folder: RunFolder) -> str:
    return shlex.join([sys.executable, sys.argv[0], "--resume", "--out", str(folder.path)])


def require_one_process() -> None:
    """Refuse launchers of several processes, which would each play and write the same run."""
    if (n_processes := int(os.environ.get("WORLD_SIZE", "1"))) > 1:
        raise ConfigError(f"expected one process, got {n_processes}; start without torchrun or accelerate")


def require_room(agent: HFAgent, games: Games) -> None:
    """Refuse a context that some role's prompt fills before anything is asked."""
    game = games.training[0]
    items: dict[RoleName, Item] = {
        "proposer": Answer("", ""),
        "solver": Task("", "", ()),
        "reader": ReadingCase("", ()),
    }
    prompts = {role: game.episode(role, item).conversation for role, item in items.items()}
    lengths = {role: len(agent.context_ids(prompt)) for role, prompt in prompts.items()}
    role = max(lengths, key=lambda role: lengths[role])
    if agent.max_context <= lengths[role]:
        raise ConfigError(
            f"expected a context of more than the {lengths[role]} tokens of the {role}'s prompt alone, got "
            f"{agent.max_context}; raise --max-context, or choose a model or a --prompt-set that fits"
        )


def keep_quiet() -> None:
    """Silence the chatter of third parties; errors still come through."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=UserWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)


def set_threads(threads: int, n_parameters: int) -> None:
    """Give PyTorch its threads: one is fastest for a very small model."""
    import torch

    if threads or n_parameters < SMALL_MODEL:
        torch.set_num_threads(threads or 1)


if __name__ == "__main__":
    sys.exit(main())
