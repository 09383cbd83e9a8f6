"""The shape of the code: imports point down, packages have one owner, parts stay small, imports stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import ssp_agents
import ssp_env

ROOT = Path(__file__).resolve().parent.parent

LAYERS = (
    ("errors", "types"),
    ("schema", "tags", "text", "http"),
    ("protocols", "spaces", "storage", "ray_cluster"),
    ("datasets",),
    ("corpus",),
    ("world",),
    ("game",),
    ("retrieval",),
    ("config",),
    ("registry",),
    ("envs", "eval", "build", "serve"),
    ("__init__", "cli"),
    ("__main__",),
)
"""Parts of ``ssp_env``, lowest first. A part imports only parts of lower layers."""

MAY_IMPORT = {
    "ssp_env": {"ssp_env"},
    "ssp_agents": {"ssp_env", "ssp_agents"},
    "training": {"ssp_env", "ssp_agents", "training"},
    "benchmarks": {"ssp_env", "ssp_agents", "benchmarks"},
}
"""Top-level packages, and which of them each may import. ``ssp_agents`` is a link to the folder ``agents``."""

AGENTS_USE = {"errors", "types", "protocols", "text", "http"}
"""Parts of ``ssp_env`` that agents may import."""

OWNERS = {
    "gymnasium": ("ssp_env/spaces.py", "ssp_env/envs/", "benchmarks/"),
    "msgspec": ("ssp_env/schema.py",),
    "tantivy": ("ssp_env/retrieval/bm25.py",),
    "urllib3": ("ssp_env/http.py",),
    "faiss": ("ssp_env/retrieval/faiss_index.py", "ssp_env/build/indexes.py"),
    "sentence_transformers": ("ssp_env/retrieval/encoders.py", "ssp_env/retrieval/rerank.py"),
    "rank_bm25": ("ssp_env/retrieval/rank_bm25.py",),
    "pettingzoo": ("ssp_env/envs/aec.py",),
    "zstandard": ("ssp_env/storage.py",),
    "mwparserfromhell": ("ssp_env/build/ingest/",),
    "pyarrow": ("ssp_env/build/ingest/",),
    "libzim": ("ssp_env/build/ingest/",),
    "fastapi": ("ssp_env/serve/", "ssp_env/cli/serve.py", "benchmarks/speed/plain_server.py"),
    "uvicorn": ("ssp_env/serve/", "ssp_env/cli/serve.py", "benchmarks/speed/plain_server.py"),
    "ray": ("ssp_env/ray_cluster.py", "ssp_env/build/ray_encode.py", "ssp_env/serve/ray_serve.py"),
    "torch": ("ssp_agents/hf.py", "training/", "ssp_env/retrieval/faiss_index.py"),
    "transformers": ("ssp_agents/hf.py", "training/"),
    "trl": ("training/trainer.py",),
    "peft": ("training/",),
    "tyro": ("ssp_env/cli/", "training/", "benchmarks/"),
    "scipy": ("ssp_env/eval/stats.py",),
    "onnx": ("benchmarks/ms_marco.py",),
}
"""Third-party packages and the only places that may import them."""

HEAVY = (
    "torch",
    "transformers",
    "faiss",
    "sentence_transformers",
    "tantivy",
    "pettingzoo",
    "trl",
    "pyarrow",
    "fastapi",
    "ray",
    "urllib3",
)

MAX_LINES = {"module": 300, "class": 200, "function": 50}
LONG_MODULES = {"ssp_env/types.py": "all records in one list, without logic"}
"""Modules over the limit, and why."""
MAX_PARAMETERS = 8
MAX_BY_POSITION = 5
"""Of a public function."""
MAY_TAKE_ANY = "ssp_env/envs/"

UNTESTED = {
    "ssp_env/__main__.py": "one line, run by the tests of the command line",
}
"""Modules without a test file of their own, and why."""


def sources(*packages: str) -> list[str]:
    found = (path for package in packages for path in (ROOT / package).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


ALL = sources(*MAY_IMPORT)


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a module imports, wherever the statement stands, also for type checking only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def parse(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def part(path: str) -> str:
    return Path(path).parts[1].removesuffix(".py")


def layer(name: str) -> int:
    return next((level for level, names in enumerate(LAYERS) if name in names), -1)


def upward_imports(path: str, tree: ast.AST) -> list[str]:
    """Return what a module of ``ssp_env`` imports from its own layer or a higher one."""
    own = part(path)
    used = {name.split(".")[1] for name in imports(tree) if name.startswith("ssp_env.")}
    return sorted(name for name in used if name != own and layer(name) >= layer(own))


def foreign_imports(path: str, tree: ast.AST) -> list[str]:
    """Return the packages that a module imports although others own them."""
    used = {name.split(".")[0] for name in imports(tree)}
    return sorted(name for name in used & set(OWNERS) if not path.startswith(OWNERS[name]))


def forbidden_packages(path: str, tree: ast.AST) -> list[str]:
    """Return the packages of this repository that a module imports although it may not."""
    used = {name.split(".")[0] for name in imports(tree)} & {*MAY_IMPORT, "agents", "tests"}
    return sorted(used - MAY_IMPORT[path.split("/")[0]])


def beyond_the_base(path: str, tree: ast.AST) -> list[str]:
    """Return the parts of ``ssp_env`` that an agent imports although it may not."""
    used = {name.split(".")[1] for name in imports(tree) if name.startswith("ssp_env.")}
    return sorted(used - AGENTS_USE)


def too_long(path: str, tree: ast.Module) -> list[str]:
    """Return module, classes and functions that exceed their limits."""
    n_lines = (ROOT / path).read_text(encoding="utf-8").count("\n")
    found = [f"module: {n_lines}"] if n_lines > MAX_LINES["module"] and path not in LONG_MODULES else []
    for node in ast.walk(tree):
        kind = {ast.ClassDef: "class", ast.FunctionDef: "function", ast.AsyncFunctionDef: "function"}.get(type(node))
        if kind and (length := (node.end_lineno or 0) - node.lineno + 1) > MAX_LINES[kind]:
            found.append(f"{kind} {node.name}: {length}")
    return found


def loose(path: str, tree: ast.Module) -> list[str]:
    """Return functions with too many parameters, and ``Any`` where it may not be."""
    found = ["Any"] if "typing.Any" in imports(tree) and not path.startswith(MAY_TAKE_ANY) else []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            by_position = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
            is_public = not node.name.startswith("_") or node.name == "__init__"
            if len(by_position) + len(node.args.kwonlyargs) > MAX_PARAMETERS:
                found.append(f"{node.name}: more than {MAX_PARAMETERS} parameters")
            if is_public and len(by_position) > MAX_BY_POSITION:
                found.append(f"{node.name}: more than {MAX_BY_POSITION} parameters by position")
    return found


def violations(check: Callable[[str, ast.Module], list[str]], paths: list[str]) -> dict[str, list[str]]:
    """Return what a check finds, by file, without the files in which it finds nothing."""
    return {path: found for path in paths if (found := check(path, parse(path)))}


def test_every_part_has_a_layer():
    assert sorted({part(path) for path in sources("ssp_env")} - {name for names in LAYERS for name in names}) == []


def test_imports_point_down():
    assert violations(upward_imports, sources("ssp_env")) == {}


def test_packages_import_only_what_they_may():
    assert violations(forbidden_packages, ALL) == {}


def test_agents_import_only_the_base():
    assert violations(beyond_the_base, sources("ssp_agents")) == {}


def test_third_party_packages_have_owners():
    assert violations(foreign_imports, ALL) == {}


def test_parts_are_small():
    assert violations(too_long, ALL) == {}


def test_signatures_are_short_and_typed():
    assert violations(loose, ALL) == {}
    assert [path for path in ALL if "utils" in path] == []


def test_modules_have_a_docstring():
    assert [path for path in ALL if parse(path).body and not ast.get_docstring(parse(path))] == []


def test_the_guards_see_violations():
    upward = ast.parse("from ssp_env.envs.state import Play\nfrom ssp_env import registry\nimport ssp_env.types")
    assert upward_imports("ssp_env/retrieval/bm25.py", upward) == ["envs", "registry"]
    assert foreign_imports("ssp_env/text.py", ast.parse("def f():\n    import torch.nn")) == ["torch"]
    assert forbidden_packages("ssp_agents/hf.py", ast.parse("import training.rows, ssp_env")) == ["training"]
    assert forbidden_packages("training/rows.py", ast.parse("from agents.hf import HFAgent")) == ["agents"]
    assert beyond_the_base("ssp_agents/hf.py", ast.parse("import ssp_env.errors, ssp_env.registry")) == ["registry"]
    assert too_long("ssp_env/text.py", ast.parse("def f():\n" + "    x = 1\n" * 60)) == ["function f: 61"]
    many = ast.parse("from typing import Any\ndef f(a, b, c, d, e, f, *, h, i, j): ...\ndef _f(a, b, c, d, e, f): ...")
    assert [said.split(":")[0] for said in loose("ssp_env/text.py", many)] == ["Any", "f", "f"]
    assert loose("ssp_env/envs/base.py", ast.parse("from typing import Any")) == []


def test_every_module_has_tests():
    """A test bears its name or its package's, or imports it, or there is a folder of tests for its package."""
    tests = [path for path in sources("tests") if Path(path).name != "conftest.py"]
    stems = {Path(path).stem for path in tests}
    imported = {name for path in tests for name in imports(parse(path))}
    untested = []
    for path in sources("ssp_env", "ssp_agents", "training"):
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        named = any(f"test_{name}" in stems for name in module.split(".")[1:])
        used = any(name == module or name.startswith(f"{module}.") for name in imported)
        folder = any((ROOT / "tests" / package).is_dir() for package in module.split(".")[:-1])
        if not (named or used or folder or path in UNTESTED):
            untested.append(path)
    assert untested == []


