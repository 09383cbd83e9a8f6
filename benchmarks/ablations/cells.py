"""Running cells: a few training processes at a time, each in a folder of its own, every one resumable.

``<work>/<key>/`` holds ``cell.json`` (the settings), ``run/`` (the run folder), ``log.txt``, ``attempts.jsonl``
(seconds, processor seconds and commit of each process) and, once the run is complete, ``done.json``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ablations.arms import Cell
from benchmarks.card import ROOT, commit
from ssp_env.errors import RunError
from ssp_env.storage import write_json

POLL_S = 0.2
TRAIN = ROOT / "training" / "run_ssp.py"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """A complete cell: its lines of ``metrics.jsonl``, its seconds and processor seconds, the commits it was run at."""

    cell: Cell
    lines: tuple[dict[str, object], ...]
    wall_s: float
    cpu_s: float
    commits: tuple[str, ...]


@dataclass(slots=True)
class _Running:
    cell: Cell
    process: subprocess.Popen[bytes]
    started: float
    commit: str
    cpu_s: float = 0.0

    def has_ended(self, flags: int = os.WNOHANG) -> bool:
        """Return whether the process has ended; if so, note its exit code and processor time."""
        if self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, flags)
            if not pid:
                return False
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s = usage.ru_utime + usage.ru_stime
        return True


def read_result(work: Path, cell: Cell) -> Result | None:
    """Return the result of a cell, or None while it is not complete.

    Raises:
        RunError: If its files are damaged, or of a version that noted less.
    """
    folder = work / cell.key
    if not (folder / "done.json").exists():
        return None
    try:
        lines = _lines(folder / "run" / "metrics.jsonl")
        if not is_complete(lines, cell.n_rounds):
            raise ValueError(f"metrics.jsonl without an evaluated round {cell.n_rounds} at its end")
        attempts = _lines(folder / "attempts.jsonl")
        commits = tuple(sorted({str(attempt["commit"]) for attempt in attempts}))
        wall_s, cpu_s = (sum(float(str(attempt[name])) for attempt in attempts) for name in ("wall_s", "cpu_s"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"expected a complete run in {folder}, got {error!r}; delete this folder to run it anew"
        ) from error
    return Result(cell, tuple(lines), wall_s, cpu_s, commits)


def run_cells(work: Path, cells: Sequence[Cell], *, n_processes: int, say: Say, script: Path = TRAIN) -> list[Cell]:
    """Run the cells that are not complete and return those that failed.

    Ctrl-C, and whatever else ends this, lets the runs write a checkpoint first.
    """
    waiting = [cell for cell in cells if read_result(work, cell) is None]
    finished = [r.wall_s for cell in cells if (r := read_result(work, cell)) is not None]
    running: list[_Running] = []
    failed: list[Cell] = []
    try:
        while waiting or running:
            while waiting and len(running) < n_processes:
                running.append(_start(work, waiting.pop(0), script))
            time.sleep(POLL_S)
            for ended in [r for r in running if r.has_ended()]:
                running.remove(ended)
                wall_s = time.monotonic() - ended.started
                if done := _end(work, ended, wall_s):
                    finished.append(wall_s)
                else:
                    failed.append(ended.cell)
                state = "done" if done else f"failed (see {work / ended.cell.key / 'log.txt'})"
                name = f"{ended.cell.key} seed {ended.cell.seed}"
                say(f"{name}: {state}; {_left(len(waiting), running, finished, n_processes)}")
    except KeyboardInterrupt:
        say("Stopping: each run finishes its round and keeps a checkpoint. Start again to go on.")
        raise
    finally:
        _stop(work, running)
    return failed


def _stop(work: Path, running: Sequence[_Running]) -> None:
    """Let all runs write a checkpoint, and note what they took; a second signal would lose that and is ignored."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for run in running:
            if not run.has_ended():
                os.kill(run.process.pid, signal.SIGINT)
        for run in running:
            run.has_ended(flags=0)
            _end(work, run, time.monotonic() - run.started)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_complete(lines: Sequence[Mapping[str, object]], n_rounds: int) -> bool:
    """Return whether these are lines of rounds, of which the last was played and examined."""
    if not lines or not all("round" in line for line in lines):
        return False
    return lines[-1]["round"] == n_rounds and any(key.startswith("held_out/") for key in lines[-1])


def _start(work: Path, cell: Cell, script: Path) -> _Running:
    folder = work / cell.key
    folder.mkdir(parents=True, exist_ok=True)
    again = (folder / "run" / "config.json").exists()
    write_json(folder / "cell.json", {"settings": dict(cell.settings)})
    command = [sys.executable, str(script), *cell.flags, "--out", str(folder / "run")]
    made_by = commit()  # before the start: a Ctrl-C after it must find the run among those that are stopped
    with open(folder / "log.txt", "ab") as log:
        process = subprocess.Popen(
            [*command, "--resume"] if again else command,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
    return _Running(cell, process, time.monotonic(), made_by)


def _end(work: Path, ended: _Running, wall_s: float) -> bool:
    """Note the attempt; return whether the cell is complete now."""
    folder = work / ended.cell.key
    with open(folder / "attempts.jsonl", "a", encoding="utf-8") as file:
        took = {"wall_s": round(wall_s, 1), "cpu_s": round(ended.cpu_s, 2)}
        attempt = {**took, "exit_code": ended.process.returncode, "commit": ended.commit}
        file.write(json.dumps(attempt) + "\n")
    if ended.process.returncode:
        return False
    try:
        lines = _lines(folder / "run" / "metrics.jsonl")
    except (OSError, ValueError):
        return False
    if done := is_complete(lines, ended.cell.n_rounds):
        write_json(folder / "done.json", {"round": ended.cell.n_rounds})
    return done


def _lines(path: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if wrong := [line for line in lines if not isinstance(line, dict)]:
        raise ValueError(f"a line with {wrong[0]!r} in {path.name}")
    return lines


def _left(n_waiting: int, running: Sequence[_Running], finished: Sequence[float], n: int) -> str:
    left = n_waiting + len(running)
    if not finished:
        return f"{left} left"
    mean_s = sum(finished) / len(finished)
    spent_s = sum(time.monotonic() - r.started for r in running)
    eta_min = max(left * mean_s - spent_s, 0.0) / n / 60
    return f"{left} left, about {eta_min:.0f} min ({mean_s / 60:.1f} min a cell, {n} at a time)"
