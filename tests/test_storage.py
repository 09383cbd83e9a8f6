from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ssp_env.errors import ConfigError, StaleIndexError
from ssp_env.storage import MANIFEST, ensure_folder, find_folder, read_manifest, write_json


def build(folder: Path) -> dict[str, object]:
    (folder / "sub").mkdir()
    (folder / "sub" / "data").write_text("data")
    return {"n": 1}


def never(folder: Path) -> dict[str, object]:
    raise AssertionError(f"built {folder}")


def test_a_complete_folder_is_not_built_again(tmp_path: Path) -> None:
    built = ensure_folder(tmp_path / "deep" / "a", {"of": ("x", 1)}, build=build)
    assert built["n"] == 1 and built["of"] == ["x", 1]
    assert ensure_folder(tmp_path / "deep" / "a", {"of": ("x", 1)}, build=never) == built


def test_a_folder_of_something_else_is_refused_or_replaced(tmp_path: Path) -> None:
    ensure_folder(tmp_path / "a", {"of": "x"}, build=build)
    with pytest.raises(StaleIndexError, match=r"of 'y' in .*a, got 'x'.*delete .*a, or .*rebuild=True, or --rebuild"):
        ensure_folder(tmp_path / "a", {"of": "y"}, build=never)
    assert ensure_folder(tmp_path / "a", {"of": "y"}, build=build, on_mismatch="replace")["of"] == "y"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.lock", "a"]


def test_a_folder_is_found_only_if_it_is_whole_and_what_is_expected(tmp_path: Path) -> None:
    assert find_folder(tmp_path / "a", {"of": ("x",)}) is None
    built = ensure_folder(tmp_path / "a", {"of": ("x",)}, build=build)
    assert find_folder(tmp_path / "a", {"of": ("x",)}) == built
    assert find_folder(tmp_path / "a", {"of": "y"}, on_mismatch="replace") is None
    with pytest.raises(StaleIndexError, match="delete"):
        find_folder(tmp_path / "a", {"of": "y"})
    (tmp_path / "a" / "sub" / "data").write_text("cut")
    assert find_folder(tmp_path / "a", {"of": ("x",)}) is None


def test_a_failed_build_leaves_the_old_folder_as_it_was(tmp_path: Path) -> None:
    ensure_folder(tmp_path / "a", {"of": "x"}, build=build)
    with pytest.raises(AssertionError):
        ensure_folder(tmp_path / "a", {"of": "y"}, build=never, on_mismatch="replace")
    assert read_manifest(tmp_path / "a") is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.lock", "a"]


def test_missing_or_cut_files_make_a_folder_incomplete(tmp_path: Path) -> None:
    ensure_folder(tmp_path / "a", {"of": "x"}, build=build)
    (tmp_path / "a" / "sub" / "data").write_text("dat")
    assert read_manifest(tmp_path / "a") is None
    (tmp_path / "a" / "sub" / "data").unlink()
    assert read_manifest(tmp_path / "a") is None
    ensure_folder(tmp_path / "a", {"of": "x"}, build=build)
    assert (tmp_path / "a" / "sub" / "data").read_text() == "data"


@pytest.mark.parametrize("inside", ["", "sub/deep"])
def test_a_file_in_the_place_of_a_parent_folder_is_one_clear_error(tmp_path: Path, inside: str) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ConfigError, match="expected a folder .* got"):
        ensure_folder(tmp_path / "file" / inside / "a", {"of": "x"}, build=never)
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"files": 3}', '{"files": {"x": 1}}', "{}"])
def test_an_unreadable_manifest_makes_a_folder_incomplete(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    assert read_manifest(tmp_path) is None


def test_a_build_killed_between_renames_is_repaired(tmp_path: Path, repository: Path) -> None:
    ensure_folder(tmp_path / "a", {"of": "x"}, build=build)
    script = (
        "import os, signal, sys; from pathlib import Path; from ssp_env import storage\n"
        "rename = os.rename\n"
        "storage.os.rename = lambda *a: (rename(*a), os.kill(os.getpid(), signal.SIGKILL))\n"
        "storage.ensure_folder(Path(sys.argv[1]), {'of': 'y'}, build=lambda f: {}, on_mismatch='replace')"
    )
    child = subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], cwd=repository, timeout=60)
    assert child.returncode == -signal.SIGKILL
    assert not (tmp_path / "a").exists()
    assert ensure_folder(tmp_path / "a", {"of": "y"}, build=build)["of"] == "y"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.lock", "a"]


def test_a_read_only_place_is_refused_with_a_remedy(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(ConfigError, match="pass index_dir="):
        ensure_folder(tmp_path / "x" / "a", {}, build=never)
    with pytest.raises(ConfigError, match="expected a writable folder for a, got .*; name another --out"):
        ensure_folder(tmp_path / "a", {}, build=never, remedy="name another --out")
    tmp_path.chmod(0o755)


def test_json_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": "é"})
    write_json(path, {"b": 2})
    assert json.loads(path.read_text()) == {"b": 2}
    with pytest.raises(TypeError):
        write_json(path, {"c": object()})
    assert json.loads(path.read_text()) == {"b": 2}
    assert list(tmp_path.iterdir()) == [path]
