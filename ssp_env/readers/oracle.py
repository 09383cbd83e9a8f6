"""The oracle as reader of a game: it knows the facts of generated worlds, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ssp_env.errors import ConfigError
from ssp_env.protocols import AgentOf
from ssp_env.world import OracleReader


def make_oracle(
    config: Mapping[str, object], *, error: float = 0.0, seed: int = 0
) -> Callable[[AgentOf], OracleReader]:
    """Check the settings of reader ``oracle`` and return what makes it.

    Raises:
        ConfigError: If the corpus is no generated world.
        TypeError: If a setting is no number.
        ValueError: If ``error`` is out of range.
    """
    if not isinstance(error, int | float) or not isinstance(seed, int):
        raise TypeError(f"error must be a number and seed a whole number, not {error!r} and {seed!r}")
    reader = OracleReader(error=error, seed=seed)
    corpus = config["corpus"]
    if not isinstance(corpus, Mapping) or "world" not in corpus:
        raise ConfigError(
            "expected a reader that knows the corpus, got 'oracle', which only knows generated worlds; "
            "use 'policy' or {'agent': ...}"
        )
    return lambda agent_of: reader
