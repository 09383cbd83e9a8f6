"""What a run tells a person: a round in a line, one of its games, a table at the end, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ssp_env.types import Round, Trajectory
from training.evaluate import MEAN_KINDS, best_round, held_out, mean_accuracy

Line = Mapping[str, object]
LEGEND = (
    "Each line is a round: questions that are valid (and why others were rejected), correct answers of the solver,\n"
    "mean reward of the proposer, mean searches of a proposer / a solver."
)


def round_text(line: Line) -> str:
    """Return one line of ``metrics.jsonl`` in words; an evaluation stands on a line of its own."""
    parts = []
    if "valid_rate" in line:
        counts = {key.partition("/")[2]: _whole(n) for key, n in line.items() if n and key.startswith("rejected/")}
        listed = ", ".join(f"{name} {n}" for name, n in sorted(counts.items(), key=lambda item: -item[1]))
        parts += [
            f"valid {_percent(line['valid_rate'])}{f' ({listed})' if listed else ''}",
            f"solver {_percent(line.get('solver_accuracy'))}",
            f"proposer {_number(line.get('proposer_reward'))}",
            f"searches {_number(line.get('proposer_searches'))}/{_number(line.get('solver_searches'))}",
        ]
    told = ["  ".join(parts)] if parts else []
    if kinds := held_out(line):
        by_kind = ", ".join(f"{kind} {_percent(share)}" for kind, share in kinds.items())
        told.append(f"held-out {_percent(mean_accuracy(line))} on average: {by_kind}")
    return "\n           ".join(told)


def sample_game(played: Sequence[Round]) -> Round | None:
    """Return a game worth showing: accepted, and solved by some and not by all if there is such a one."""
    accepted = [r for r in played if r.validation.ok and r.solves]
    mixed = [r for r in accepted if r.success_rate not in (None, 0.0, 1.0)]
    return next(iter(mixed or accepted or played), None)


def game_text(played: Round, *, width: int) -> str:
    """Return a game in a few lines of plain text, each cut to the width."""
    validation = played.validation
    verdict = "accepted" if validation.ok else f"rejected: {validation.reason}"
    if validation.readings:
        verdict += f'; the reader answered "{validation.response}"'
    pairs = [
        ("answer", f"{played.answer.text} (searches demanded: {played.answer.n_searches})"),
        ("proposer", _searches(played.proposal)),
        ("question", played.proposal.final or "none"),
        ("gate", verdict),
    ]
    if validation.ok and played.solves:
        solve, judged = played.solves[0], played.verdicts[0]
        pairs.append(("solver", f'{_searches(solve)}; answered "{solve.final or ""}": {judged.label}'))
        share = f" ({_percent(played.success_rate)} of {len(played.solves)} solves are correct)"
        pairs.append(("rewards", f"solver {_number(solve.reward)}, proposer {_number(played.proposer_reward)}{share}"))
    else:
        pairs.append(("rewards", f"proposer {_number(played.proposer_reward)}"))
    return "\n".join(_cut(f"    {name:<9} {text}", width) for name, text in pairs)


def _searches(trajectory: Trajectory) -> str:
    return "searched " + ", ".join(f'"{query}"' for query in trajectory.queries) if trajectory.queries else "no search"


def _cut(text: str, width: int) -> str:
    """Return a text of a model as one line that cannot move a terminal's cursor."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= width else plain[: width - 3] + "..."


