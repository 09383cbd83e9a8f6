from __future__ import annotations

import importlib.util
import socket
import sys

import pytest

from ssp_env.cluster import connected, require_ray
from ssp_env.errors import ConfigError


def test_a_missing_ray_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"expected ray, got .*pip install 'ssp-env\[ray\]'"):
        require_ray()
    with pytest.raises(ImportError, match="expected ray"), connected():
        pass


@pytest.mark.ray
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_a_cluster_that_does_not_answer_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError, match=f"at RAY_ADDRESS '{address}', got .*refused"), connected():
        pass
