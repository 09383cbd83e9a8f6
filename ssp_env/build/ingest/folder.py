"""From sources to a corpus folder, in parallel, in bounded memory, and resumable.

The folder holds ``passages.jsonl`` (opens with ``ssp_env.corpus``), ``pages.jsonl`` and ``redirects.jsonl`` (open with
``ssp_env.corpus``), ``report.json``, and a manifest that is written last. Sources are cut into chunks by their size
alone, each chunk becomes a shard in a hidden folder beside the corpus, and the shards are joined in order, so the
result is the same bytes for any number of workers and after any number of interruptions. The shards need as much disk
as the corpus until it is complete. Memory: per process at most a few chunks of 4 MiB and one line of 16 MiB, whatever
the size of the sources, and while joining about 40 bytes for each page and redirect.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TextIO, cast

from ssp_env.build.clock import Clock, Progress
from ssp_env.build.ingest.formats import FORMATS, check_format, detect_format
from ssp_env.build.ingest.merge import OnClash, merge_shards, report
from ssp_env.build.ingest.parts import CORPUS_VERSION, REPORT, Source
from ssp_env.build.ingest.shards import Job, shard_facts, write_shard
from ssp_env.errors import ConfigError, CorpusError, SSPError, StaleIndexError
from ssp_env.storage import ensure_folder, read_manifest, write_json


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a corpus is built."""

    format: str | None = None
    """Format of all sources by name; None tells it from each source's content."""
    n_workers: int = 2
    """Processes; 0 does all the work in this one."""
    n_words: int = 100
    """Words a passage, where passages are cut here."""
    on_clash: OnClash = "refuse"
    """What happens when two different pages share an id."""
    rebuild: bool = False
    """Whether a corpus made from something else is replaced."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.format is not None:
            check_format(self.format)
        if self.n_workers < 0 or self.n_words < 1:
            raise ConfigError(f"expected n_workers >= 0 and n_words >= 1, got {self!r}; change them")
        if self.on_clash not in ("refuse", "keep-first"):
            raise ConfigError(f"expected on_clash 'refuse' or 'keep-first', got {self.on_clash!r}; choose one")


DEFAULTS = BuildOptions()


def build_corpus(
    sources: Sequence[Path], out: Path, *, options: BuildOptions = DEFAULTS, progress: TextIO | None = None
) -> dict[str, object]:
    """Build a corpus folder, or return the report of the one that is already there, made from the same sources.

    Raises:
        CorpusError: If a source is broken, of no known format, changes meanwhile or has nothing usable, or ids clash.
        StaleIndexError: If ``out`` is in use for something else.
        ConfigError: If ``out`` is not writable.
        ImportError: If a format needs a package that is missing; the message names the extra.
    """
    if not sources:
        raise CorpusError("expected at least one source, got none; pass their paths")
    out = Path(out).absolute()
    known = [_describe(Path(path), options.format) for path in sources]
    expected: dict[str, object] = {
        "kind": "corpus",
        "version": CORPUS_VERSION,
        "n_words": options.n_words,
        "sources": [
            {"name": source.path.name, "format": source.format, "n_bytes": source.n_bytes, "state": source.state}
            for source in known
        ],
    }
    _require_free(out)
    shards = out.with_name(f".{out.name}.shards")

    def build(folder: Path) -> Mapping[str, object]:
        origins = _write_shards(known, _claim(shards, expected), options=options, progress=progress)
        if [_describe(source.path, source.format) for source in known] != known:
            raise CorpusError("expected sources at rest, got a change while they were read; run again")
        names = [known[origin].path.name for origin in origins]
        merged = merge_shards(shards, names, into=folder, on_clash=options.on_clash)
        write_json(folder / REPORT, report(known, shards, origins, merged=merged))
        return {"counts": dict(merged.counts)}

    ensure_folder(
        out,
        {**expected, "on_clash": options.on_clash},
        build=build,
        on_mismatch="replace" if options.rebuild else "refuse",
        remedy="name another --out",
    )
    shutil.rmtree(shards, ignore_errors=True)
    return cast(dict[str, object], json.loads((out / REPORT).read_text(encoding="utf-8")))


def _describe(path: Path, format_name: str | None) -> Source:
    if not path.exists():
        raise CorpusError(f"expected a source, got {str(path)!r}, which does not exist; check the path")
    name = format_name or detect_format(path)
    if path.is_dir() != (name == "text"):
        raise CorpusError(
            f"expected a {'folder' if name == 'text' else 'file'} for format {name!r}, got {path}; fix it"
        )
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    states = [(file.relative_to(path).as_posix(), file.stat()) for file in files]
    digest = blake2b(repr([(n, s.st_size, s.st_mtime_ns) for n, s in states]).encode("utf-8", "replace"), digest_size=8)
    return Source(path, name, sum(status.st_size for _, status in states), digest.hexdigest())


def _require_free(out: Path) -> None:
    """Refuse a place where something lies that no complete corpus explains: it would be replaced."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and read_manifest(out) is None)):
        raise StaleIndexError(f"expected a new folder or a complete corpus, got {out} with other content; name another")


