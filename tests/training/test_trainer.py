"""What the adapter relies on in TRL, and one optimiser step against plain PyTorch."""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import pytest
import torch
import trl
from trl import GRPOTrainer

from ssp_env.errors import ConfigError, RunError
from ssp_env.types import Sampling
from tests.training.models import tiny_llama, word_tokenizer
from training.config import RunConfig
from training.rows import TrainingRow
from training.settings import OptimizerSettings, RoleSettings
from training.trainer import SelfPlayTrainer, micro_batches, updates_of_round
from training.update import RoundEnd, ScoredRow

TOKENIZER = word_tokenizer()


class FixedRounds:
    """A driver that plays the same rows every round and notes what it is told."""

    def __init__(self, rows, *, save=False):
        self.rows, self.save, self.metrics, self.published = rows, save, [], []

    def run_round(self, agent):
        return self.rows

    def finish_round(self, agent, metrics):
        self.metrics.append(dict(metrics))
        return RoundEnd(save=self.save)

    def publish(self, checkpoint: Path):
        self.published.append(sorted(p.name for p in checkpoint.iterdir()))


def row(role, prompt, completion, mask):
    return TrainingRow(role, tuple(prompt), tuple(completion), tuple(mask), tuple(-1.0 * m for m in mask))


ROWS = [
    ScoredRow(row("solver", [8, 9, 10], [11, 12, 13, 14], [1, 0, 0, 1]), 0.3),
    ScoredRow(row("solver", [8, 9], [15, 16], [1, 1]), -0.2),
    ScoredRow(row("proposer", [20, 21, 22, 23, 24], [11, 12, 17, 18, 19, 20], [1, 1, 0, 0, 0, 1]), 0.15),
    ScoredRow(row("solver", [8], [9, 10], [1, 1]), 0.0),
    ScoredRow(row("proposer", [30], [31], [1]), -0.05),
]


def configured(*, n_rounds=1, solver=None, proposer=None, lr=1e-2, **optimizer):
    roles = {"solver": solver or RoleSettings(), "proposer": proposer or RoleSettings()}
    return RunConfig(n_rounds=n_rounds, optimizer=OptimizerSettings(lr=lr, **optimizer), **roles)


def trained(tmp_path, driver, model=None, **settings):
    model = model or tiny_llama(TOKENIZER)
    config = configured(**settings)
    trainer = SelfPlayTrainer(model, TOKENIZER, driver=driver, config=config, output_dir=tmp_path)
    trainer.train()
    return trainer


@pytest.mark.parametrize("updates", ["joint", "sequential"])
@pytest.mark.parametrize(("factor", "lr", "got"), [(math.nan, 1e-2, "loss nan"), (1.0, 1e300, "weights .*weight")])
def test_an_update_that_spoils_the_policy_ends_the_run_before_it_is_noted_or_saved(tmp_path, updates, factor, lr, got):
    driver = FixedRounds([ScoredRow(s.row, s.coefficient * factor) for s in ROWS], save=True)
    with pytest.raises(RunError, match=rf"after round 1, got .*{got}.*lower --optimizer.lr"):
        trained(tmp_path, driver, n_rounds=2, lr=lr, updates=updates)
    assert driver.metrics == driver.published == []


def logprobs(model, r):
    ids = torch.tensor([[*r.prompt_ids, *r.completion_ids]])
    table = torch.log_softmax(model(ids).logits[0, len(r.prompt_ids) - 1 : -1], -1)
    return table.gather(1, torch.tensor(r.completion_ids)[:, None]).squeeze(1)


