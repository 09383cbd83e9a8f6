"""Draw held-out accuracy over the rounds of one arm, by kind and beside another arm: mean and 95 % interval over seeds.

Reads the finished runs of ``benchmarks/run_ablations.py``. ::

    python -m benchmarks.ablations.learning_curve
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from benchmarks.ablations.arms import ArmFile, cell, known, read_arms
from benchmarks.ablations.cells import Result, read_result
from benchmarks.ablations.report import Line, accuracy, evaluations
from benchmarks.card import ROOT
from ssp_env.errors import RunError, SSPError
from ssp_env.eval.stats import interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Config:
    """What is drawn."""

    arm: str = "reluctant-self-play"
    """An arm of the arm file."""
    beside: str = "reluctant-solver-only"
    """An arm that its mean over all kinds is compared with; empty: none."""
    file: Path = ROOT / "benchmarks" / "arms.toml"
    """The arm file."""
    work: Path = ROOT / "runs" / "ablations"
    """Where the runs are kept."""
    output: Path = ROOT / "docs" / "learning_curve"
    """The picture, without its ending; ``.png`` and ``.svg`` are written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    config = tyro.cli(Config, args=arguments, description=__doc__)
    try:
        file = read_arms(config.file)
        arms = [config.arm, config.beside] if config.beside else [config.arm]
        known(arms, file.arms, "arm")
        results = {arm: finished(file, arm, config.work) for arm in arms}
        draw(results, file.kinds, config.output)
    except SSPError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


def finished(file: ArmFile, arm: str, work: Path) -> list[Result]:
    """Return the runs of an arm, one a seed.

    Raises:
        RunError: If some are not complete.
    """
    found = {seed: read_result(work, cell(file, arm, seed)) for seed in file.seeds}
    if missing := [seed for seed, result in found.items() if result is None]:
        raise RunError(
            f"expected finished runs of {arm}, got none for seeds {missing}; "
            f"run python -m benchmarks.run_ablations --arms {arm}"
        )
    return [result for result in found.values() if result is not None]


def draw(results: Mapping[str, Sequence[Result]], kinds: Sequence[str], path: Path) -> None:
    """Write the picture: the mean over kinds of every arm, and the first arm by kind."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = path.name
    from matplotlib import pyplot

    figure, (whole, by_kind) = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    shared = commonprefix(list(results)).rpartition("-")[0] if len(results) > 1 else ""
    for arm, runs in results.items():
        label = arm.removeprefix(f"{shared}-")
        _curve(whole, evaluations(runs), kinds, label=label)
    first, runs = next(iter(results.items()))
    for kind in kinds:
        _curve(by_kind, evaluations(runs), [kind], label=kind)
    whole.set(ylabel="held-out accuracy (greedy)", ylim=(-0.02, 1.02), title="mean over all kinds")
    by_kind.set(title=f"{first.removeprefix(f'{shared}-')}, by kind of question")
    for axes in (whole, by_kind):
        axes.set(xlabel="round")
        axes.title.set_fontsize(10)
        axes.grid(alpha=0.3)
    whole.legend(fontsize=8, loc="lower right")
    by_kind.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.suptitle(f"Worlds never played in; mean and 95 % interval of {len(runs)} seeds", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=120)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)


def _curve(axes: Axes, lines: Mapping[int, list[Line]], kinds: Sequence[str], *, label: str) -> None:
    """Draw the accuracy over kinds, its mean over runs by round with the interval."""
    spread = {number: interval([accuracy(line, kinds) for line in of_round]) for number, of_round in lines.items()}
    axes.plot(list(spread), [x.mean for x in spread.values()], marker="o", markersize=3, label=label)
    axes.fill_between(list(spread), [x.low for x in spread.values()], [x.high for x in spread.values()], alpha=0.15)


if __name__ == "__main__":
    sys.exit(main())
