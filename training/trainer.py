"""The adapter to TRL: our round, TRL's update. The only file that imports trl.

``SelfPlayTrainer`` asks a driver to play a round, hands the finished token rows to ``GRPOTrainer`` through its rollout
callable, and replaces the group advantages by our own numbers per row. TRL pads, computes reference log-probabilities,
ratio, clipping, KL, loss and metrics; the optimiser loop and the files of a checkpoint are those of transformers.

With ``loss_type="dapo"`` TRL's loss is a token sum divided by ``num_items_in_batch``. Both are set here so that the
loss is ``-sum of coefficient * ratio`` plus the mean per token of ``beta`` times KL, for groups of any number and size.
Roles whose ``beta`` or clipping differ go through TRL one after the other, in one optimiser step or two.

Private surface (pinned by ``tests/training/test_trainer.py``): ``training_step``, ``beta``, ``epsilon_low``,
``epsilon_high``, ``_generate_and_score_completions`` and the keys of its result, ``_metrics``, ``_step``,
``_save_checkpoint``, ``_load_optimizer_and_scheduler``.
Left out: more than one process, serving engines, replay.

Shapes: B rows; P tokens of the longest prompt, padded on the left; C tokens of the longest completion, on the right.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from ssp_agents.hf import HFAgent
from ssp_env.errors import ConfigError, RunError
from ssp_env.types import RoleName
from training.config import RunConfig, rule_value
from training.rows import TrainingRow
from training.update import Driver, ScoredRow

METRICS = ("loss", "grad_norm", "learning_rate", "kl", "entropy", "clip_ratio/region_mean")


def _unused_reward(prompts: list[str], completions: list[str], **_: object) -> list[float | None]:
    """Return zeros: TRL wants a reward function, and its advantages are replaced."""
    return [0.0] * len(prompts)


class SelfPlayTrainer(GRPOTrainer):
    """Trains one policy in all its roles on rounds that a driver plays."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        driver: Driver,
        config: RunConfig,
        output_dir: Path,
    ) -> None:
        """Prepare training as a resolved configuration says; transformers writes checkpoints into ``output_dir``.

        Raises:
            ConfigError: If several processes were launched, several GPUs are visible, or the reference model of
                ``beta`` cannot be reloaded.
        """
        if (n_gpus := torch.cuda.device_count()) > 1:
            raise ConfigError(f"expected one visible GPU, got {n_gpus}; set CUDA_VISIBLE_DEVICES=0")
        rank, beta, origin = config.optimizer.lora_rank, _max_beta(config), model.config._name_or_path
        # TRL loads the reference model from where the policy came from; with adapters it is the policy without them.
        if beta and not rank and not Path(origin or "?").is_dir():
            raise ConfigError(
                f"expected a model loaded from a folder for beta={beta!r}, got one of {origin!r}; "
                "save it with save_pretrained and load that folder"
            )
        self.config, self.driver, self.updates = config, driver, updates_of_round(config)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You are using 'rollout_func'", UserWarning)
            super().__init__(
                model=model,
                reward_funcs=[_unused_reward],
                args=_grpo_config(config, output_dir, n_steps=config.n_rounds * len(self.updates)),
                train_dataset=Dataset.from_dict({"prompt": [""] * 4}),  # one step an epoch: see _grpo_config
                processing_class=tokenizer,
                rollout_func=self._hand_over,
                peft_config=LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear") if rank else None,
            )
        if (n := self.accelerator.num_processes) > 1:
            raise ConfigError(f"expected one process, got {n}; start without torchrun or accelerate")
        self.remove_callback(PrinterCallback)
        self.agent = HFAgent(self.policy, tokenizer, max_context=config.sampling.max_context)
        self.pending: list[TrainingRow] = []
        self._round: Sequence[ScoredRow] = ()
        self._round_metrics: dict[str, float] = {}

    @property
    def policy(self) -> PreTrainedModel:
        """The model that is trained, wrapped in its adapters if it has any."""
        return cast(PreTrainedModel, self.model)

    def _hand_over(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, object]:
        """Return the rows that exist already, in the shape that TRL expects of a rollout callable."""
        return {
            "prompt_ids": [list(row.prompt_ids) for row in self.pending],
            "completion_ids": [list(row.completion_ids) for row in self.pending],
            "env_mask": [list(row.mask) for row in self.pending],
            "logprobs": None,
        }

    def _due_rows(self) -> list[ScoredRow]:
        """Play a round before its first update; return the rows of the update that is due."""
        due = self._step % len(self.updates)
        if due == 0:
            self._round = self.driver.run_round(self.agent)
        return [scored for scored in self._round if scored.row.role in self.updates[due]]

    def _loss_of(self, scored: ScoredRow) -> tuple[float, float, float]:
        """Return the weight of the KL, and the clipping below and above, of a row's role."""
        role = self.config.role(scored.row.role)
        return role.beta, role.clip_low or math.inf, role.clip_high or math.inf

    def _padded(self, scored: Sequence[ScoredRow], tokens: int) -> dict[str, torch.Tensor]:
        """Return the padded rows that have a gradient under the present loss, of an update with so many tokens."""
        kept = [s for s in scored if s.coefficient or self.beta]
        if not kept:
            return {}
        rows = [s.row for s in kept]
        self.pending = rows + rows[-1:] * (len(rows) % 2)  # TRL reshapes to groups of two, a dummy here
        batch = self._generate_and_score_completions([{"prompt": row.role} for row in self.pending])
        # prompt_ids and prompt_mask: (B, P); completion_ids and its mask, tool_mask, ref_per_token_logps: (B, C)
        batch = {key: value[: len(rows)] if value.ndim else value for key, value in batch.items()}
        device = self.accelerator.device
        # TRL divides by the number of tokens; our coefficients are divided already.
        batch["advantages"] = torch.tensor([s.coefficient * tokens for s in kept], device=device)  # (B,)
        batch["num_items_in_batch"] = torch.tensor(tokens, device=device)  # ()
        # Without old log-probabilities TRL takes the present policy for the old one: right in the only update of a
        # round, wrong in the second of two.
        if len(self.updates) > 1:
            old = torch.zeros(batch["completion_ids"].shape, device=device)  # (B, C)
            for i, row in enumerate(rows):
                old[i, : len(row.logprobs)] = torch.tensor(row.logprobs)
            batch["old_per_token_logps"] = old
        return batch

    def training_step(
        self, model: torch.nn.Module, inputs: object, num_items_in_batch: torch.Tensor | int | None = None
    ) -> torch.Tensor:
        """Accumulate the gradient of all rows of the due update over micro-batches; no rows, no gradient."""
        model.train()
        rows = self._due_rows()
        tokens = sum(scored.row.n_sampled for scored in rows)
        total = torch.zeros((), device=self.accelerator.device)
        for own in dict.fromkeys(map(self._loss_of, rows)):
            self.beta, self.epsilon_low, self.epsilon_high = own
            batch = self._padded([scored for scored in rows if self._loss_of(scored) == own], tokens)
            for part in micro_batches(batch, self.config.optimizer.max_batch_tokens):
                with self.compute_loss_context_manager():
                    loss = self.compute_loss(model, part)
                self.accelerator.backward(loss)
                total += loss.detach()
        self._step += 1
        return total

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Keep the metrics that mean something here and end the round after its last update.

        Raises:
            RunError: If a metric or a weight is not finite; nothing is noted or saved then.
        """
        super().log(logs, start_time)
        if "loss" not in logs:
            return
        due = (self.state.global_step - 1) % len(self.updates)
        prefix = f"{self.updates[due][0]}/" if len(self.updates) > 1 else ""
        self._round_metrics |= {prefix + name: float(logs[name]) for name in METRICS if logs.get(name) is not None}
        if due == len(self.updates) - 1:
            require_finite(self.policy, self._round_metrics, self.state.global_step // len(self.updates))
            end = self.driver.finish_round(self.agent, self._round_metrics)
            self._round_metrics = {}
            self.control.should_save = end.save
            self.control.should_training_stop |= end.stop

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Go on at the rate of this run's schedule: the saved one is of the schedule and length before."""
        super()._load_optimizer_and_scheduler(checkpoint)  # type: ignore[no-untyped-call]
        scheduler = self.lr_scheduler
        if checkpoint is not None and scheduler is not None and self.optimizer is not None:
            pairs = zip(scheduler.base_lrs, scheduler.lr_lambdas, strict=True)
            rates = [base * factor(scheduler.last_epoch) for base, factor in pairs]
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            scheduler.load_state_dict({**scheduler.state_dict(), "_last_lr": rates})

    def _save_checkpoint(self, model: torch.nn.Module, trial: object) -> None:
        super()._save_checkpoint(model, trial)  # type: ignore[no-untyped-call]
        self.driver.publish(Path(self.args.output_dir or "") / f"checkpoint-{self.state.global_step}")

    def create_model_card(self, *_: object, **__: object) -> None:
        """Write no model card: checkpoints are not for a hub."""


