"""Replicas of the retrieval server on a Ray cluster, behind the HTTP front of Ray Serve.

Each replica opens corpus and index by itself and runs the application of ``app``, so an answer does not depend on the
replica that gave it. The limits hold for each replica, and ``/health`` and the logs are those of one of them. All
machines must see the files under the same paths.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI

from ssp_env.errors import ConfigError
from ssp_env.ray_cluster import connected
from ssp_env.serve.wire import ServeLimits

if TYPE_CHECKING:
    from ray.serve import Deployment

APPLICATION = "ssp-serve"
KEEP_ALIVE_S = 60
HEALTH_TIMEOUT_S = 30.0
MAX_STARTS = 3
"""How often replicas are started before the failure is told."""


@contextmanager
def replicas(
    build: Callable[[], FastAPI],
    *,
    n_replicas: int,
    n_gpus: float,
    address: tuple[str, int],
    limits: ServeLimits,
    fingerprint: str,
) -> Iterator[None]:
    """Run replicas until the block ends, which is entered when they answer.

    Args:
        build: Makes the application, in each replica; pickled by value, with all that it refers to.
        n_replicas: Replicas, of one core each.
        n_gpus: GPUs of each.
        address: Where Ray Serve listens, on every machine that has a replica.
        limits: Those of each replica.
        fingerprint: What must be served there.

    Raises:
        ConfigError: If there is no cluster, the replicas fail to start, or something else answers at the address.
        ImportError: If Ray is missing.
    """
    with connected():
        from ray import serve

        if APPLICATION in serve.status().applications:
            raise ConfigError(
                "expected a cluster without 'ssp serve', got one that runs it already; stop that one first"
            )
        host, port = address
        serve.start(http_options={"host": host, "port": port, "keep_alive_timeout_s": KEEP_ALIVE_S})
        try:
            try:
                serve.run(
                    _deployment(build, n_replicas, n_gpus=n_gpus, limits=limits).bind(),
                    name=APPLICATION,
                    route_prefix="/",
                )
            except (RuntimeError, serve.exceptions.RayServeException) as error:
                message = f"expected {n_replicas} running replicas, got {_reason(error)}; see the logs of Ray"
                raise ConfigError(message) from error
            _require(fingerprint, host, port)
            yield
        finally:
            serve.delete(APPLICATION)
            if not serve.status().applications:
                serve.shutdown()


def _deployment(build: Callable[[], FastAPI], n_replicas: int, *, n_gpus: float, limits: ServeLimits) -> Deployment:
    from ray import serve

    return serve.deployment(
        serve.ingress(build)(),
        name=APPLICATION,
        num_replicas=n_replicas,
        ray_actor_options={"num_cpus": 1, "num_gpus": n_gpus},
        max_ongoing_requests=2 * limits.max_requests,  # what is too much is refused by the replica
        max_constructor_retry_count=MAX_STARTS,
        graceful_shutdown_timeout_s=limits.deadline_s + 1,
        logging_config={"log_level": "WARNING", "enable_access_log": False},
    )


def _reason(error: Exception) -> str:
    """Return why the replicas do not run: the last line of what one of them raised, if one did."""
    from ray import serve

    deployed = serve.status().applications
    deployments = deployed[APPLICATION].deployments if APPLICATION in deployed else {}
    message = str(deployments[APPLICATION].message) if APPLICATION in deployments else ""
    return (message or str(error)).strip().splitlines()[-1]


def _require(fingerprint: str, host: str, port: int) -> None:
    """Check that it is our corpus that is served here; a cluster has one address for all that Ray Serve runs."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = http.client.HTTPConnection(here, port, timeout=HEALTH_TIMEOUT_S)
    try:
        connection.request("GET", "/health")
        found = json.loads(connection.getresponse().read())["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = repr(error)
    finally:
        connection.close()
    if found != fingerprint:
        remedy = "Ray Serve may listen elsewhere already; end it with 'serve shutdown', or use its address"
        raise ConfigError(f"expected corpus {fingerprint} at {here}:{port}, got {found}; {remedy}")
