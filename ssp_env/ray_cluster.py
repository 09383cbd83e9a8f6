"""The connection to a Ray cluster, on which several machines share the work of one command.

That is the cluster of ``RAY_ADDRESS``, or one that runs on this machine, or else one of this machine alone that is
started here and ends with the work. Left out: starting a cluster of several machines, which is Ray's own command.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ssp_env.errors import ConfigError

ANSWER_S = 10.0


def require_ray() -> None:
    """Find out before a long job whether Ray is there.

    Raises:
        ImportError: If Ray is missing.
    """
    try:
        import ray  # noqa: F401
    except ImportError as error:
        message = f"expected ray, got {error}; install the extra: pip install 'ssp-env[ray]'"
        raise ImportError(message) from error


@contextmanager
def connected() -> Iterator[None]:
    """Be connected to a cluster; a connection that is open already is used and stays open.

    Raises:
        ImportError: If Ray is missing.
        ConfigError: If the cluster does not answer, or cannot be started.
    """
    require_ray()
    import ray

    if ray.is_initialized():
        yield
        return
    require_answer(os.environ.get("RAY_ADDRESS", ""))
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    except Exception as error:  # Ray raises plain exceptions here, one of them when its processes start slowly
        ray.shutdown()
        remedy = "try again, and leave its processes a free core"
        raise ConfigError(f"expected a Ray cluster, got {type(error).__name__}: {error}; {remedy}") from error
    try:
        yield
    finally:
        ray.shutdown()


def require_answer(address: str) -> None:
    """Find out at once that nobody is there, which Ray would try for twenty minutes; ``auto`` and others pass.

    Raises:
        ConfigError: If nobody answers at this host and port.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except (OSError, OverflowError) as error:
        remedy = "start it with 'ray start', or unset RAY_ADDRESS"
        raise ConfigError(f"expected a Ray cluster at RAY_ADDRESS {address!r}, got {error}; {remedy}") from error


def n_gpus() -> int:
    """Return the number of GPUs of the cluster that is connected."""
    import ray

    return int(ray.cluster_resources().get("GPU", 0))
