"""A run on disk: configuration, logs, checkpoints; readable at any moment, whole after a kill at any moment.

::

    config.json          the resolved configuration, written first
    metrics.jsonl        one line a round: game, update, evaluation (line 0: before training)
    rounds.jsonl         one line per game, whole: searches, passages, question, gate, solves, rewards
    curves.png           the metrics as a picture
    checkpoints/round-000020/   model, tokenizer, optimiser, random states, and state.json
    checkpoints.json     which of these is the last one, and which the best

A checkpoint is written under another name and renamed when it is whole. It knows how long the logs were; a resumed run
cuts them back to that length, so that every round is in them once. One process at a time may use a folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from ssp_env.errors import RunError
from ssp_env.storage import file_sizes, is_whole, write_json

LOGS = ("metrics.jsonl", "rounds.jsonl")
STATE = "state.json"
INDEX = "checkpoints.json"
"""It also tells a run that has made a checkpoint, and must not start over when that is gone, from one killed before."""
_REMEDY = "restore it, remove the folder to start again, or name another --out"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: its folder, the rounds played until then, and the driver's own state."""

    path: Path
    round: int
    state: Mapping[str, object]


class RunFolder:
    """The folder of one run, locked while it is open."""

    def __init__(self, path: Path, lock: IO[str], checkpoint: Checkpoint | None) -> None:
        """Use ``create`` or ``reopen``."""
        self.path = path
        self.checkpoint = checkpoint
        self._lock = lock

    @classmethod
    def create(cls, path: Path, config: Mapping[str, object]) -> Self:
        """Start a new run.

        Raises:
            RunError: If the folder holds a run or anything else, another process uses it, or it cannot be made.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            got = f"{str(path)!r} ({error.strerror})"
            raise RunError(f"expected a folder for the run, got {got}; name another --out") from error
        with _locked(path) as lock:
            if (path / "config.json").exists():
                raise RunError(
                    f"expected a new folder, got the run in {path}; add --resume to continue it, or name another --out"
                )
            foreign = sorted(p.name for p in path.iterdir() if not p.name.startswith("."))
            if foreign:
                raise RunError(f"expected an empty folder, got {foreign[:3]} in {path}; name another --out")
            write_json(path / "config.json", config)
            folder = cls(path, lock, None)
            folder._rewind(dict.fromkeys(LOGS, 0))
        return folder

    @classmethod
    def reopen(cls, path: Path, config: Mapping[str, object], *, may_change: Iterable[str] = ()) -> Self:
        """Continue a run from its last complete checkpoint, or from the start when there is none.

        Raises:
            RunError: If there is no run, it was made by another configuration, or its files were changed.
        """
        saved = read_config(path)
        with _locked(path) as lock:
            before, now = flat(saved), flat(config)
            changed = sorted(key for key in {*before, *now} - {*may_change} if before.get(key) != now.get(key))
            if changed:
                raise RunError(
                    f"expected the configuration of the run in {path}, got other values of {changed}; "
                    "leave these flags out, or name another --out"
                )
            last = _last_checkpoint(path)
            lengths = dict(last.state["logs"]) if last else dict.fromkeys(LOGS, 0)  # type: ignore[call-overload]
            for log in LOGS:
                _require_log(path / log, lengths[log])
            _metrics(path / LOGS[0], lengths[LOGS[0]])
            write_json(path / "config.json", config)
            folder = cls(path, lock, last)
            folder._rewind(lengths)
        return folder

    @property
    def staging(self) -> Path:
        """Where a checkpoint is written before it is published."""
        return self.path / ".staging"

    @property
    def checkpoints(self) -> list[Path]:
        """The complete checkpoints, oldest first."""
        return sorted(p for p in (self.path / "checkpoints").glob("round-*") if read_checkpoint(p))

    def last_before(self, round_number: int) -> Path | None:
        """Return the last complete checkpoint made before a round."""
        limit = self.of_round(round_number)
        return next((path for path in reversed(self.checkpoints) if path < limit), None)

    @property
    def round(self) -> int:
        """Rounds played until the last checkpoint."""
        return self.checkpoint.round if self.checkpoint else 0

    def __enter__(self) -> Self:
        """Use the folder for the length of a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what only an open run needs, and let other processes use the folder."""
        shutil.rmtree(self.staging, ignore_errors=True)
        _unlock(self.path, self._lock)

    def append(self, log: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Append rows to a log, one JSON object a line."""
        with open(self.path / log, "a", encoding="utf-8", errors="replace") as file:
            file.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)

    def metrics(self) -> list[dict[str, object]]:
        """Return the lines of ``metrics.jsonl``.

        Raises:
            RunError: If a line is damaged.
        """
        return _metrics(self.path / LOGS[0])

    def publish(
        self,
        written: Path,
        round_number: int,
        state: Mapping[str, object],
        *,
        keep: int,
        good_before: int | None = None,
        best: int | None = None,
    ) -> Path:
        """Complete a freshly written checkpoint, move it to its place and drop all but the last ``keep``.

        The one of round ``best``, and the last one made before round ``good_before``, are not dropped.
        """
        lengths = {log: (self.path / log).stat().st_size for log in LOGS}
        write_json(written / STATE, {**state, "round": round_number, "logs": lengths, "files": file_sizes(written)})
        place = self.of_round(round_number)
        place.parent.mkdir(exist_ok=True)
        if place.exists():
            shutil.rmtree(place)
        os.rename(written, place)
        made = self.checkpoints
        first = self.of_round(best) if best is not None else None
        named = {"last": place, "best": first if first in made else None}
        write_json(self.path / INDEX, {k: p and p.relative_to(self.path).as_posix() for k, p in named.items()})
        good = self.last_before(good_before) if good_before is not None else None
        for old in made[:-keep]:
            if old not in (good, first):
                shutil.rmtree(old)
        return place

    def of_round(self, round_number: int) -> Path:
        """Return where the checkpoint of a round is, if there is one."""
        return self.path / "checkpoints" / f"round-{round_number:06d}"

    def _rewind(self, lengths: Mapping[str, int]) -> None:
        """Remove what a killed process left, and cut the logs to where the checkpoint was made."""
        if self.staging.is_file() or self.staging.is_symlink():
            self.staging.unlink()
        shutil.rmtree(self.staging, ignore_errors=True)
        self.staging.mkdir()
        for log in LOGS:
            (self.path / log).touch()
            os.truncate(self.path / log, lengths[log])