def plain_step(model, scored, *, reference=None, losses=None, old=None, optimizer=None):
    """One AdamW step on the loss of the module docstring, without padding and without TRL."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    optimizer.zero_grad()
    n_tokens = sum(s.row.n_sampled for s in scored)
    loss = torch.zeros(())
    for s in scored:
        mask = torch.tensor(s.row.mask, dtype=torch.bool)
        now = logprobs(model, s.row)[mask]
        before = now.detach() if old is None else torch.tensor(s.row.logprobs)[mask]
        ratio = (now - before).exp()
        own = (losses or {}).get(s.row.role, RoleSettings())
        clipped = ratio.clamp(1 - own.clip_low, 1 + own.clip_high) if own.clip_low else ratio
        loss = loss - torch.min(s.coefficient * ratio, s.coefficient * clipped).sum()
        if beta := own.beta:
            difference = logprobs(reference, s.row)[mask].detach() - now
            loss = loss + beta * (difference.exp() - difference - 1).sum() / n_tokens
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), norm.item()


def assert_same_weights(first, second, *, lr=1e-2):
    """Compare weights after a step; ``second`` holds its last gradient.

    The first step of Adam is the learning rate times the gradient's sign, and the sign of a gradient that is all
    rounding differs between processors: those few weights need to be within one step to either side only.
    """
    n = n_rounding = 0
    for (name, a), (_, b) in zip(first.named_parameters(), second.named_parameters(), strict=True):
        rounding = torch.zeros_like(b, dtype=torch.bool) if b.grad is None else (b.grad != 0) & (b.grad.abs() < 1e-6)
        torch.testing.assert_close(a[~rounding], b[~rounding], atol=2e-5, rtol=0, msg=name)
        torch.testing.assert_close(a[rounding], b[rounding], atol=2.1 * lr, rtol=0, msg=name)
        n, n_rounding = n + b.numel(), n_rounding + int(rounding.sum())
    assert n_rounding <= 0.03 * n


@pytest.mark.parametrize("max_batch_tokens", [1, 20, 10_000])
def test_one_joint_step_equals_plain_pytorch(tmp_path, max_batch_tokens):
    driver, expected = FixedRounds(ROWS), tiny_llama(TOKENIZER)
    trainer = trained(tmp_path, driver, max_batch_tokens=max_batch_tokens)
    loss, norm = plain_step(expected, ROWS)
    assert driver.metrics[0]["loss"] == pytest.approx(loss, abs=1e-5)
    assert driver.metrics[0]["grad_norm"] == pytest.approx(norm, rel=1e-4)
    assert_same_weights(trainer.model, expected)


def test_sequential_updates_equal_two_plain_steps_with_clipping(tmp_path):
    driver, expected = FixedRounds(ROWS), tiny_llama(TOKENIZER)
    own = RoleSettings(clip_low=0.1, clip_high=0.3)
    trainer = trained(tmp_path, driver, updates="sequential", solver=own, proposer=own)
    optimizer = torch.optim.AdamW(expected.parameters(), lr=1e-2, weight_decay=0.0)
    for role in ("solver", "proposer"):
        rows = [s for s in ROWS if s.row.role == role]
        plain_step(expected, rows, losses={role: own}, old=True, optimizer=optimizer)
    assert_same_weights(trainer.model, expected)
    assert {"solver/loss", "proposer/loss"} <= set(driver.metrics[0])


def moved_from_a_saved_model(tmp_path, n=2):
    """Return a model on disk, and models that have moved away from it."""
    tiny_llama(TOKENIZER, seed=1).save_pretrained(tmp_path / "initial")
    reference, *models = (type(tiny_llama(TOKENIZER)).from_pretrained(tmp_path / "initial") for _ in range(n + 1))
    with torch.no_grad():
        for m in models:
            m.lm_head.weight.mul_(1.5)
    return reference, models


PAPER = {
    "solver": RoleSettings(beta=0.5, clip_low=0.1, clip_high=0.3),
    "proposer": RoleSettings(clip_low=0.0, clip_high=0.0),
}


@pytest.mark.parametrize("updates", ["joint", "sequential"])
def test_kl_and_clipping_of_the_solver_are_not_the_proposers(tmp_path, updates):
    reference, (model, expected) = moved_from_a_saved_model(tmp_path)
    driver = FixedRounds(ROWS)
    trainer = trained(tmp_path, driver, model, updates=updates, **PAPER)
    optimizer = torch.optim.AdamW(expected.parameters(), lr=1e-2, weight_decay=0.0)
    old = None if updates == "joint" else True
    for roles in updates_of_round(configured(updates=updates)):
        rows = [s for s in ROWS if s.row.role in roles]
        loss, norm = plain_step(expected, rows, reference=reference, losses=PAPER, old=old, optimizer=optimizer)
    assert_same_weights(trainer.model, expected)
    metrics = driver.metrics[0]
    last = "" if updates == "joint" else "proposer/"
    assert metrics[f"{last}loss"] == pytest.approx(loss, abs=1e-4)
    assert metrics[f"{last}grad_norm"] == pytest.approx(norm, rel=1e-3)
    assert metrics["kl" if updates == "joint" else "solver/kl"] > 0 and "proposer/kl" not in metrics


def test_kl_is_the_token_mean_to_the_initial_model(tmp_path):
    reference, (model, expected) = moved_from_a_saved_model(tmp_path)
    driver, own = FixedRounds(ROWS), RoleSettings(beta=0.5)
    trainer = trained(tmp_path, driver, model, solver=own, proposer=own)
    plain_step(expected, ROWS, reference=reference, losses={"solver": own, "proposer": own})
    assert_same_weights(trainer.model, expected)
    assert driver.metrics[0]["kl"] > 0


def test_a_reference_that_cannot_be_reloaded_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="folder"):
        trained(tmp_path, FixedRounds(ROWS), solver=RoleSettings(beta=0.1))


def test_lora_moves_adapters_only_and_keeps_the_base_model_as_reference(tmp_path):
    driver = FixedRounds(ROWS, save=True)
    own = RoleSettings(beta=0.1)
    trainer = trained(tmp_path, driver, n_rounds=2, solver=own, proposer=own, lora_rank=2)
    state = trainer.model.state_dict()
    before = tiny_llama(TOKENIZER).state_dict()
    base = {name.replace("base_model.model.", "").replace(".base_layer", ""): v for name, v in state.items()}
    assert all(torch.equal(value, base[name]) for name, value in before.items())
    assert any(value.abs().sum() > 0 for name, value in state.items() if "lora_B" in name)
    assert "adapter_model.safetensors" in driver.published[-1]
    assert driver.metrics[0]["kl"] == pytest.approx(0, abs=1e-6)
    assert driver.metrics[1]["kl"] > 0
    assert trainer.agent.complete([], sampling=Sampling()) == []


@pytest.mark.parametrize("rows", [[], [ScoredRow(ROWS[0].row, 0.0)]])
def test_a_round_without_signal_leaves_the_weights_as_they_are(tmp_path, rows):
    driver = FixedRounds(rows)
    trainer = trained(tmp_path, driver, n_rounds=2, weight_decay=0.5)
    assert_same_weights(trainer.model, tiny_llama(TOKENIZER))
    assert [m["loss"] for m in driver.metrics] == [0.0, 0.0]


def test_checkpoints_are_complete_when_published_and_resume_exactly(tmp_path):
    whole = trained(tmp_path / "whole", FixedRounds(ROWS), n_rounds=4)
    driver = FixedRounds(ROWS, save=True)
    trained(tmp_path / "parts", driver, n_rounds=2)
    assert {"model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json"} <= set(driver.published[-1])
    other, settings = (
        tiny_llama(TOKENIZER, seed=9),
        {"config": configured(n_rounds=4), "output_dir": tmp_path / "parts"},
    )
    rest = SelfPlayTrainer(other, TOKENIZER, driver=FixedRounds(ROWS), **settings)
    rest.train(resume_from_checkpoint=str(tmp_path / "parts" / "checkpoint-2"))
    for a, b in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "schedule, n_warmup, expected",
    [
        ("constant", 0, [1, 1, 1, 1]),
        ("constant", 2, [0, 0.5, 1, 1]),
        ("linear", 0, [1, 0.75, 0.5, 0.25]),
        ("cosine", 0, [1, 0.853553, 0.5, 0.146447]),
    ],
)
def test_the_learning_rate_stays_or_falls_to_zero_at_the_last_round(tmp_path, schedule, n_warmup, expected):
    driver = FixedRounds(ROWS)
    trained(tmp_path, driver, n_rounds=4, schedule=schedule, warmup_steps=n_warmup)
    rates = [metrics["learning_rate"] for metrics in driver.metrics]
    assert rates == pytest.approx([1e-2 * share for share in expected], abs=1e-6)


def test_a_run_that_gets_longer_goes_on_at_the_rate_of_the_longer_one(tmp_path):
    trained(tmp_path, FixedRounds(ROWS, save=True), n_rounds=2, schedule="linear")
    driver, config = FixedRounds(ROWS), configured(n_rounds=4, schedule="linear")
    rest = SelfPlayTrainer(tiny_llama(TOKENIZER), TOKENIZER, driver=driver, config=config, output_dir=tmp_path)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    rates = [metrics["learning_rate"] for metrics in driver.metrics]
    assert rates == pytest.approx([0.5e-2, 0.25e-2], abs=1e-6)


def test_a_driver_can_stop_training(tmp_path):
    class Stopping(FixedRounds):
        def finish_round(self, agent, metrics):
            super().finish_round(agent, metrics)
            return RoundEnd(stop=len(self.metrics) == 2)

    driver = Stopping(ROWS)
    trained(tmp_path, driver, n_rounds=5)
    assert len(driver.metrics) == 2


def test_micro_batches_hold_every_row_once_and_keep_the_token_limit():
    generator = torch.Generator().manual_seed(0)
    n, prompts, completions = (
        17,
        torch.randint(1, 9, (17,), generator=generator),
        torch.randint(1, 9, (17,), generator=generator),
    )
    batch = {
        "prompt_mask": (torch.arange(8) >= 8 - prompts[:, None]).long(),
        "completion_mask": (torch.arange(8) < completions[:, None]).long(),
        "advantages": torch.arange(n),
        "num_items_in_batch": torch.tensor(3),
    }
    parts = micro_batches(batch, 40)
    assert sorted(torch.cat([p["advantages"] for p in parts]).tolist()) == list(range(n))
    for part in parts:
        rows, width = len(part["advantages"]), part["prompt_mask"].size(1) + part["completion_mask"].size(1)
        assert rows == 1 or rows * width <= 40
        assert part["prompt_mask"][:, 0].any()
        assert part["completion_mask"][:, -1].any()
        index = part["advantages"]
        assert torch.equal(part["prompt_mask"].sum(1), prompts[index])
        assert torch.equal(part["completion_mask"].sum(1), completions[index])


def test_trl_has_the_version_and_signatures_that_the_adapter_was_written_for():
    assert trl.__version__.startswith("1.16.")
    expected = {
        "_generate_and_score_completions": ["self", "inputs"],
        "training_step": ["self", "model", "inputs", "num_items_in_batch"],
        "_save_checkpoint": ["self", "model", "trial"],
        "log": ["self", "logs", "start_time"],
    }
    for name, parameters in expected.items():
        assert list(inspect.signature(getattr(GRPOTrainer, name)).parameters) == parameters


def test_trl_returns_the_tensors_that_the_adapter_reads(tmp_path):
    settings = {"config": configured(), "output_dir": tmp_path}
    trainer = SelfPlayTrainer(tiny_llama(TOKENIZER), TOKENIZER, driver=FixedRounds(ROWS), **settings)
    trainer.pending = [s.row for s in ROWS[:2]]
    out = trainer._generate_and_score_completions([{"prompt": "solver"}] * 2)
    two_dimensional = {"prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "tool_mask"}
    assert set(out) == {*two_dimensional, "advantages", "num_items_in_batch"}
    assert out["tool_mask"][0].tolist() == [1, 0, 0, 1]
    assert out["prompt_mask"][1].tolist() == [0, 1, 1]


@pytest.mark.parametrize("n_rounds", [1, 2, 3])
def test_every_step_is_an_epoch_so_that_a_resumed_run_counts_and_draws_as_a_whole_one(tmp_path, n_rounds):
    trainer = trained(tmp_path, FixedRounds(ROWS), n_rounds=n_rounds)
    assert trainer.state.epoch == trainer.state.global_step == n_rounds
