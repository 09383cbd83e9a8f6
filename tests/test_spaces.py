"""FreeText accepts ordinary text of any script and refuses to be corrupted."""

from __future__ import annotations

import json
import time

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector.utils import batch_space, iterate

from ssp_env.errors import SpaceError
from ssp_env.spaces import FreeText


class EchoEnv(gym.Env[str, str]):
    """Says back what it is told."""

    observation_space = FreeText(200)
    action_space = FreeText(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "grüß 日本 🙂", {}

    def step(self, action):
        return action, 0.0, False, False, {}


@pytest.mark.parametrize("text", ["", "plain words", "é", "日本語", "🙂", "a\n\tb", "\x00", "x" * 100])
def test_ordinary_text_is_inside(text):
    assert text in FreeText(100)


@pytest.mark.parametrize("value", ["x" * 101, "\ud800", "a\udc00b", 3, None, b"x", ["x"]])
def test_too_long_text_lone_surrogates_and_non_strings_are_outside(value):
    assert value not in FreeText(100)


def test_min_length_is_a_bound():
    assert "ab" not in FreeText(5, min_length=3)
    assert "abc" in FreeText(5, min_length=3)


@pytest.mark.parametrize(("low", "high"), [(-1, 5), (6, 5)])
def test_bad_bounds_are_refused(low, high):
    with pytest.raises(ValueError, match="expected 0 <= min_length <= max_length"):
        FreeText(high, min_length=low)


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 3), (7, 7), (0, 50), (300, 400), (0, 100_000)])
def test_samples_are_inside(low, high):
    space = FreeText(high, min_length=low, seed=1)
    assert all(space.sample() in space for _ in range(200))


def test_samples_are_seeded_and_varied():
    space = FreeText(40_000, seed=5)
    first = [space.sample() for _ in range(300)]
    assert first == [other.sample() for other in [FreeText(40_000, seed=5)] for _ in range(300)]
    assert len(set(first)) > 250
    assert any("<search>" in text for text in first) and any("</answer>" in text for text in first)
    assert any(len(text) > 1000 for text in first)
    assert any(ord(max(text, default="a")) > 0x1F000 for text in first)


def test_sampling_is_cheap():
    space = FreeText(32_768, seed=0)
    start = time.perf_counter()
    for _ in range(200):
        space.sample()
    assert time.perf_counter() - start < 2


def test_masks_are_refused():
    with pytest.raises(ValueError, match="no mask"):
        FreeText(5).sample(mask=(1, None))  # type: ignore[arg-type]


def test_equality_and_repr():
    assert FreeText(5) == FreeText(5)
    assert FreeText(5) != FreeText(6)
    assert FreeText(5) != FreeText(5, min_length=1)
    assert FreeText(5) != gym.spaces.Text(5)
    assert eval(repr(FreeText(5, min_length=2))) == FreeText(5, min_length=2)


def test_samples_survive_json():
    space = FreeText(50, seed=0)
    samples = [space.sample() for _ in range(20)]
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(samples)))) == samples


def test_batched_text_is_a_tuple():
    batch = batch_space(FreeText(50, seed=0), 3)
    assert ("a", "b", "ç") in batch
    assert list(iterate(batch, ["a", "b", "c"])) == ["a", "b", "c"]
    assert len(set(batch.sample())) > 1


def test_check_env_accepts_the_space():
    check_env(EchoEnv(), skip_render_check=True)


def test_shared_memory_is_one_clear_error():
    with pytest.raises(SpaceError, match="shared_memory.: False.*make_vec"):
        gym.vector.AsyncVectorEnv([EchoEnv, EchoEnv])


def test_vector_envs_without_shared_memory_carry_the_text():
    for env in (gym.vector.AsyncVectorEnv([EchoEnv] * 2, shared_memory=False), gym.vector.SyncVectorEnv([EchoEnv] * 2)):
        assert env.reset()[0] == ("grüß 日本 🙂",) * 2
        assert env.step(("中", "b"))[0] == ("中", "b")
        env.close()
