"""Draw held-out accuracy by kind of question over the rounds of one arm: mean and 95 % interval over seeds.

Reads the finished runs of ``benchmarks/run_ablations.py``. ::

    python -m benchmarks.learning_curve
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.ablation_report import evaluations
from benchmarks.arms import cell, known, read_arms
from benchmarks.card import ROOT
from benchmarks.cells import Result, read_result
from benchmarks.intervals import interval
from ssp_env.errors import RunError, SSPError


@dataclass(frozen=True)
class Config:
    """What is drawn."""

    arm: str = "slow-self-play"
    """An arm of the arm file."""
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
        known([config.arm], file.arms, "arm")
        found = {seed: read_result(config.work, cell(file, config.arm, seed)) for seed in file.seeds}
        if missing := [seed for seed, result in found.items() if result is None]:
            raise RunError(
                f"expected finished runs of {config.arm}, got none for seeds {missing}; "
                f"run python -m benchmarks.run_ablations --arms {config.arm}"
            )
        draw([result for result in found.values() if result is not None], file.kinds, config.output)
    except SSPError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


def draw(results: Sequence[Result], kinds: Sequence[str], path: Path) -> None:
    """Write the picture of some runs of one arm."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = path.name
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    lines = evaluations(results)
    for kind in kinds:
        spread = {
            number: interval([float(str(line[f"held_out/{kind}"])) for line in of_round])
            for number, of_round in lines.items()
        }
        axes.plot(list(spread), [x.mean for x in spread.values()], marker="o", markersize=3, label=kind)
        axes.fill_between(list(spread), [x.low for x in spread.values()], [x.high for x in spread.values()], alpha=0.15)
    axes.set(xlabel="round of self-play", ylabel="held-out accuracy (greedy)", ylim=(-0.02, 1.02))
    axes.set_title(
        f"Questions about worlds never played in; mean and 95 % interval of {len(results)} seeds", fontsize=10
    )
    axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=120)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
