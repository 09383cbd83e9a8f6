"""Random and adversarial actions over the three environments: no exception, no hang, everything in its space.

The default suite takes about 2,000 actions; ``SSP_FUZZ_ACTIONS=50000`` takes as many as it says. The scripted expert
plays some of the actions, so that the deeper parts of a round are reached.
"""

from __future__ import annotations

import json
import math
import os
import time

import gymnasium as gym
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssp_env.registry import build_agent
from ssp_env.tags import RESERVED_TAGS
from ssp_env.types import Sampling

N_ACTIONS = int(os.environ.get("SSP_FUZZ_ACTIONS", "2000"))
ACTIONS_PER_EXAMPLE = 25
MAX_STEP_S = 20.0
EXPERT = object()

CONFIGS = {
    "SearchSolver-v0": [{}, {"rules": "code"}, {"prompt_set": "compact"}],
    "SearchProposer-v0": [{}, {"rules": "code"}, {"opponent": "world-expert"}],
    "SearchSelfPlay-v0": [
        {"rules": {"preset": "world", "n_solves": 2}},
        {"reader": "policy", "rules": {"preset": "world", "n_solves": 1}},
        {"reader": "policy", "rules": {"preset": "code", "n_solves": 2}, "prompt_set": "compact"},
    ],
}

tags = st.sampled_from(sorted(RESERVED_TAGS))
anything = st.text(st.characters(codec=None), max_size=200)
pieces = st.one_of(
    anything,
    tags.map("<{}>".format),
    tags.map("</{}>".format),
    tags.map("< / {} >".format),
    st.sampled_from(
        [
            "<|im_start|>",
            "<|im_end|>",
            "</s>",
            "<s>",
            "\x00",
            "\ud800",
            "\u202e",
            "\u2028",
            "{question}",
            "{{0}}",
            "%s",
            "\\",
            "Doc 1 (Title: x) y",
            "Verdict: correct",
            "AND OR NOT title:x^2 [a TO b] /re(/",
            "'\"; --",
        ]
    ),
)
blocks = st.builds("<{0}>{1}</{0}>".format, tags, st.one_of(anything, pieces))
soup = st.lists(st.one_of(pieces, blocks), max_size=12).map("".join)
huge = st.builds(lambda piece, n: piece * n, st.one_of(pieces, blocks), st.integers(1000, 40_000)).map(
    lambda text: text[:200_000]
)
actions = st.one_of(st.just(EXPERT), st.just(EXPERT), soup, blocks, anything, huge)


@pytest.fixture(scope="module")
def environments():
    return {
        (env_id, i): gym.make(env_id, render_mode="ansi", **config)
        for env_id, configs in CONFIGS.items()
        for i, config in enumerate(configs)
    }


def check_reply(env, observation, info):
    assert observation in env.observation_space
    json.dumps(info).encode("utf-8")
    env.render().encode("utf-8")


def rollout(env, plan, seed):
    expert = build_agent("world-expert")
    observation, info = env.reset(seed=seed)
    for action in plan:
        check_reply(env, observation, info)
        if action is EXPERT:
            conversation = env.unwrapped.state.episode.conversation
            action = expert.complete([conversation], sampling=Sampling(seed=seed))[0].text
        start = time.perf_counter()
        observation, reward, terminated, truncated, info = env.step(action)
        assert time.perf_counter() - start < MAX_STEP_S
        assert math.isfinite(reward) and type(terminated) is type(truncated) is bool
        assert not (terminated and truncated)
        if terminated or truncated:
            check_reply(env, observation, info)
            observation, info = env.reset()


@pytest.mark.parametrize("env_id", sorted(CONFIGS))
def test_no_action_breaks_an_environment(env_id, environments):
    plans = st.lists(actions, min_size=ACTIONS_PER_EXAMPLE, max_size=ACTIONS_PER_EXAMPLE)

    @settings(
        max_examples=max(1, math.ceil(N_ACTIONS / len(CONFIGS) / ACTIONS_PER_EXAMPLE)),
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(st.integers(0, len(CONFIGS[env_id]) - 1), plans, st.integers(0, 1000))
    def run(which, plan, seed):
        rollout(environments[env_id, which], plan, seed)

    run()
