"""Train every arm of an arm file with every seed, and write a card and a picture for each group that is complete.

Runs are cached: start the command again to go on after an interruption, or with more arms. ::

    python -m benchmarks.run_ablations --dry-run
    python -m benchmarks.run_ablations --arms start,solver-only,proposer-only,self-play --seeds 0-4
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import tyro

from benchmarks.ablations.arms import ArmFile, Cell, Group, cell, known, read_arms
from benchmarks.ablations.cells import read_result, run_cells
from benchmarks.ablations.report import Results, draw, group_figures
from benchmarks.card import ROOT, command_line, write_card
from ssp_env.errors import ConfigError, SSPError

MINUTES_A_CELL = 6.0
"""What a cell is taken to cost before one has been run."""


@dataclass(frozen=True)
class Config:
    """Settings of the ablations."""

    arms: str = ""
    """Arms to run, with commas between; default: all."""
    seeds: str = ""
    """Seeds as 0-4 or 0,2,5; default: those of the file."""
    file: Path = ROOT / "benchmarks" / "arms.toml"
    """The arm file."""
    work: Path = ROOT / "runs" / "ablations"
    """Where the runs are kept."""
    output: Path = ROOT / "benchmarks" / "results"
    """Where cards and pictures are written."""
    processes: Literal[1, 2] = 2
    """Runs at a time."""
    n_rounds: int | None = None
    """Rounds of a run, in place of the file's; such runs are kept apart and no card is written."""
    dry_run: bool = False
    """Only show what would be run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    config = tyro.cli(Config, args=arguments, description=__doc__)
    try:
        return ablate(config)
    except SSPError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def ablate(config: Config) -> int:
    """Run what is missing and write what is complete; return 1 if a run failed."""
    file = read_arms(config.file)
    arms = [name for name in config.arms.split(",") if name] or list(file.arms)
    known(arms, file.arms, "arm")
    seeds = parse_seeds(config.seeds) if config.seeds else file.seeds
    # Seed by seed, so that an early look shows every arm.
    cells = {(name, seed): cell(file, name, seed, n_rounds=config.n_rounds) for seed in seeds for name in arms}
    distinct = list({c.key: c for c in cells.values()}.values())
    done = sum(read_result(config.work, c) is not None for c in distinct)
    minutes = estimate_minutes(config.work, distinct, n_processes=config.processes)
    say(f"{len(arms)} arms, {len(seeds)} seeds: {len(distinct)} runs, {done} complete, about {minutes:.0f} min to go")
    if config.dry_run:
        for (name, seed), c in cells.items():
            state = "complete" if read_result(config.work, c) else "to run"
            say(f"{name:<22} seed {seed}  {c.key}  {state:<8}  {' '.join(c.flags)}")
        return 0
    failed = run_cells(config.work, distinct, n_processes=config.processes, say=say)
    results: Results = {
        name: {seed: r for seed in seeds if (r := read_result(config.work, cells[name, seed]))} for name in arms
    }
    for group in file.groups:
        if missing := [name for name in group.arms if len(results.get(name, {})) < len(seeds)]:
            say(f"{group.name}: no card, runs are missing for {', '.join(missing)}")
        else:
            report(config, file, group, results, seeds)
    return 1 if failed else 0


def report(config: Config, file: ArmFile, group: Group, results: Results, seeds: Sequence[int]) -> None:
    """Show the differences of a complete group; write its card and its pictures."""
    figures = group_figures(group, file.arms, results, kinds=file.kinds)
    say(summary(group, figures))
    if config.n_rounds is not None:
        return
    commits = sorted({c for name in group.arms for r in results[name].values() for c in r.commits})
    settings = {
        "base": dict(file.base),
        "seed_step": dict(file.seed_step),
        "arms": {name: asdict(file.arms[name]) for name in group.arms},
        "commits_of_runs": commits,
    }
    place = config.output / f"ablation_{group.name}.json"
    write_card(place, figures, command=command_line(), seeds=list(seeds), settings=settings)
    draw(group, file.arms, results, kinds=file.kinds, path=place)


def summary(group: Group, figures: dict[str, object]) -> str:
    """Return a group's differences as a table."""
    lines = [f"{group.title} ({figures['metric']})"]
    arms, differences = figures["arms"], figures["differences"]
    assert isinstance(arms, dict) and isinstance(differences, dict)
    for name, told in arms.items():
        a = told["accuracy"]
        lines.append(f"  {name:<40} {a['mean']:>7.3f}  [{a['low']:.3f}, {a['high']:.3f}]  n={a['n']}")
    for name, d in differences.items():
        mark = "established" if d["established"] else "not established"
        lines.append(f"  {name:<40} {d['mean']:>+7.3f}  [{d['low']:+.3f}, {d['high']:+.3f}]  {mark}")
    return "\n".join(lines)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of ``0-4`` or ``0,2,5-7``.

    Raises:
        ConfigError: If the text is neither.
    """
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            seeds += range(int(first), int(last or first) + 1)
    except ValueError as error:
        raise ConfigError(f"expected seeds as 0-4 or 0,2,5, got {text!r}; correct them") from error
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"expected distinct seeds as 0-4 or 0,2,5, got {text!r}; correct them")
    return tuple(seeds)


def estimate_minutes(work: Path, cells: Sequence[Cell], *, n_processes: int) -> float:
    """Return the minutes that the missing cells will take, judged by the complete ones."""
    found = [read_result(work, c) for c in cells]
    spent = [r.wall_s / 60 for r in found if r is not None]
    each = sum(spent) / len(spent) if spent else MINUTES_A_CELL
    return each * found.count(None) / n_processes


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


if __name__ == "__main__":
    # Also when started in the background, where a shell ignores Ctrl-C for it and for the runs that inherit that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    sys.exit(main())
