"""Builds the indexes of a corpus: vectors in resumable shards, an index of a kind that fits, a plan of what it takes.

The retrievers of ``ssp_env.retrieval`` open what is built here. ``ssp index build`` is the command.
"""

from ssp_env.build.indexes import BuildOptions, build_dense
from ssp_env.build.plans import IndexPlan, plan_dense
from ssp_env.build.vectors import VectorShards, encode_shards

__all__ = ["BuildOptions", "IndexPlan", "VectorShards", "build_dense", "encode_shards", "plan_dense"]