def summary(lines: Sequence[Line]) -> str:
    """Return a table of held-out accuracy by kind, before, after and in the best round; empty before training."""
    examined = [line for line in lines if held_out(line)]
    if len(examined) < 2:
        return ""
    best = next(line for line in examined if line["round"] == best_round(lines))
    before, after = examined[0], examined[-1]
    columns = [before, after, best]
    heads = [f"round {line['round']}" for line in (before, after)]
    rows: list[tuple[str, ...]] = [("held-out", *heads, "change", f"best: {best['round']}")]
    counted, every = _mean_kinds(before), list(held_out(before))
    by_kind = {kind: (kind, *_compared([held_out(line).get(kind) for line in columns])) for kind in every}
    rows += [by_kind.pop(kind) for kind in counted]
    rows += [("mean", *_compared([mean_accuracy(line) for line in columns])), *by_kind.values()]
    table = [f"{row[0]:<14}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows]
    note = "Change in percentage points. The mean is that of the kinds above it, each counting the same.\n"
    note += "The best round was chosen by these questions, which flatters it a little."
    return "\n".join([*table, note])


def _compared(shares: Sequence[float | None]) -> tuple[str, ...]:
    """Return the cells of a row: before, after, change, best."""
    before, after, best = shares
    change = "-" if before is None or after is None else f"{100 * (after - before):+.1f}"
    return _percent(before), _percent(after), change, _percent(best)


def advice(lines: Sequence[Line]) -> str:
    """Return what may be tried after a run; empty while there is nothing to compare."""
    means = [mean for line in lines if (mean := mean_accuracy(line)) is not None]
    if not means:
        return "Give held-out questions (--eval.tasks) to see whether the policy improves."
    if len(means) == 1:
        return ""
    before, after, best = means[0], means[-1], max(means[1:])
    if best <= before:
        return "No round beat the start: try more rounds, answers that demand fewer searches, or another learning rate."
    if after < best - 0.02:
        return "The best round beats the last one: use its checkpoint, or try a lower learning rate."
    return "The last round is the best or close to it: more rounds may help; another --seed shows how far luck goes."


def draw_curves(lines: Sequence[Line], path: Path, *, title: str = "") -> None:
    """Write a picture of the held-out accuracy and of the game's figures over the rounds."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    examined = [line for line in lines if held_out(line)]
    for kind in held_out(examined[0]) if examined else ():
        points: list[tuple[object, object]] = [
            (line["round"], 100 * held_out(line)[kind]) for line in examined if kind in held_out(line)
        ]
        style = "-" if kind in _mean_kinds(examined[0]) else ":"
        left.plot(*zip(*points, strict=True), style, marker="o", markersize=3, linewidth=1, label=kind)
    if examined:
        means = [(line["round"], 100 * (mean_accuracy(line) or 0.0)) for line in examined]
        left.plot(*zip(*means, strict=True), color="black", linewidth=2.5, label="mean of the solid ones")
    if (best := best_round(lines)) is not None:
        left.axvline(best, color="grey", linestyle="--", linewidth=1, label=f"best: round {best}")
    left.set(title="Questions it was never trained on, answered greedily", ylabel="correct answers (%)")
    for key, label in (
        ("solver_accuracy", "correct solves"),
        ("valid_rate", "valid questions"),
        ("proposer_reward", "proposer reward"),
    ):
        points = [(line["round"], line[key]) for line in lines if line.get(key) is not None]
        if points:
            right.plot(*zip(*points, strict=True), label=label, linewidth=1)
    right.set(title="Self-play", ylabel="share, or mean reward (0 to 1)")
    for axes, top in ((left, 100), (right, 1)):
        axes.set(xlabel="round", ylim=(-0.02 * top, 1.02 * top))
        axes.title.set_fontsize(10)
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, frameon=False)
    figure.suptitle(title, fontsize=10)
    temporary = path.with_name(f".{path.name}")
    figure.savefig(temporary, format="png", dpi=120)
    pyplot.close(figure)
    temporary.replace(path)


def _mean_kinds(line: Line) -> list[str]:
    kinds = list(held_out(line))
    return [kind for kind in kinds if kind in MEAN_KINDS] or kinds


def _percent(share: object) -> str:
    return "-" if share is None else f"{100 * float(str(share)):.0f}%"


def _number(value: object) -> str:
    return "-" if value is None else f"{float(str(value)):.2f}"


def _whole(value: object) -> int:
    return int(float(str(value)))
