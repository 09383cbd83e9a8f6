"""Train a language model by search self-play, from the command line.

With no arguments the small shipped policy plays in generated worlds and learns within minutes on two processor cores::

    python training/run_ssp.py

The same script trains a real model over real passages::

    python training/run_ssp.py --model DIR --corpus PASSAGES.jsonl --preset paper --out runs/real

``--help`` lists all flags; ``--resume --out DIR`` continues a run.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

# A script's own folder must not hide installed modules; the repository's root holds the packages used here.
sys.path[0:1] = [str(Path(__file__).resolve().parent.parent)] if __name__ == "__main__" else sys.path[0:1]
for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS", "DO_NOT_TRACK"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from ssp_env.cli.arguments import in_flags  # noqa: E402
from ssp_env.errors import ConfigError, SSPError  # noqa: E402
from ssp_env.types import Answer, Item, ReadingCase, RoleName, Task  # noqa: E402
from training.command_line import read_command  # noqa: E402
from training.config import MAY_CHANGE, RunConfig, speaks_of_worlds_only, to_json  # noqa: E402
from training.run_folder import RunFolder  # noqa: E402

# What plays and learns is imported where it is used: --help and a wrong flag need not wait for it.
if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ssp_agents.hf import HFAgent
    from training.driver import SelfPlayDriver
    from training.games import Games

SMALL_MODEL = 5_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; what a user can put right is one message, not a traceback."""
    try:
        command = read_command(arguments)
        run(command.run, resume=command.resume)
    except SSPError as error:
        print(f"{type(error).__name__}: {in_flags(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(stop.args[0] if stop.args else "Stopped before anything was played.", file=sys.stderr)
        return 130
    return 0


def run(config: RunConfig, *, resume: bool = False) -> None:
    """Train as configured: build what is played, open the folder, play and learn, show what came out."""
    from ssp_agents.hf import HFAgent, load_model
    from training.driver import SelfPlayDriver
    from training.games import build_games
    from training.progress import Progress

    require_one_process()
    keep_quiet()
    games = build_games(config)
    dtype, max_context = config.optimizer.dtype, config.sampling.max_context
    model, tokenizer = load_model(config.model, dtype=dtype)
    set_threads(config.optimizer.threads, model.num_parameters())
    require_room(HFAgent(model, tokenizer, max_context=max_context), games)
    frozen = None
    if not (config.proposer.train and config.solver.train):
        frozen = HFAgent(load_model(config.model, dtype=dtype)[0], tokenizer, max_context=max_context)

    with open_folder(config, resume=resume) as folder, Progress(config.n_rounds, done=folder.round) as progress:
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
    from training.display import LEGEND

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

    trainer = SelfPlayTrainer(model, tokenizer, driver=driver, config=config, output_dir=folder.staging)
    if driver.frozen is not None:  # the trainer has moved its own model to where it trains
        driver.frozen.model.to(trainer.policy.device)  # type: ignore[arg-type]
    trainer.train(resume_from_checkpoint=str(folder.checkpoint.path) if folder.checkpoint else None)


def open_folder(config: RunConfig, *, resume: bool) -> RunFolder:
    """Start a new folder, or reopen one and cut it back to its last checkpoint."""
    if resume:
        return RunFolder.reopen(Path(config.out), to_json(config), may_change=MAY_CHANGE)
    return RunFolder.create(Path(config.out), to_json(config))


def report(config: RunConfig, folder: RunFolder, rounds: int) -> None:
    """Draw the curves; print held-out accuracy before and after, where the files are, and what can be done next."""
    from training.display import advice, draw_curves, summary
    from training.evaluate import best_round, mean_accuracy

    lines = folder.metrics()
    played_in = "passages of files" if config.corpus else f"{config.world.number} generated worlds"
    title = f"{Path(config.model).name} after {rounds} rounds of self-play in {played_in}, seed {config.seed}"
    draw_curves(lines, folder.path / "curves.png", title=title)
    if table := summary(lines):
        print(f"\n{table}")
    files = {folder.checkpoints[-1]: f"policy after round {rounds}"}
    best = best_round(lines)
    if best is not None and (place := folder.of_round(best)) in folder.checkpoints:
        (mean,) = (mean_accuracy(line) or 0.0 for line in lines if line["round"] == best)
        files[place] = f"policy after round {best}, the best: held-out mean {mean:.0%}"
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
            f"{agent.max_context}; raise --sampling.max-context, or choose a model or a --game.prompt-set that fits"
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
