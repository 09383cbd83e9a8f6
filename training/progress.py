"""The screen of a run: what is being done, how far it is, the time that is left; and Ctrl-C.

On a terminal one line is drawn over and over, ``[####......] round 33/80  solving 96/160  about 2 min left``; elsewhere
the same is printed now and then. The times stay on the screen: nothing that is written down depends on them.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import FrameType, TracebackType
from typing import Literal, Self

from ssp_env.protocols import Agent, Reader
from ssp_env.types import Completion, Conversation, Reading, ReadingCase, Sampling
from training.display import Line, round_text

Phase = Literal["proposing", "checking", "solving", "updating", "examining"]
QUIET_S = 60.0
"""Seconds after which a line is printed where there is no terminal."""
N_TIMED = 10
"""Rounds whose mean length says how long the rest will take: as many as lie between two evaluations by default."""


class Progress:
    """The screen of a run; as a context it also catches Ctrl-C.

    The first Ctrl-C sets ``interrupted``: the round is finished and a checkpoint written. The second one ends at once.
    """

    def __init__(self, n_rounds: int, *, done: int = 0, now: Callable[[], float] = time.monotonic) -> None:
        """Show rounds ``done`` to ``n_rounds``; ``now`` tells the seconds."""
        self.interrupted = False
        self._n_rounds, self._done, self._now = n_rounds, done, now
        self._phase, self._total, self._open = "", 0, 0
        self._began = self._said = now()
        self._lengths: deque[float] = deque(maxlen=N_TIMED)
        self._live = sys.stderr.isatty()
        self._drawn = ""
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        """Catch Ctrl-C and the signal of ``kill``."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave a clean line and catch signals no longer."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._draw("")

    @property
    def width(self) -> int:
        """Columns that a line may fill."""
        return shutil.get_terminal_size((100, 24)).columns - 1

    def say(self, text: str) -> None:
        """Print lines above the one that is drawn."""
        drawn = self._drawn
        self._draw("")
        print(text, flush=True)
        self._said = self._now()
        self._draw(drawn)

    def show(self, line: Line) -> None:
        """Show one line of ``metrics.jsonl``: the end of a round, or of the evaluation before the first."""
        self._done = int(str(line["round"]))
        if self._done:
            self._lengths.append(self._now() - self._began)
        self._began, self._phase = self._now(), ""
        self._draw("")
        self.say(f"{self._done:>4}/{self._n_rounds}  {round_text(line)}")

    def at(self, phase: Phase, n_open: int = 0) -> None:
        """Say what goes on, with ``n_open`` games left of a batch; more of them than before are a new batch."""
        if phase != self._phase or n_open > self._open:
            self._total = n_open
        self._phase, self._open = phase, n_open
        text = f"{phase} {self._total - n_open}/{self._total}" if self._total else phase
        if (left := self.seconds_left()) is not None:
            text += f"  about {duration(left)} left"
        if self._live:
            tenths = 10 * self._done // self._n_rounds
            number = min(self._done + 1, self._n_rounds)
            self._draw(f"[{'#' * tenths:.<10}] round {number}/{self._n_rounds}  {text}")
        elif self._now() - self._said >= QUIET_S:
            self.say(f"{self._done:>4}/{self._n_rounds}  {text}")

    def seconds_left(self) -> float | None:
        """Return the seconds until the last round is over; None before the first round has been timed."""
        if not self._lengths:
            return None
        return max(0.0, fmean(self._lengths) * (self._n_rounds - self._done) - (self._now() - self._began))

    def watched(self, agent: Agent, phase: Phase) -> Agent:
        """Return an agent that plays the same and shows how many of its conversations have ended."""
        return _WatchedAgent(agent, phase, self.at)

    def watched_reader(self, reader: Reader) -> Reader:
        """Return a reader that reads the same and shows that questions are being checked."""
        return _WatchedReader(reader, self.at)

    def _draw(self, text: str) -> None:
        """Put a text in the place of the drawn one."""
        if self._live:
            text = text[: self.width]
            sys.stderr.write(f"\r{text:<{len(self._drawn)}}" + ("" if text else "\r"))
            sys.stderr.flush()
            self._drawn = text

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self.say("Stopping after this round; once more to stop at once (the last checkpoint stays).")


@dataclass(frozen=True, slots=True)
class _WatchedAgent:
    agent: Agent
    phase: Phase
    at: Callable[[Phase, int], None]

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        self.at(self.phase, len(conversations))  # those of a batch that have ended are not asked again
        return self.agent.complete(conversations, sampling=sampling)


@dataclass(frozen=True, slots=True)
class _WatchedReader:
    reader: Reader
    at: Callable[[Phase], None]

    def read(self, cases: Sequence[ReadingCase]) -> list[Reading]:
        self.at("checking")
        return self.reader.read(cases)


def duration(seconds: float) -> str:
    """Return a time as a person says it: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
