"""Measures corpus building on a real dump cut: speed, memory as the input repeats, and recovery from ``kill -9``.

Every build is the real command in its own process. Speed is given per second of wall time and per second of processor
time of all processes together; on a busy machine only the latter says something. Repeats of the cut get new ids and
titles, so that nothing is dropped as a duplicate.
"""

from __future__ import annotations

import bz2
import hashlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from benchmarks.card import command_line, data_folder, write_card
from benchmarks.speed.processes import memory_mib

OUTPUTS = ("passages.jsonl", "pages.jsonl", "redirects.jsonl", "report.json", "manifest.json")
POLL_S = 0.02


@dataclass(frozen=True)
class Config:
    """Settings of the ingest benchmark."""

    dump: Path | None = None
    """A bzip2 dump; default: the one in raw/gensim of $SSP_DATA, or of ../shared/data beside the repository."""
    workers: int = 2
    """Processes of a build."""
    repeats: tuple[int, ...] = (1, 5, 20)
    """How often the dump is repeated for speed and memory."""
    kills: int = 10
    """Builds that are killed at a random moment, each followed by one that goes on."""
    seed: int = 0
    """Seed of the moments."""
    output: Path = Path("benchmarks/results/ingest.json")
    """The result card."""


def main(config: Config) -> None:
    """Run all three measurements and write the card."""
    source = config.dump or next((data_folder() / "raw" / "gensim").glob("*.bz2"))
    xml = bz2.decompress(source.read_bytes())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        speeds = [measure(_repeated(xml, n, folder), folder / f"c{n}", config.workers) for n in config.repeats]
        kills = kill_often(_repeated(xml, 2, folder), folder, config)
    figures = {"builds": dict(zip(map(str, config.repeats), speeds, strict=True)), "kills": kills}
    settings = {"dump": source.name, "xml_bytes": len(xml), "workers": config.workers}
    write_card(config.output, figures, command=command_line(), seeds=[config.seed], settings=settings)
    print(figures)


def measure(source: Path, out: Path, n_workers: int) -> dict[str, object]:
    """Build once; returns MB of XML a second, and the greatest resident size (MiB) of each process by role."""
    n_bytes = len(bz2.decompress(source.read_bytes()))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start_s = time.monotonic()
    process = _start(source, out, n_workers)
    peaks: dict[int, float] = {}
    load_1min = os.getloadavg()[0]
    while process.poll() is None:
        for pid in (process.pid, *_children(process.pid)):
            peaks[pid] = max(peaks.get(pid, 0.0), memory_mib("VmHWM", pid))
        time.sleep(POLL_S)
    wall_s = time.monotonic() - start_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    _require_done(process)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    main_mib = peaks.pop(process.pid, 0.0)
    return {
        "xml_mb": round(n_bytes / 1e6, 2),
        "wall_s": round(wall_s, 2),
        "cpu_s": round(cpu_s, 2),
        "mb_per_wall_s": round(n_bytes / 1e6 / wall_s, 2),
        "mb_per_cpu_s": round(n_bytes / 1e6 / cpu_s, 2),
        "load_1min_before": round(load_1min, 2),
        "peak_rss_main_mib": round(main_mib, 1),
        "peak_rss_worker_mib": round(max(peaks.values(), default=0.0), 1),
    }


def kill_often(source: Path, folder: Path, config: Config) -> dict[str, object]:
    """Kill builds at random moments and let another one go on; returns how many gave the bytes of an unbroken one."""
    start_s = time.monotonic()
    _build(source, folder / "whole", config.workers)
    whole_s = time.monotonic() - start_s
    expected = _digests(folder / "whole")
    rng = np.random.default_rng(config.seed)
    n_same = n_killed = 0
    n_shards: list[int] = []
    for number, moment in enumerate(rng.uniform(0.15, 0.98, size=config.kills)):
        out = folder / f"killed{number}"
        process = _start(source, out, config.workers)
        try:
            process.wait(timeout=whole_s * float(moment))
        except subprocess.TimeoutExpired:
            process.kill()
            n_killed += 1
        process.wait()
        n_shards.append(len(list(folder.glob(f".killed{number}.shards/*.json"))))
        _build(source, out, config.workers)
        n_same += _digests(out) == expected
    return {
        "n_builds": config.kills,
        "n_killed": n_killed,
        "n_identical": n_same,
        "shards_complete_at_the_kill": n_shards,
        "unbroken_wall_s": round(whole_s, 2),
    }


def _start(source: Path, out: Path, n_workers: int) -> subprocess.Popen[bytes]:
    arguments = ["corpus", "build", str(source), "--out", str(out), "--workers", str(n_workers)]
    command = [sys.executable, "-m", "ssp_env", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _build(source: Path, out: Path, n_workers: int) -> None:
    process = _start(source, out, n_workers)
    process.wait()
    _require_done(process)


def _require_done(process: subprocess.Popen[bytes]) -> None:
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)


def _repeated(xml: bytes, n_times: int, folder: Path) -> Path:
    """Write a dump that holds the pages of another one several times, under new ids and titles."""
    path = folder / f"repeated-{n_times}.xml.bz2"
    first, last = xml.index(b"<page>"), xml.rindex(b"</page>") + len(b"</page>")
    packer = bz2.BZ2Compressor()
    with open(path, "wb") as handle:
        handle.write(packer.compress(xml[:first]))
        for number in range(n_times):
            tag = str(number).encode()
            pages = re.sub(rb"(<title>)", rb"\g<1>" + tag + b" ", xml[first:last]) if number else xml[first:last]
            pages = re.sub(rb"(</ns>\s*<id>)", rb"\g<1>" + tag + b"0", pages) if number else pages
            handle.write(packer.compress(pages + b"\n"))
        handle.write(packer.compress(b"</mediawiki>\n") + packer.flush())
    return path


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in OUTPUTS}


if __name__ == "__main__":
    main(tyro.cli(Config))
