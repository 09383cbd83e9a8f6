"""What the wheel holds, what an editable install exposes, and that extras and constraints agree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import ssp_env
from tests.endpoint import Reply, Request, chat, serve

PLAY = """
import sys, time
started = time.perf_counter()
import ssp_env
import_s = time.perf_counter() - started
import gymnasium
env = gymnasium.make("SearchSolver-v0")
observation, info = env.reset(seed=0)
observation, reward, terminated, truncated, info = env.step("<search> river </search>")
assert "<information>" in observation, observation
observation, reward, terminated, truncated, info = env.step("<answer> none </answer>")
assert terminated and reward == 0.0, (terminated, reward)
assert not any(name in sys.modules for name in ("torch", "transformers", "faiss"))
print(import_s)
"""

EXAMINE = """
import json, sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}")


sys.meta_path.insert(0, Absent())
import gymnasium, ssp_env, ssp_agents
from ssp_agents.openai_api import OpenAIAgent
from ssp_agents.scripted import FunctionAgent
from ssp_env.eval.stats import interval, paired

ssp_env.register_agent("endpoint", OpenAIAgent(sys.argv[1], "m"))
ssp_env.register_agent("function", FunctionAgent(lambda conversation: "<answer> nobody </answer>"))
env = gymnasium.make("SearchSolver-v0")

def examine(name):
    rewards = {}
    agent = ssp_env.registry.build_agent(name)
    for seed in range(4):
        prompt, _ = env.reset(seed=seed)
        conversation = ssp_env.Conversation(({"role": "user", "content": prompt},))
        (completion,) = agent.complete([conversation], sampling=ssp_env.Sampling())
        rewards[seed] = env.step(completion.text)[1]
    return rewards

