"""What a run shows: a bar with the time left, one line a round, curves, and a table at the end; and Ctrl-C."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from tqdm import tqdm

Line = Mapping[str, object]


class Progress:
    """The screen of a run; as a context it also catches Ctrl-C.

    The first Ctrl-C sets ``interrupted``: the round is finished and a checkpoint written. The second one ends at once.
    """

    def __init__(self, n_rounds: int, *, done: int = 0) -> None:
        """Show rounds ``done`` to ``n_rounds``."""
        self.interrupted = False
        self._n_rounds = n_rounds
        self._bar = tqdm(total=n_rounds, initial=done, unit="round", disable=not sys.stderr.isatty(), smoothing=0.1)
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        """Catch Ctrl-C and the signal of ``kill``."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the bar and catch signals no longer."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._bar.close()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        tqdm.write(text, file=sys.stdout)
        sys.stdout.flush()

    def show(self, line: Line) -> None:
        """Show one line of ``metrics.jsonl`` and move the bar."""
        self.say(f"{line['round']:>4}/{self._n_rounds}  {round_text(line)}")
        if line["round"]:
            self._bar.update()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self.say("Stopping after this round; once more to stop at once (the last checkpoint stays).")


def round_text(line: Line) -> str:
    """Return one line of ``metrics.jsonl`` in words."""
    parts = []
    if "valid_rate" in line:
        reasons = {
            str(key).partition("/")[2]: int(float(str(n)))
            for key, n in line.items()
            if n and str(key).startswith("rejected/")
        }
        listed = ", ".join(f"{name} {n}" for name, n in sorted(reasons.items(), key=lambda item: -item[1]))
        parts += [
            f"valid {_percent(line['valid_rate'])}{f' ({listed})' if listed else ''}",
            f"solver {_percent(line.get('solver_accuracy'))}",
            f"proposer {_number(line.get('proposer_reward'))}",
            f"searches {_number(line.get('proposer_searches'))}/{_number(line.get('solver_searches'))}",
        ]
    if kinds := held_out(line):
        parts.append("held-out " + " ".join(f"{kind} {_percent(share)}" for kind, share in kinds.items()))
    return "  ".join(parts)


def held_out(line: Line) -> dict[str, float]:
    """Return the held-out accuracy by kind of one line."""
    return {
        str(key).partition("/")[2]: float(str(share)) for key, share in line.items() if str(key).startswith("held_out/")
    }


def summary(lines: Sequence[Line]) -> str:
    """Return a table of held-out accuracy by kind, before and after; empty without two evaluations."""
    evaluated = [line for line in lines if held_out(line)]
    if len(evaluated) < 2:
        return ""
    first, last = evaluated[0], evaluated[-1]
    before, after = held_out(first), held_out(last)
    heads = (f"round {first['round']}", f"round {last['round']}")
    rows = [f"{'held-out':<14}{heads[0]:>12}{heads[1]:>12}{'change':>10}"]
    rows += [
        f"{kind:<14}{_percent(share):>12}{_percent(after[kind]):>12}{100 * (after[kind] - share):>+9.0f}%"
        for kind, share in before.items()
        if kind in after
    ]
    return "\n".join(rows)


def draw_curves(lines: Sequence[Line], path: Path) -> None:
    """Write a picture of the held-out accuracy and of the game's figures over the rounds."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    evaluated = [line for line in lines if held_out(line)]
    for kind in held_out(evaluated[0]) if evaluated else ():
        points: list[tuple[object, object]] = [
            (line["round"], held_out(line)[kind]) for line in evaluated if kind in held_out(line)
        ]
        left.plot(*zip(*points, strict=True), marker="o", markersize=3, label=kind)
    left.set(title="Held-out accuracy (greedy)", xlabel="round", ylim=(-0.02, 1.02))
    for key, label in (
        ("solver_accuracy", "solver accuracy in play"),
        ("proposer_reward", "proposer reward"),
        ("valid_rate", "valid proposals"),
    ):
        points = [(line["round"], line[key]) for line in lines if line.get(key) is not None]
        if points:
            right.plot(*zip(*points, strict=True), label=label, linewidth=1)
    right.set(title="Self-play", xlabel="round", ylim=(-0.02, 1.02))
    for axes in (left, right):
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    temporary = path.with_name(f".{path.name}")
    figure.savefig(temporary, format="png", dpi=120)
    pyplot.close(figure)
    temporary.replace(path)


def _percent(share: object) -> str:
    return "-" if share is None else f"{100 * float(str(share)):.0f}%"


def _number(value: object) -> str:
    return "-" if value is None else f"{float(str(value)):.2f}"
