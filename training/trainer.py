"""The adapter to TRL: our round, TRL's update. The only file that imports trl.

``SelfPlayTrainer`` asks a driver to play a round, hands the finished token rows to ``GRPOTrainer`` through its rollout
callable, and replaces the group advantages by our own numbers per row. TRL pads, computes reference log-probabilities,
ratio, clipping, KL, loss and metrics; the optimiser loop and the files of a checkpoint are those of transformers.

With ``loss_type="dapo"`` TRL's loss is a token sum divided by ``num_items_in_batch``. Both are set here so that the
loss is ``-sum of coefficient * ratio`` plus the mean per token of ``beta`` times KL, for groups of any number and size.
Roles whose ``beta`` or clipping differ (``RoleLoss``) go through TRL one after the other, in one optimiser step or two.

Private surface (pinned by ``tests/training/test_trainer.py``): ``training_step``, ``beta``, ``epsilon_low``,
``epsilon_high``, ``_generate_and_score_completions`` and the keys of its result, ``_metrics``, ``_step``,
``_save_checkpoint``, ``_load_optimizer_and_scheduler``.
Left out: more than one process, serving engines, replay.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from agents.hf import HFAgent
from ssp_env.errors import ConfigError, RunError
from training.rows import TrainingRow
from training.update import UPDATES, Driver, ScoredRow, UpdateSettings

METRICS = ("loss", "grad_norm", "learning_rate", "kl", "entropy", "clip_ratio/region_mean")


def _hand_over(prompts: list[str], trainer: SelfPlayTrainer) -> dict[str, object]:
    """Return the rows that exist already, in the shape that TRL expects of a rollout callable."""
    rows = trainer.pending
    return {
        "prompt_ids": [list(row.prompt_ids) for row in rows],
        "completion_ids": [list(row.completion_ids) for row in rows],
        "env_mask": [list(row.mask) for row in rows],
        "logprobs": None,
    }


def _unused_reward(prompts: list[str], completions: list[str], **_: object) -> list[float]:
    """Return zeros: TRL wants a reward function, and its advantages are replaced."""
    return [0.0] * len(prompts)


class SelfPlayTrainer(GRPOTrainer):  # type: ignore[misc]
    """Trains one policy in all its roles on rounds that a driver plays."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        driver: Driver,
        settings: UpdateSettings,
        max_context: int | None = None,
        lora_rank: int = 0,
    ) -> None:
        """Prepare training; ``lora_rank`` above 0 trains adapters of all linear layers but the last.

        Raises:
            ConfigError: If several processes were launched, several GPUs are visible, or the reference model of
                ``beta`` cannot be reloaded.
        """
        if (n_gpus := torch.cuda.device_count()) > 1:
            raise ConfigError(f"expected one visible GPU, got {n_gpus}; set CUDA_VISIBLE_DEVICES=0")
        if settings.max_beta and not lora_rank and not Path(model.config._name_or_path or "?").is_dir():
            raise ConfigError(
                f"expected a model loaded from a folder for beta={settings.max_beta!r}, got one of "
                f"{model.config._name_or_path!r}; save it with save_pretrained and load that folder"
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You are using 'rollout_func'", UserWarning)
            super().__init__(
                model=model,
                reward_funcs=[_unused_reward],
                args=_grpo_config(settings),
                train_dataset=Dataset.from_dict({"prompt": [""] * 4}),  # one step an epoch: see _grpo_config
                processing_class=tokenizer,
                rollout_func=_hand_over,
                peft_config=LoraConfig(r=lora_rank, lora_alpha=2 * lora_rank, target_modules="all-linear")
                if lora_rank
                else None,
            )
        if self.accelerator.num_processes > 1:
            raise ConfigError(
                f"expected one process, got {self.accelerator.num_processes}; start without torchrun or accelerate"
            )
        self.remove_callback(PrinterCallback)
        self.settings, self.driver = settings, driver
        self.agent = HFAgent(self.model, tokenizer, max_context=max_context)
        self.pending: list[TrainingRow] = []
        self._round: Sequence[ScoredRow] = ()
        self._round_metrics: dict[str, float] = {}

    def _due_rows(self) -> list[ScoredRow]:
        """Play a round before its first update; return the rows of the update that is due."""
        updates = UPDATES[self.settings.updates]
        due = self._step % len(updates)
        if due == 0:
            self._round = self.driver.run_round(self.agent)
        return [scored for scored in self._round if scored.row.role in updates[due]]

    def _padded(self, scored: Sequence[ScoredRow], tokens: int) -> dict[str, torch.Tensor]:
        """Return the padded rows that have a gradient under the present loss, of an update with so many tokens."""
        kept = [s for s in scored if s.coefficient or self.beta]
        if not kept:
            return {}
        rows = [s.row for s in kept]
        self.pending = rows + rows[-1:] * (len(rows) % 2)  # TRL reshapes to groups of two, a dummy here
        batch = self._generate_and_score_completions([{"prompt": row.role} for row in self.pending])
        batch = {key: value[: len(rows)] if value.ndim else value for key, value in batch.items()}
        device = self.accelerator.device
        batch["advantages"] = torch.tensor([s.coefficient * tokens for s in kept], device=device)
        batch["num_items_in_batch"] = torch.tensor(tokens, device=device)
        if len(UPDATES[self.settings.updates]) > 1:  # the policy moves between the updates of a round
            old = torch.zeros(batch["completion_ids"].shape, device=device)
            for i, row in enumerate(rows):
                old[i, : len(row.logprobs)] = torch.tensor(row.logprobs)
            batch["old_per_token_logps"] = old
        return batch

    def training_step(
        self, model: PreTrainedModel, inputs: object, num_items_in_batch: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Accumulate the gradient of all rows of the due update over micro-batches; no rows, no gradient."""
        model.train()
        rows = self._due_rows()
        tokens = sum(scored.row.n_sampled for scored in rows)
        total = torch.zeros((), device=self.accelerator.device)
        for own in dict.fromkeys(self.settings.loss(scored.row.role) for scored in rows):
            self.beta, (self.epsilon_low, self.epsilon_high) = own.beta, own.clip
            batch = self._padded([scored for scored in rows if self.settings.loss(scored.row.role) == own], tokens)
            for part in micro_batches(batch, self.settings.max_batch_tokens):
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
        updates = UPDATES[self.settings.updates]
        due = (self.state.global_step - 1) % len(updates)
        prefix = f"{updates[due][0]}/" if len(updates) > 1 else ""
        self._round_metrics |= {prefix + name: float(logs[name]) for name in METRICS if logs.get(name) is not None}
        if due == len(updates) - 1:
            require_finite(self.model, self._round_metrics, self.state.global_step // len(updates))
            end = self.driver.finish_round(self.agent, self._round_metrics)
            self._round_metrics = {}
            self.control.should_save = end.save
            self.control.should_training_stop |= end.stop

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Go on at the rate of this run's schedule: the saved one is of the schedule and length before."""
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            scheduler = self.lr_scheduler
            pairs = zip(scheduler.base_lrs, scheduler.lr_lambdas, strict=True)
            rates = [base * factor(scheduler.last_epoch) for base, factor in pairs]
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            scheduler.load_state_dict({**scheduler.state_dict(), "_last_lr": rates})

    def _save_checkpoint(self, model: PreTrainedModel, trial: None) -> None:
        super()._save_checkpoint(model, trial)
        self.driver.publish(Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}")

    def create_model_card(self, *_: object, **__: object) -> None:
        """Write no model card: checkpoints are not for a hub."""


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
            "with a lower --lr and another --out; the last checkpoint is kept"
        )


def micro_batches(batch: Mapping[str, torch.Tensor], max_tokens: int) -> list[dict[str, torch.Tensor]]:
    """Cut a padded batch into parts of similar length, each trimmed to its longest row.

    A part holds as many rows as keep rows times longest row within ``max_tokens``, and at least one.
    """
    if not batch:
        return []
    prompts, completions = batch["prompt_mask"].sum(1), batch["completion_mask"].sum(1)
    parts: list[list[int]] = []
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
            part[key] = value[rows]
        else:
            part[key] = value[rows][:, -prompt:] if key.startswith("prompt") else value[rows][:, :completion]
    return part


def _scheduler(settings: UpdateSettings) -> str:
    """Return transformers' name of the schedule; its constant one knows no warm-up."""
    constant = settings.lr_schedule == "constant"
    return "constant_with_warmup" if constant and settings.warmup_steps else settings.lr_schedule


def _grpo_config(settings: UpdateSettings) -> GRPOConfig:
    return GRPOConfig(
        output_dir=str(settings.output_dir),
        max_steps=settings.n_rounds * len(UPDATES[settings.updates]),
        learning_rate=settings.lr,
        lr_scheduler_type=_scheduler(settings),
        warmup_steps=settings.warmup_steps,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        beta=settings.max_beta,  # above 0 a reference model is loaded
        use_bias_correction_kl=False,  # the k3 estimate of the SSP code
        temperature=settings.temperature,
        loss_type="dapo",
        scale_rewards="none",
        num_generations=2,
        # Four prompts, twice each, are one step and one epoch. An epoch draws from PyTorch's generator as it begins; a
        # run that is resumed in the middle of one would draw at other steps than a whole run.
        per_device_train_batch_size=8,
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        gradient_checkpointing=settings.gradient_checkpointing,
        seed=settings.seed,
        use_cpu=not torch.cuda.is_available(),
        bf16=False,
        save_strategy="no",
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to=[],
        disable_tqdm=True,
        log_level="error",
        remove_unused_columns=False,
        ignore_data_skip=True,
        dataloader_pin_memory=False,
    )
