"""A generated encyclopedia with exact truth: world, question language, oracle, reader and scripted experts."""

from ssp_env.world.oracle import Oracle, OracleReader
from ssp_env.world.sampling import KINDS, world_answers, world_tasks
from ssp_env.world.world import World, WorldConfig

__all__ = ["KINDS", "Oracle", "OracleReader", "World", "WorldConfig", "world_answers", "world_tasks"]
