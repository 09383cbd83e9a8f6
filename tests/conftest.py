"""What all tests share: opt-in markers, the real data's folder, and a ban on leaving this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the models of the tests are so small that a second thread costs time
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

REPOSITORY = Path(__file__).resolve().parent.parent
OPT_IN = ("slow", "gpu", "network", "ray")

hypothesis.settings.register_profile("suite", deadline=None, derandomize=True)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    for name in OPT_IN:
        parser.addoption(f"--run-{name}", action="store_true", help=f"also run tests marked {name}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for name in OPT_IN:
            if item.get_closest_marker(name) and not config.getoption(f"--run-{name}"):
                item.add_marker(pytest.mark.skip(reason=f"{name}: ask for it with --run-{name}"))


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--run-network"):
        sys.addaudithook(_stay_on_this_machine)


def _stay_on_this_machine(event: str, args: tuple[object, ...]) -> None:
    """Refuse connections to other machines, so that a test that needs one fails here as it would elsewhere."""
    if event != "socket.connect":
        return
    address = args[1]
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise RuntimeError(f"expected no network in tests, got a connection to {address!r}; mark the test network")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real passages and questions; a test that asks for it is skipped where there is none."""
    folder = Path(os.environ.get("SSP_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data not found at {folder}; set SSP_DATA")
    return folder
