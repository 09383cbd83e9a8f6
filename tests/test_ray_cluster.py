from __future__ import annotations

import socket
import sys

import pytest

from ssp_env.errors import ConfigError
from ssp_env.ray_cluster import connected, require_answer, require_ray


def test_a_missing_ray_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"expected ray, got .*pip install 'ssp-env\[ray\]'"):
        require_ray()
    with pytest.raises(ImportError, match="expected ray"), connected():
        pass


def test_an_address_that_does_not_answer_is_told_at_once_and_others_are_left_to_ray() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for fine in (address, f"ray://{address}", "auto", "local", ""):
            require_answer(fine)
    with pytest.raises(ConfigError, match=f"at RAY_ADDRESS '{address}', got .*refused.*; start it"):
        require_answer(address)