def _claim(shards: Path, expected: Mapping[str, object]) -> Path:
    """Return the folder of shards, emptied unless they belong to the same sources and options."""
    plan = shards / "plan.json"
    try:
        is_ours = json.loads(plan.read_text(encoding="utf-8")) == expected
    except (FileNotFoundError, ValueError):
        is_ours = False
    if not is_ours:
        shutil.rmtree(shards, ignore_errors=True)
        shards.mkdir(parents=True)
        write_json(plan, expected)
    return shards


def _write_shards(
    known: Sequence[Source], shards: Path, *, options: BuildOptions, progress: TextIO | None
) -> list[int]:
    """Write the shards that are missing; return which source each shard is from."""
    clock = Clock(sum(source.n_bytes for source in known), "MB", scale=1e6)
    meter = Progress("corpus build", clock, progress)
    origins: list[int] = []

    def missing() -> Iterator[Job]:
        for origin, source in enumerate(known):
            for chunk in FORMATS[source.format].plan(source.path):
                number = len(origins)
                origins.append(origin)
                if shard_facts(shards, number) is None:
                    yield Job(chunk, FORMATS[source.format].read, shards, number, options.n_words)
                else:
                    clock.count(chunk.n_bytes, is_new=False)

    for job in _finished(missing(), options.n_workers):
        clock.count(job.chunk.n_bytes, is_new=True)
        meter.step()
    meter.close()
    return origins


def _finished(jobs: Iterator[Job], n_workers: int) -> Iterator[Job]:
    if n_workers == 0:
        for job in jobs:
            write_shard(job)
            yield job
        return
    with Workers(n_workers) as workers:
        yield from workers.run(jobs)


class Workers:
    """Processes that write shards, and end when the process that started them is gone; a context manager.

    ``concurrent.futures`` would leave its workers waiting for ever after a ``kill -9`` of their parent, because each
    of them holds the writing end of the queue that it reads. Here every worker has a pipe of its own.
    """

    def __init__(self, n_workers: int) -> None:
        """Start the processes."""
        context = multiprocessing.get_context("spawn")
        self._running: dict[Connection, SpawnProcess] = {}
        for _ in range(n_workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._running[ours] = process
        self._idle = list(self._running)
        self._busy: dict[Connection, Job] = {}

    def __enter__(self) -> Workers:
        """Return the pool itself."""
        return self

    def __exit__(self, *exc: object) -> None:
        """End the processes at once."""
        for connection, process in self._running.items():
            connection.close()
            process.terminate()
        for process in self._running.values():
            process.join()

    def run(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Yield jobs as they are finished, in any order; at most one job a worker is held.

        Raises:
            SSPError: What a job raised, or that a worker died.
        """
        for job in jobs:
            while not self._idle:
                yield from self._collect()
            connection = self._idle.pop()
            try:
                connection.send(job)
            except OSError as error:
                raise self._death(connection, job) from error
            self._busy[connection] = job
            yield from self._collect(timeout_s=0)
        while self._busy:
            yield from self._collect()

    def _collect(self, timeout_s: float | None = None) -> Iterator[Job]:
        for ready in wait(list(self._busy), timeout_s):
            connection = next(c for c in self._busy if c is ready)
            job = self._busy.pop(connection)
            try:
                error = connection.recv()
            except EOFError as gone:
                raise self._death(connection, job) from gone
            if error is not None:
                raise error
            self._idle.append(connection)
            yield job

    def _death(self, connection: Connection, job: Job) -> SSPError:
        process = self._running[connection]
        process.join()
        where = f"chunk {job.number} of {job.chunk.path}"
        return SSPError(
            f"expected a worker to finish {where}, got its death (exit code {process.exitcode}), often for want of "
            "memory; run again, with fewer workers: finished chunks are kept"
        )


def _serve(connection: Connection) -> None:
    """Work off jobs until the other end is closed."""
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        answer: Exception | None = None
        try:
            write_shard(job)
        except Exception as error:  # noqa: BLE001 - reported to the parent, which raises it
            answer = error
        try:
            connection.send(answer)
        except OSError:
            return
