"""Files on disk: folders that exist whole or not at all, JSON that is replaced whole, packed files read as a stream.

A folder is built under a temporary name beside its final one, gets its manifest last, and is then renamed. A folder
is complete when its manifest is there and every file the manifest lists has its recorded size; anything else is the
remains of a killed process. Builders take turns through a lock that the operating system frees when its holder dies.
What goes into a folder is its owner's business.
"""

from __future__ import annotations

import bz2
import fcntl
import gzip
import json
import os
import shutil
import stat
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from ssp_env.errors import ConfigError, StaleIndexError, needs

MANIFEST = "manifest.json"
BLOCK_BYTES = 1 << 18
"""What is read at a time. An interrupted ``ssp corpus build`` goes on only where sources are cut as before."""


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


def find_folder(
    folder: Path, expected: Mapping[str, object], *, on_mismatch: Literal["refuse", "replace"] = "refuse"
) -> dict[str, object] | None:
    """Return the manifest of a complete folder that says what is expected, or None when it has to be built."""
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
        return manifest if is_whole(folder, manifest["files"]) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError):
        return None


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON file whole."""
    with replacing(path) as file:
        file.write(f"{json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)}\n".encode())


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file whole or not at all: to a temporary sibling first, which is then renamed over the old file."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def file_sizes(folder: Path) -> dict[str, object]:
    """Return the size of every file below a folder, by path."""
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in folder.rglob("*") if file.is_file()}


def is_whole(folder: Path, sizes: object) -> bool:
    """Return whether a folder holds these files in these sizes; raises ``TypeError`` if it is no such mapping."""
    try:
        return sizes == {name: (folder / name).stat().st_size for name in dict(sizes)}  # type: ignore[call-overload]
    except (FileNotFoundError, NotADirectoryError):
        return False


def unpacked(path: Path, packing: str) -> Iterator[tuple[bytes, int]]:
    """Yield pieces of the content of a file, each with the position reached on disk.

    Args:
        path: The file.
        packing: ``plain``, ``gzip``, ``bzip2`` or ``zstd``; of packed data several streams may follow each other.

    Raises:
        OSError: If the file cannot be read, or is broken or cut off.
        ImportError: If it is a zstd file and ``zstandard`` is missing.
    """
    pieces = {"plain": _plain_pieces, "gzip": _gzip_pieces, "bzip2": _bzip2_pieces, "zstd": _zstd_pieces}[packing]
    try:
        with open(path, "rb") as file:
            for piece in pieces(file):
                yield piece, file.tell()
    except (EOFError, zlib.error) as error:
        raise OSError(str(error)) from error


def _plain_pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(BLOCK_BYTES):
        yield piece


def _gzip_pieces(packed: IO[bytes]) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=packed) as stream:
        while piece := stream.read(4 * BLOCK_BYTES):
            yield piece


def _bzip2_pieces(packed: IO[bytes]) -> Iterator[bytes]:
    """Decompress stream after stream; one that does not end was cut off."""
    stream = bz2.BZ2Decompressor()
    data = packed.read(BLOCK_BYTES)
    is_open = False
    while data:
        while data or not stream.needs_input:
            is_open = True
            yield stream.decompress(data, BLOCK_BYTES * 4)
            data = b""
            if stream.eof:
                data, stream, is_open = stream.unused_data, bz2.BZ2Decompressor(), False
        data = packed.read(BLOCK_BYTES)
    if is_open:
        raise EOFError("an end before the end-of-stream mark")


def _zstd_pieces(packed: IO[bytes]) -> Iterator[bytes]:
    """Decompress frame after frame; one that does not end was cut off."""
    with needs("zstandard", extra="zst", use="a .zst corpus"):
        import zstandard
    frame = None
    data = packed.read(4 * BLOCK_BYTES)
    try:
        while data:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(data)
            data = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
            data = data or packed.read(4 * BLOCK_BYTES)
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from error
    if frame is not None:
        raise EOFError("a file that ends too early")


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
        manifest = {**_plain(build(temporary)), **wanted, "files": file_sizes(temporary)}
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
