from __future__ import annotations

from pathlib import Path

import pytest

from ssp_env.build.plans import GIB, Room, check_plan, free_room, plan_bm25, plan_dense
from ssp_env.errors import ConfigError
from ssp_env.retrieval.faiss_index import KINDS, index_shape, resolve_kind

WIKI = 21_015_324
NODE = Room(memory=22 * GIB, disk=200 * GIB)


def test_the_kind_follows_the_size() -> None:
    assert resolve_kind("auto", 99_999) == "flat"
    assert resolve_kind("auto", 100_000) == "ivf-sq8"
    assert resolve_kind("hnsw-sq8", 10) == "hnsw-sq8"
    with pytest.raises(ConfigError, match="did you mean 'ivf-sq8'"):
        resolve_kind("ivf-sq", 10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 39, 400, 100_000, WIKI])
def test_a_shape_can_be_trained_at_every_size(kind: str, n: int) -> None:
    shape = index_shape(kind, n, 384)
    assert shape.n_trained <= n and shape.effort >= 0
    assert shape.n_lists == 0 or 1 <= shape.n_lists * 39 <= max(n, 39)
    assert 384 % shape.code_bytes == 0 or kind == "flat"


def test_wikipedia_fits_a_node_of_24_gb_by_lists_and_not_exactly() -> None:
    for kind in ("ivf-sq8", "ivf-pq"):
        check_plan(plan_dense(index_shape(kind, WIKI, 768), vector_bytes=2), NODE)
    for kind in ("flat", "hnsw-sq8"):
        shape = index_shape(kind, WIKI, 768)
        with pytest.raises(ConfigError, match=r"GiB of free memory to build .*use --kind ivf-"):
            check_plan(plan_dense(shape, vector_bytes=2), NODE, shape=shape)


def test_memory_to_build_lists_does_not_grow_with_the_corpus() -> None:
    small, large = (plan_dense(index_shape("ivf-sq8", n, 384), vector_bytes=2) for n in (4_000_000, WIKI))
    assert large.build < 2 * small.build < 6 * GIB
    assert large.disk > 4 * small.disk


def test_what_is_too_small_is_named() -> None:
    plan = plan_bm25(WIKI)
    with pytest.raises(ConfigError, match="GiB of free disk for bm25, got 1.00 GiB; free some, or pass --force"):
        check_plan(plan, Room(memory=64 * GIB, disk=GIB))
    shape = index_shape("flat", WIKI, 768)
    with pytest.raises(ConfigError, match="use a smaller encoder"):
        check_plan(plan_dense(shape, vector_bytes=4), Room(memory=GIB, disk=GIB), shape=shape)


def test_the_room_of_this_machine_is_positive(tmp_path: Path) -> None:
    room = free_room(tmp_path / "not" / "there")
    assert room.memory > 0 and room.disk > 0
    assert len(plan_bm25(10).lines(room)) == 4
