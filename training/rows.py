"""From trajectories to rows of tokens that a trainer can learn from.

One trajectory is one row: its prompt, then sampled tokens (mask 1) and observations (mask 0) in turn, exactly as the
policy saw them. Nothing is tokenised here. A trajectory whose later context does not continue the earlier tokens
("drift") would train tokens that were never sampled: its row is left out and counted, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ssp_env.errors import RunError
from ssp_env.types import RoleName, Trajectory

Unusable = Literal["no_tokens", "drift"]


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """The tokens of one trajectory.

    ``mask`` and ``logprobs`` have the length of ``completion_ids``; where the mask is 0 the log-probability is 0.
    """

    role: RoleName
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...]

    @property
    def n_sampled(self) -> int:
        """Tokens that the policy chose."""
        return sum(self.mask)

    def __len__(self) -> int:
        """Return the length of the whole sequence in tokens."""
        return len(self.prompt_ids) + len(self.completion_ids)


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What became of the trajectories, and the two token counts that must agree."""

    rows: int
    no_tokens: int
    drift: int
    sampled_tokens: int
    masked_tokens: int


def training_row(trajectory: Trajectory) -> TrainingRow | Unusable:
    """Return the row of a trajectory, or why there is none.

    ``no_tokens``: nothing was sampled, or the agent gives no token ids. ``drift``: a context does not start with the
    tokens before it.
    """
    completions = [turn.completion for turn in trajectory.conversation.turns if turn.completion.finish != "context"]
    if not completions or not all(c.token_ids and len(c.token_ids) == len(c.logprobs) for c in completions):
        return "no_tokens"
    prompt = completions[0].prompt_ids
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for completion in completions:
        known = len(prompt) + len(ids)
        if completion.prompt_ids[:known] != (*prompt, *ids):
            return "drift"
        shown, sampled = completion.prompt_ids[known:], completion.token_ids
        ids += [*shown, *sampled]
        mask += [0] * len(shown) + [1] * len(sampled)
        logprobs += [0.0] * len(shown) + list(completion.logprobs)
    return TrainingRow(trajectory.role, prompt, tuple(ids), tuple(mask), tuple(logprobs))


def training_rows(trajectories: Sequence[Trajectory]) -> tuple[list[TrainingRow | None], RowCounts]:
    """Return one row or None per trajectory, in order, and the counts.

    Raises:
        RunError: If in some row not every sampled token is trained, or another one.
    """
    found = [training_row(trajectory) for trajectory in trajectories]
    rows = [row if isinstance(row, TrainingRow) else None for row in found]
    sampled = [sum(len(turn.completion.token_ids) for turn in t.conversation.turns) for t in trajectories]
    pairs = [(n, row.n_sampled) for n, row in zip(sampled, rows, strict=True) if row is not None]
    if wrong := next((pair for pair in pairs if pair[0] != pair[1]), None):
        raise RunError(
            f"expected every sampled token and no other under the mask, got {wrong[0]} sampled and {wrong[1]} masked "
            "in a row; the agent's completions contradict each other (one that ended as 'context' has no tokens)"
        )
    counts = RowCounts(
        rows=len(pairs),
        no_tokens=found.count("no_tokens"),
        drift=found.count("drift"),
        sampled_tokens=sum(n for n, _ in pairs),
        masked_tokens=sum(n for _, n in pairs),
    )
    return rows, counts