def test_the_public_names_are_few_sorted_and_there():
    names = ssp_env.__all__
    assert len(names) <= 20
    assert sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name)) == names
    assert all(getattr(ssp_env, name) is not None for name in names)
    assert dir(ssp_env) == sorted(names)
    with pytest.raises(AttributeError, match="nonsense"):
        ssp_env.nonsense  # noqa: B018


def test_importing_the_package_is_light_and_quick():
    code = (
        "import sys, time; start = time.process_time(); import ssp_env; spent = time.process_time() - start\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], spent)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    loaded, _, spent = done.stdout.strip().rpartition(" ")
    assert loaded == "[]"
    assert float(spent) < 2.0


def test_the_default_game_needs_the_core_dependencies_only():
    blocked = [name for name in OWNERS if name not in ("gymnasium", "msgspec", "tantivy")]
    code = (
        f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\n"
        "import gymnasium, ssp_env\n"
        "for env_id in ('SearchSolver-v0', 'SearchProposer-v0', 'SearchSelfPlay-v0'):\n"
        "    env = gymnasium.make(env_id); env.reset(seed=0); env.step('<search>town</search>')\n"
        "print('played')"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "played", done.stderr


def test_agents_are_those_of_this_repository():
    assert ssp_agents.__file__ is not None
    assert Path(ssp_agents.__file__).resolve() == ROOT / "agents" / "__init__.py"