endpoint, function = examine("endpoint"), examine("function")
difference = paired(endpoint, function)
judge = ssp_env.build_game({"judge": {"name": "model", "agent": "endpoint"}}).judge
print(json.dumps({
    "files": [ssp_env.__file__, ssp_agents.__file__],
    "version": ssp_env.__version__,
    "endpoint": interval(list(endpoint.values())).mean,
    "function": interval(list(function.values())).mean,
    "difference": [difference.mean, difference.low, difference.high],
    "judge": type(judge).__name__,
}))
"""


def distribution_name(requirement: str) -> str:
    return re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0].lower().replace("_", "-")


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def constraints(repository: Path) -> dict[str, str]:
    lines = [
        line
        for line in (repository / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    return {distribution_name(line): line for line in lines}


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the tracked files so that nothing is left in the working tree."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    (source / "ssp_agents").symlink_to(os.readlink(repository / "ssp_agents"))
    for name in tracked(repository):
        if name.split("/")[0] not in ("tests", "docs"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((repository / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(out.glob("*.whl"))


def tracked(repository: Path) -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.splitlines() if (repository / name).is_file()]


def test_the_wheel_holds_every_tracked_file_of_the_library_and_nothing_else(wheel: Path, repository: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    held = {name for name in names if ".dist-info/" not in name}
    files = {re.sub("^agents/", "ssp_agents/", name) for name in tracked(repository)}
    assert held == {name for name in files if name.startswith(("ssp_env/", "ssp_agents/"))}
    assert {"ssp_env/py.typed", "ssp_agents/py.typed", "ssp_agents/openai_api.py"} <= held
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_has_the_version_of_the_module(wheel: Path) -> None:
    assert wheel.name.startswith(f"ssp_env-{ssp_env.__version__}-")


@pytest.mark.parametrize("name", ["ssp_env", "ssp_agents", "training", "benchmarks"])
def test_the_installed_module_is_that_of_this_repository(name: str, repository: Path, tmp_path: Path) -> None:
    code = f"import {name}; print({name}.__file__)"
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"not installed; run pip install -e .\n{found.stderr}"
    assert Path(found.stdout.strip()).resolve() == (repository / name / "__init__.py").resolve()


def test_constraints_are_exact_versions_without_addresses_hashes_or_local_labels(constraints: dict[str, str]) -> None:
    assert [line for line in constraints.values() if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def test_every_dependency_is_pinned_within_its_range(
    project: dict[str, dict[str, object]], constraints: dict[str, str]
) -> None:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    described = project["project"]
    extras = described["optional-dependencies"]
    assert isinstance(extras, dict)
    for text in (*described["dependencies"], *(line for lines in extras.values() for line in lines)):  # type: ignore[misc]
        requirement = Requirement(text)
        assert distribution_name(text) in constraints, f"{text} is not in constraints.txt"
        pinned = SpecifierSet(constraints[distribution_name(text)].removeprefix(requirement.name))
        assert requirement.specifier.contains(next(iter(pinned)).version), f"{text} excludes {pinned}"


def test_the_core_needs_six_packages(project: dict[str, dict[str, object]]) -> None:
    needed = project["project"]["dependencies"]
    assert isinstance(needed, list)
    assert sorted(map(distribution_name, needed)) == ["gymnasium", "msgspec", "numpy", "tantivy", "tyro", "urllib3"]


def test_the_makefile_installs_only_extras_that_exist(repository: Path, project: dict[str, dict[str, object]]) -> None:
    (line,) = re.findall(r"^EXTRAS := (.*)$", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    extras = project["project"]["optional-dependencies"]
    assert isinstance(extras, dict)
    assert set(line.split(",")) <= set(extras)


def test_the_hook_runs_the_same_checks(repository: Path) -> None:
    hook = (repository / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"(?:repo|entry): (.*)", hook) == ["local", "make check"]


def test_every_extra_that_an_error_names_exists(repository: Path, project: dict[str, dict[str, object]]) -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (repository / "ssp_env").rglob("*.py"))
    named = set(re.findall(r"ssp-env\[([a-z0-9-]+)\]", code))
    extras = project["project"]["optional-dependencies"]
    assert isinstance(extras, dict)
    assert named
    assert named <= set(extras)


@pytest.fixture
def expert() -> Iterator[str]:
    """The address of a model that knows the answers of the default world."""
    answers = {task.question: task.answers[0] for task in ssp_env.build_game({}).tasks}

    def answer(request: Request) -> Reply:
        asked = json.dumps(request.body["messages"])
        return chat(next(f"<answer> {right} </answer>" for question, right in answers.items() if question in asked))

    with serve(answer) as endpoint:
        yield endpoint.url


def check_examination(python: str, expert: str, folder: Path, environment: dict[str, str] | None = None) -> None:
    """Examine an endpoint and a function with what is installed, and compare the two."""
    command = [python, "-W", "error", "-c", EXAMINE, expert]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [Path(file).is_relative_to(folder) for file in said.pop("files")] == [True, True]
    assert said == {
        "version": ssp_env.__version__,
        "endpoint": 1.0,
        "function": 0.0,
        "difference": [1.0, 1.0, 1.0],
        "judge": "ModelJudge",
    }


def test_the_files_of_the_wheel_examine_an_endpoint_and_a_function(wheel: Path, expert: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    check_examination(sys.executable, expert, tmp_path, {**os.environ, "PYTHONPATH": str(tmp_path)})


@pytest.mark.network
def test_the_wheel_alone_imports_quickly_plays_and_examines(
    wheel: Path, expert: str, repository: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "-c", str(repository / "constraints.txt")]
    subprocess.run([*install, f"{wheel}[eval]"], check=True, cwd=tmp_path, env=environment)
    play = [python, "-W", "error", "-c", PLAY]
    subprocess.run(play, check=True, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    played = subprocess.run(play, check=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert float(played.stdout) <= 2.0, f"import took {played.stdout.strip()} s"
    check_examination(python, expert, tmp_path, environment)
    subprocess.run([*install, "openai-agents"], check=True, cwd=tmp_path, env=environment)
    check_examination(python, expert, tmp_path, environment)
    both = "import agents, ssp_agents.openai_api; agents.Agent(name='a'); print(ssp_agents.openai_api.OpenAIAgent)"
    subprocess.run([python, "-c", both], check=True, cwd=tmp_path, env=environment)
    subprocess.run([*pip, "check"], check=True, cwd=tmp_path, env=environment)
