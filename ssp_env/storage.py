"""Saved folders that exist whole or not at all.

A folder is built under a temporary name beside its final one, gets its manifest last, and is then renamed. A folder
is complete when its manifest is there and every file the manifest lists has its recorded size; anything else is the
remains of a killed process. Builders take turns through a lock that the operating system frees when its holder dies.
What goes into a folder is its owner's business.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from ssp_env.errors import ConfigError, StaleIndexError

MANIFEST = "manifest.json"


def ensure_folder(
    folder: Path,
    expected: Mapping[str, object],
    *,
    build: Callable[[Path], Mapping[str, object]],
    on_mismatch: Literal["refuse", "replace"] = "refuse",
    remedy: str = "pass index_dir= or --index-dir",
) -> dict[str, object]:
    """Return the manifest of a complete folder, building the folder when it is missing or half-written.

    Args:
        folder: The final place. Its parents are made as needed.
        expected: What the manifest must say (JSON values) for the folder to be usable.
        build: Fills the empty folder it is given and returns further facts for the manifest.
        on_mismatch: Whether a complete folder that says something else is refused or built anew.
        remedy: What the caller's user can do where writing is not allowed.

    Raises:
        StaleIndexError: If the folder is complete but was made from something else, and ``on_mismatch`` is refuse.
        ConfigError: If the folder has to be built where writing is not allowed.
    """
    wanted = _plain(expected)
    manifest = find_folder(folder, wanted, on_mismatch=on_mismatch)
    if manifest is not None:
        return manifest
    _require_writable(folder, remedy)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = f"{str(folder.parent)!r} ({error.strerror})"
        raise ConfigError(f"expected a folder to write {folder.name} into, got {got}; {remedy}") from error
    with _locked(folder):
        manifest = read_manifest(folder)  # another process may have built it while this one waited
        if manifest is not None and _agrees(manifest, wanted):
            return manifest
        return _build(folder, wanted, build)


def table_folder(kind: str, files: Sequence[Path], *, beside: Path, index_dir: Path | None) -> Path:
    """Return where the table of these files lies: ``beside`` them, or in a folder that other files may share."""
    if index_dir is None:
        return beside / kind
    paths = "\n".join(str(file.absolute()) for file in files)
    digest = blake2b(paths.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return index_dir.absolute() / f"{kind}-{digest}"


def find_folder(
    folder: Path, expected: Mapping[str, object], *, on_mismatch: Literal["refuse", "replace"] = "refuse"
) -> dict[str, object] | None:
    """Return the manifest of a complete folder that says what is expected, or None when it has to be built.

    Raises:
        StaleIndexError: If the folder is complete but was made from something else, and ``on_mismatch`` is refuse.
    """
    wanted = _plain(expected)
    manifest = read_manifest(folder)
    if manifest is None or _agrees(manifest, wanted):
        return manifest
    if on_mismatch == "refuse":
        raise StaleIndexError(_mismatch_message(folder, manifest, wanted))
    return None


def read_manifest(folder: Path) -> dict[str, object] | None:
    """Return the manifest of a folder, or None when the folder is missing or incomplete."""
    try:
        manifest: dict[str, object] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        whole = manifest["files"] == {name: (folder / name).stat().st_size for name in dict(manifest["files"])}  # type: ignore[call-overload]
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError):
        return None
    return manifest if whole else None


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON file whole: to a temporary sibling first, then renamed over the old file."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open(temporary, "w", encoding="utf-8") as handle:
        handle.write(f"{text}\n")
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, path)


def _plain(value: Mapping[str, object]) -> dict[str, object]:
    plain: dict[str, object] = json.loads(json.dumps(value))
    return plain


def _agrees(manifest: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    return all(key in manifest and manifest[key] == value for key, value in wanted.items())


def _mismatch_message(folder: Path, manifest: Mapping[str, object], wanted: Mapping[str, object]) -> str:
    key = next(k for k, v in wanted.items() if k not in manifest or manifest[k] != v)
    return (
        f"expected {key} {wanted[key]!r} in {folder}, got {manifest.get(key)!r}: it was made from something else; "
        f"delete {folder}, or build it anew: the retriever's setting rebuild=True, or --rebuild of ssp corpus build "
        "and ssp index build"
    )


def _require_writable(folder: Path, remedy: str) -> None:
    """Refuse folders marked read-only, also for a superuser, who could write there all the same."""
    parent = next(p for p in folder.absolute().parents if p.exists())
    mode = parent.stat().st_mode
    if not stat.S_IMODE(mode) & 0o222 or not os.access(parent, os.W_OK):
        raise ConfigError(f"expected a writable folder for {folder.name}, got {str(parent)!r}; {remedy}")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with open(folder.with_name(f".{folder.name}.lock"), "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(folder: Path, wanted: dict[str, object], build: Callable[[Path], Mapping[str, object]]) -> dict[str, object]:
    """Build under the lock; whatever lies around under temporary names has no owner any more."""
    prefix = f".{folder.name}.tmp-"
    for leftover in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary = folder.with_name(f"{prefix}{uuid.uuid4().hex}")
    temporary.mkdir()
    try:
        facts = _plain(build(temporary))
        sizes = {p.relative_to(temporary).as_posix(): p.stat().st_size for p in temporary.rglob("*") if p.is_file()}
        manifest = {**facts, **wanted, "files": sizes}
        write_json(temporary / MANIFEST, manifest)
        if folder.exists():
            retired = folder.with_name(f"{prefix}{uuid.uuid4().hex}")
            os.rename(folder, retired)
        else:
            retired = None
        os.rename(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    if retired is not None:
        shutil.rmtree(retired, ignore_errors=True)
    return manifest
