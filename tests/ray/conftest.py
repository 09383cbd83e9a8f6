"""A Ray cluster of two workers on this machine, for all tests of this folder."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

# Ray reads these when it is imported, and its processes inherit them.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # listen on loopback, on any system
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", uuid.uuid4().hex)  # otherwise one is written to the home folder

N_STARTS = 3


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of the cluster, to which this process is connected."""
    ray = pytest.importorskip("ray")
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # its name is a part of the names of sockets
    for attempt in range(1, N_STARTS + 1):
        try:
            ray.init(
                address="local",
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=96 << 20,
                _temp_dir=str(folder),
            )
            break
        except Exception:  # one of its processes has 15 s to start and is read from disk the first time (Ray 65983)
            ray.shutdown()
            if attempt == N_STARTS:
                raise
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def joining(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes of the test join the cluster."""
    monkeypatch.setenv("RAY_ADDRESS", cluster)
