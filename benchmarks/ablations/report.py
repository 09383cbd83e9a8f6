"""From the cells of a group of arms to the figures of its card and to a picture.

Everything is counted per seed first and then averaged over seeds. What a run did not measure is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from benchmarks.ablations.arms import Arm, Group
from benchmarks.ablations.cells import Result
from ssp_env.eval.stats import interval, paired

LAST_ROUNDS = 10
GAME = (
    "valid_rate",
    "solver_accuracy",
    "proposer_reward",
    "solver_searches",
    "zero_variance_share",
    "entropy/proposer",
    "entropy/solver",
)
"""Figures of the game that are reported for the last rounds, next to all of ``quality/`` and ``rejected/``."""

Line = Mapping[str, object]
Results = Mapping[str, Mapping[int, Result]]
"""Per arm and seed."""


def accuracy(line: Line, kinds: Sequence[str]) -> float:
    """Return the metric: the mean held-out accuracy over the kinds."""
    return fmean(float(str(line[f"held_out/{kind}"])) for kind in kinds)


def examined(result: Result, arm: Arm) -> Line:
    """Return the line of the evaluation that counts for an arm."""
    return next(line for line in result.lines if line["round"] == 0) if arm.at == "start" else result.lines[-1]


def group_figures(
    group: Group, arms: Mapping[str, Arm], results: Results, *, kinds: Sequence[str]
) -> dict[str, object]:
    """Return the figures of a card: per arm and per difference, each with its intervals."""
    scores = {
        name: {seed: accuracy(examined(r, arms[name]), kinds) for seed, r in results[name].items()}
        for name in group.arms
    }
    differences = {}
    for first, second in group.differences:
        found = paired(scores[first], scores[second])
        differences[f"{first} - {second}"] = {**rounded(asdict(found)), "established": found.off_zero()}
    return {
        "metric": f"mean greedy held-out accuracy over {', '.join(kinds)}, after the last round",
        "arms": {name: _arm_figures(arms[name], scores[name], results[name], kinds) for name in group.arms},
        "differences": differences,
    }


def _arm_figures(
    arm: Arm, scores: Mapping[int, float], results: Mapping[int, Result], kinds: Sequence[str]
) -> dict[str, object]:
    figures: dict[str, object] = {
        "accuracy": _spread([scores[seed] for seed in sorted(scores)]),
        "accuracy_by_seed": rounded({str(seed): scores[seed] for seed in sorted(scores)}),
    }
    own = [results[seed] for seed in sorted(results)]
    for kind in sorted({key for r in own for key in examined(r, arm) if key.startswith(("held_out/", "pass@"))}):
        figures[kind] = _spread([float(str(examined(r, arm)[kind])) for r in own])
    if arm.at == "start":
        return figures
    figures["seconds_per_round"] = round(fmean(r.wall_s / r.cell.n_rounds for r in own), 2)
    figures["cpu_seconds_per_round"] = round(fmean(r.cpu_s / r.cell.n_rounds for r in own), 2)
    figures["last_rounds"] = _last_rounds(own)
    figures["alarms_in_runs"] = _alarms(own)
    figures["curve"] = {
        str(number): _spread([accuracy(line, kinds) for line in lines]) for number, lines in evaluations(own).items()
    }
    figures["curve_by_seed"] = {
        str(r.cell.seed): {str(number): round(accuracy(line, kinds), 4) for number, (line,) in evaluations([r]).items()}
        for r in own
    }
    figures["game"] = {name: _binned(own, name) for name in ("solver_accuracy", "proposer_reward", "valid_rate")}
    return figures


def _last_rounds(results: Sequence[Result]) -> dict[str, object]:
    """Return the means over the last rounds of each run, with intervals over runs."""
    names = sorted({k for r in results for k in r.lines[-1] if k in GAME or k.startswith(("quality/", "rejected/"))})
    told: dict[str, object] = {}
    for name in names:
        per_run = [values for r in results if (values := _values(r.lines[-LAST_ROUNDS:], name))]
        if per_run:
            told[name] = _spread([fmean(values) for values in per_run])
    return told


def _alarms(results: Sequence[Result]) -> dict[str, int]:
    """Return in how many runs each alarm of collapse was raised."""
    raised = [
        {key.partition("/")[2] for line in r.lines for key in line if key.startswith("collapse/")} for r in results
    ]
    return {name: sum(name in run for run in raised) for name in sorted(set().union(*raised))}


def evaluations(results: Sequence[Result]) -> dict[int, list[Line]]:
    """Return by round the lines of all runs that hold an evaluation."""
    found: dict[int, list[Line]] = {}
    for r in results:
        for line in r.lines:
            if any(key.startswith("held_out/") for key in line):
                found.setdefault(int(str(line["round"])), []).append(line)
    return dict(sorted(found.items()))


def _binned(results: Sequence[Result], name: str) -> dict[str, float]:
    """Return the mean of a figure of the game over every ten rounds and all runs, by the last round of the ten."""
    bins: dict[int, list[float]] = {}
    for r in results:
        for line in r.lines:
            if line["round"] and (value := _values([line], name)):
                bins.setdefault(-(-int(str(line["round"])) // 10) * 10, []).extend(value)
    return {str(number): round(fmean(values), 4) for number, values in sorted(bins.items())}


def _values(lines: Sequence[Line], name: str) -> list[float]:
    return [float(str(line[name])) for line in lines if line.get(name) is not None]


def _spread(values: Sequence[float]) -> dict[str, object]:
    return rounded(asdict(interval(values)))


def rounded(figures: Mapping[str, object]) -> dict[str, object]:
    """Return the figures with numbers rounded to four places."""
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}


def draw(group: Group, arms: Mapping[str, Arm], results: Results, *, kinds: Sequence[str], path: Path) -> None:
    """Draw the accuracy of every arm with its seeds, and its curve over the rounds, as ``.png`` and ``.svg``."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = group.name
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for i, name in enumerate(group.arms):
        runs = [results[name][seed] for seed in sorted(results[name])]
        scores = [accuracy(examined(r, arms[name]), kinds) for r in runs]
        found = interval(scores)
        left.plot(scores, [i] * len(scores), "o", color=f"C{i}", alpha=0.4, markersize=5)
        left.errorbar(
            found.mean, i, xerr=[[found.mean - found.low], [found.high - found.mean]], fmt="|", color=f"C{i}", capsize=4
        )
        if arms[name].at == "end":
            curve = {n: interval([accuracy(x, kinds) for x in lines]) for n, lines in evaluations(runs).items()}
            rounds = list(curve)
            right.plot(rounds, [x.mean for x in curve.values()], color=f"C{i}", marker="o", markersize=3, label=name)
            right.fill_between(
                rounds, [x.low for x in curve.values()], [x.high for x in curve.values()], color=f"C{i}", alpha=0.15
            )
    left.set_yticks(range(len(group.arms)), group.arms)
    left.invert_yaxis()
    left.set(title=group.title, xlabel="held-out accuracy after the last round, 95 % interval over seeds")
    right.set(xlabel="round", ylabel="held-out accuracy")
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=120)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)