def updates_of_round(config: RunConfig) -> tuple[tuple[RoleName, ...], ...]:
    """Return the roles of each optimiser step of a round, in order."""
    if config.optimizer.updates == "joint":
        return (("proposer", "solver"),)
    proposer_first = rule_value(config, "update_order") == "proposer_first"
    return (("proposer",), ("solver",)) if proposer_first else (("solver",), ("proposer",))


def require_finite(model: PreTrainedModel, metrics: Mapping[str, float], round_number: int) -> None:
    """Refuse an update that has spoiled the policy."""
    wrong = [f"{name} {value}" for name, value in metrics.items() if not math.isfinite(value)]
    wrong += [
        f"weights {name}"
        for name, weight in model.named_parameters()
        if weight.requires_grad and not weight.isfinite().all()
    ]
    if wrong:
        raise RunError(
            f"expected finite figures and weights after round {round_number}, got {', '.join(wrong[:3])}; start anew "
            "with a lower --optimizer.lr and another --out; the last checkpoint is kept"
        )


def micro_batches(batch: Mapping[str, torch.Tensor], max_tokens: int) -> list[dict[str, torch.Tensor]]:
    """Cut a padded batch into parts of similar length, each trimmed to its longest row.

    A part holds as many rows as keep rows times longest row within ``max_tokens``, and at least one.
    """
    if not batch:
        return []
    prompts, completions = batch["prompt_mask"].sum(1), batch["completion_mask"].sum(1)  # (B,), (B,)
    parts: list[list[int]] = []
    # In order of length, so that the rows of a part are alike and little of it is padding.
    for i in torch.argsort(prompts + completions).tolist():
        width = int(max(prompts[[*parts[-1], i]]) + max(completions[[*parts[-1], i]])) if parts else 0
        if parts and (len(parts[-1]) + 1) * width <= max_tokens:
            parts[-1].append(i)
        else:
            parts.append([i])
    return [_trimmed(batch, rows, int(prompts[rows].max()), int(completions[rows].max())) for rows in parts]


