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
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TextIO, cast

from ssp_env.build.ingest.formats import FORMATS, check_format, detect_format
from ssp_env.build.ingest.merge import Merged, OnClash, merge_shards
from ssp_env.build.ingest.meter import Progress
from ssp_env.build.ingest.shards import MAX_EXAMPLES, Job, shard_facts, write_shard
from ssp_env.build.ingest.workers import Workers
from ssp_env.errors import ConfigError, CorpusError, StaleIndexError
from ssp_env.storage import ensure_folder, read_manifest, write_json

CORPUS_VERSION = 1
"""Part of every manifest; a change to what the files hold raises it."""
REPORT = "report.json"


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


@dataclass(frozen=True, slots=True)
class _Source:
    path: Path
    format: str
    n_bytes: int
    state: str
    """Digest of sizes and modification times."""

    def facts(self) -> dict[str, object]:
        return {"name": self.path.name, "format": self.format, "n_bytes": self.n_bytes, "state": self.state}


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
        "sources": [source.facts() for source in known],
    }
    _require_free(out)
    shards = out.with_name(f".{out.name}.shards")

    def build(folder: Path) -> Mapping[str, object]:
        origins = _write_shards(known, _claim(shards, expected), options=options, progress=progress)
        if [_describe(source.path, source.format) for source in known] != known:
            raise CorpusError("expected sources at rest, got a change while they were read; run again")
        names = [known[origin].path.name for origin in origins]
        merged = merge_shards(shards, names, into=folder, on_clash=options.on_clash)
        write_json(folder / REPORT, _report(known, shards, origins, merged=merged))
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


def _describe(path: Path, format_name: str | None) -> _Source:
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
    return _Source(path, name, sum(status.st_size for _, status in states), digest.hexdigest())


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
    known: Sequence[_Source], shards: Path, *, options: BuildOptions, progress: TextIO | None
) -> list[int]:
    """Write the shards that are missing; return which source each shard is from."""
    meter = Progress("corpus build", sum(source.n_bytes for source in known), stream=progress)
    origins: list[int] = []

    def missing() -> Iterator[Job]:
        for origin, source in enumerate(known):
            for chunk in FORMATS[source.format].plan(source.path):
                number = len(origins)
                origins.append(origin)
                if shard_facts(shards, number) is None:
                    yield Job(chunk, source.format, shards, number, options.n_words)
                else:
                    meter.skip(chunk.n_bytes)

    for job in _finished(missing(), options.n_workers):
        meter.add(job.chunk.n_bytes)
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


def _report(known: Sequence[_Source], shards: Path, origins: Sequence[int], *, merged: Merged) -> dict[str, object]:
    """Return counts, what was skipped with examples, and what was removed; refuse a source that gave nothing."""
    removed: Counter[str] = Counter()
    skipped: dict[str, _Skipped] = {}
    is_useful = [False] * len(known)
    for number, origin in enumerate(origins):
        facts = shard_facts(shards, number)
        if facts is None:
            raise CorpusError(f"expected whole shards in {shards}, got shard {number} damaged; run again")
        removed.update(cast(dict[str, int], facts["removed"]))
        is_useful[origin] |= any(cast(list[int], facts["sizes"]))
        for reason, (count, found) in cast(dict[str, tuple[int, list[tuple[int, str]]]], facts["skipped"]).items():
            skipped.setdefault(reason, _Skipped()).add(count, known[origin].path.name, found)
    listed = {
        reason: {"count": skipped[reason].count, "examples": skipped[reason].examples} for reason in sorted(skipped)
    }
    for source, useful in zip(known, is_useful, strict=True):
        if not useful or not merged.counts["passages"]:
            raise CorpusError(
                f"expected at least one passage from {source.path}, got none; skipped: {listed}; leave it out"
            )
    return {
        "sources": [{"name": s.path.name, "format": s.format, "n_bytes": s.n_bytes} for s in known],
        "counts": dict(merged.counts),
        "skipped": listed,
        "duplicates": dict(merged.dropped),
        "removed": dict(sorted(removed.items())),
    }


@dataclass(slots=True)
class _Skipped:
    """How often something was skipped for one reason, and the places of the first few."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, count: int, name: str, found: Sequence[tuple[int, str]]) -> None:
        self.count += count
        self.examples += [f"{name}:{line}: {what}" if line else f"{name}: {what}" for line, what in found]
        del self.examples[MAX_EXAMPLES:]
