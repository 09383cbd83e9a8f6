"""The examples in docstrings give what they show."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

from tests.test_architecture import ROOT, sources

WITH_EXAMPLES = [
    path for path in sources("ssp_env", "ssp_agents") if ">>> " in (ROOT / path).read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", WITH_EXAMPLES)
def test_examples_run_as_shown(path: str) -> None:
    done = doctest.testmod(import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")))
    assert done.attempted and not done.failed