def _trimmed(
    batch: Mapping[str, torch.Tensor], rows: list[int], prompt: int, completion: int
) -> dict[str, torch.Tensor]:
    part: dict[str, torch.Tensor] = {}
    for key, value in batch.items():
        if value.ndim == 0:
            part[key] = value
        elif value.ndim == 1:
            part[key] = value[rows]  # (b,)
        elif key.startswith("prompt"):
            part[key] = value[rows][:, -prompt:]  # (b, p)
        else:
            part[key] = value[rows][:, :completion]  # (b, c)
    return part


def _max_beta(config: RunConfig) -> float:
    return max(config.proposer.beta, config.solver.beta)


def _grpo_config(config: RunConfig, output_dir: Path, *, n_steps: int) -> GRPOConfig:
    own = config.optimizer
    warms_up = own.schedule == "constant" and own.warmup_steps  # transformers' constant schedule does not
    return GRPOConfig(
        output_dir=str(output_dir),
        max_steps=n_steps,
        learning_rate=own.lr,
        lr_scheduler_type="constant_with_warmup" if warms_up else own.schedule,
        warmup_steps=own.warmup_steps,
        weight_decay=own.weight_decay,
        max_grad_norm=1.0,
        beta=_max_beta(config),  # above 0 a reference model is loaded
        use_bias_correction_kl=False,  # the k3 estimate of the SSP code
        temperature=config.sampling.temperature,
        loss_type="dapo",
        scale_rewards="none",
        num_generations=2,  # the fewest that TRL takes; advantages are ours
        # Four prompts, twice each, are one step and one epoch. An epoch draws from PyTorch's generator as it begins; a
        # run that is resumed in the middle of one would draw at other steps than a whole run.
        per_device_train_batch_size=8,
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        gradient_checkpointing=own.gradient_checkpointing,
        seed=config.seed,
        use_cpu=not torch.cuda.is_available(),
        bf16=False,
        save_strategy="no",  # the driver says when, by control.should_save
        logging_steps=1,
        logging_nan_inf_filter=False,  # a loss that is not finite must be seen
        report_to=[],
        disable_tqdm=True,
        log_level="error",
        remove_unused_columns=False,
        ignore_data_skip=True,  # a resumed run gets its rows from the driver
        dataloader_pin_memory=False,
    )