def read_config(path: Path) -> dict[str, object]:
    """Return the saved configuration of a run.

    Raises:
        RunError: If there is none, or it is damaged.
    """
    file = path / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(f"expected a run in {path}, got no config.json; start it without --resume") from error
    except (OSError, ValueError) as error:
        got = f"{type(error).__name__}: {error}"
        raise RunError(f"expected a readable {file}, got {got}; {_REMEDY}") from error
    if not isinstance(config, dict):
        raise RunError(f"expected a JSON object in {file}, got {type(config).__name__}; {_REMEDY}")
    return config


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Return a checkpoint, or None when a file of it is missing or cut."""
    try:
        state: dict[str, object] = json.loads((path / STATE).read_text(encoding="utf-8"))
        number = int(state["round"])  # type: ignore[call-overload]
        lengths = [int(state["logs"][log]) for log in LOGS]  # type: ignore[index]
        whole = min(lengths) >= 0 and is_whole(path, state["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Checkpoint(path, number, state) if whole else None


def flat(config: Mapping[str, object]) -> dict[str, object]:
    """Return settings by the names of their flags: ``{"eval": {"every": 5}}`` is ``{"eval.every": 5}``."""
    names: dict[str, object] = {}
    for name, value in config.items():
        names |= {f"{name}.{own}": v for own, v in value.items()} if isinstance(value, Mapping) else {name: value}
    return names


def _require_log(file: Path, length: int) -> None:
    """Refuse a log that is no file, or shorter than it was when the checkpoint was made."""
    size = file.stat().st_size if file.exists() else 0
    if file.is_dir() or size < length:
        got = "a folder" if file.is_dir() else size
        raise RunError(f"expected at least {length} bytes in {file}, got {got}: it was changed; {_REMEDY}")


def _metrics(file: Path, length: int | None = None) -> list[dict[str, object]]:
    """Return the lines of a file of metrics, or those of its first ``length`` bytes."""
    content = b"" if length == 0 else file.read_bytes()[:length]
    return [_metrics_line(line, f"{file}:{number}") for number, line in enumerate(content.splitlines(), start=1)]


def _metrics_line(line: bytes, where: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or type(row.get("round")) is not int:
        raise RunError(f"{where}: expected a JSON object with the number of a round, got {line[:60]!r}; {_REMEDY}")
    return row


def _last_checkpoint(path: Path) -> Checkpoint | None:
    """Return the last whole checkpoint, or None when none was made; if all are damaged or gone, that is an error."""
    places = sorted((path / "checkpoints").glob("round-*"))
    last = next((checkpoint for p in reversed(places) if (checkpoint := read_checkpoint(p))), None)
    if last is None and (places or (path / INDEX).exists()):
        got = f"damaged ones only ({[p.name for p in places]})" if places else "none: they were removed"
        raise RunError(
            f"expected a whole checkpoint in {path / 'checkpoints'}, got {got}; restore one, remove {path} to start "
            "again, or name another --out"
        )
    return last


@contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    """Take the lock of a folder; it is let go when the block fails, and else by whoever got it."""
    try:
        lock = open(path / ".lock", "w", encoding="utf-8")
    except OSError as error:
        got = f"{str(path)!r} ({error.strerror})"
        raise RunError(f"expected a folder that may be written to, got {got}; name another --out") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its last holder may have removed the file after it was opened here: then this lock keeps nobody out.
        if not os.path.samestat(os.fstat(lock.fileno()), os.stat(path / ".lock")):
            raise FileNotFoundError
    except (BlockingIOError, FileNotFoundError) as error:
        lock.close()
        raise RunError(
            f"expected a run that no process uses, got {path}; wait for the other, or name another --out"
        ) from error
    try:
        yield lock
    except BaseException:
        _unlock(path, lock)
        raise


def _unlock(path: Path, lock: IO[str]) -> None:
    if not lock.closed:
        (path / ".lock").unlink(missing_ok=True)
        lock.close()
