from dataclasses import replace

import numpy as np
import pytest

from ssp_env.types import Answer, Completion, Conversation, Final, Message, Round, Task, Trajectory, Turn, Validation
from training.config import RunConfig, resolved
from training.driver import scored_rows
from training.settings import RoleSettings

SEED, TASK = Answer("s", "x"), Task("t", "q", ("x",))


def episode(role, reward, n_tokens=2, *, ids=True):
    completion = Completion("x", "stop", (1,), (5,) * n_tokens, (-0.5,) * n_tokens) if ids else Completion("x")
    conversation = Conversation((Message(role="user", content="q"),), (Turn(completion, Final("x")),))
    status = "failed" if reward is None else "finished"
    return Trajectory(role, SEED if role == "proposer" else TASK, conversation, status, reward=reward)


def played(proposer_reward, solver_rewards, **changes):
    return Round(
        answer=SEED,
        proposal=episode("proposer", proposer_reward, 3),
        validation=Validation("ok"),
        origin="fresh",
        task=TASK,
        solves=tuple(episode("solver", reward) for reward in solver_rewards),
        proposer_reward=proposer_reward,
        **changes,
    )


CONFIG = resolved(RunConfig(solver=RoleSettings(advantage="mean"), proposer=RoleSettings(advantage="raw")))
ROUNDS = [played(0.5, [1.0, 0.0]), played(0.0, [1.0, 1.0, None]), played(None, [])]


def by_role(rows):
    return {role: [r.coefficient for r in rows if r.row.role == role] for role in ("proposer", "solver")}


def test_each_role_has_its_own_estimator_and_token_mean():
    rows, counts = scored_rows(ROUNDS, CONFIG)
    values = by_role(rows)
    np.testing.assert_allclose(values["proposer"], [0.5 / 6, 0.0])
    np.testing.assert_allclose(values["solver"], [0.5 / 8, -0.5 / 8, 0.0, 0.0])
    assert counts.rows == 8
    assert counts.sampled_tokens == counts.masked_tokens


@pytest.mark.parametrize(
    ("changes", "roles"),
    [
        ({"proposer": RoleSettings(train=False)}, {"solver"}),
        ({"solver": RoleSettings(train=False)}, {"proposer"}),
        ({}, {"solver", "proposer"}),
    ],
)
def test_a_role_that_is_not_trained_has_no_rows(changes, roles):
    rows, _ = scored_rows(ROUNDS, replace(CONFIG, **changes))
    assert {r.row.role for r in rows} == roles


def test_solves_are_left_out_during_warm_up():
    rows, _ = scored_rows(ROUNDS, CONFIG, learn_solver=False)
    assert {r.row.role for r in rows} == {"proposer"}


def test_the_proposers_weight_scales_its_rows_only():
    plain, _ = scored_rows(ROUNDS, CONFIG)
    weighted, _ = scored_rows(ROUNDS, replace(CONFIG, proposer=RoleSettings(advantage="raw", weight=0.4)))
    np.testing.assert_allclose(by_role(weighted)["proposer"], 0.4 * np.array(by_role(plain)["proposer"]))
    assert by_role(weighted)["solver"] == by_role(plain)["solver"]


def asked(n_searches, reward, name):
    answer = Answer(name, "x", n_searches=n_searches)
    return replace(played(reward, []), answer=answer, proposal=replace(episode("proposer", reward, 1), item=answer))


def test_hop_compares_proposals_of_the_same_demand():
    rounds = [asked(1, 1.0, "a"), asked(2, 5.0, "b"), asked(1, 0.0, "c"), asked(2, 5.0, "d")]
    rows, _ = scored_rows(rounds, replace(CONFIG, proposer=RoleSettings(advantage="hop")))
    half = 1 / 4 / 2**0.5
    np.testing.assert_allclose(by_role(rows)["proposer"], [half, 0.0, -half, 0.0], atol=1e-5)


def test_proposals_for_one_seed_are_a_group():
    rounds = [asked(1, reward, name) for name in "ab" for reward in (1.0, 0.0)]
    config = replace(CONFIG, proposer=RoleSettings(advantage="mean"))
    rows, _ = scored_rows(rounds, replace(config, proposals_per_answer=2))
    assert by_role(rows)["proposer"] == [0.125, -0.125, 0.125, -0.125]
    rows, _ = scored_rows(rounds, config)
    assert by_role(rows)["proposer"] == [0.0] * 4


def test_episodes_without_token_ids_are_counted_and_left_out():
    spoken = replace(ROUNDS[0], solves=(episode("solver", 1.0, ids=False), episode("solver", 0.0)))
    rows, counts = scored_rows([spoken], CONFIG)
    assert len(by_role(rows)["solver"]) == 1
    assert counts.no_tokens == 1
