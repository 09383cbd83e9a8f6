"""The ``info`` dictionary of every reset and step, and the transcript that ``render`` shows.

A single environment returns an ``Info``, whose keys are described there. All values are fresh objects and depend on
nothing but seed, options and actions: no times, no ids of objects. Accepted answers are never in it. Keys that are
absent until the episode is over are marked *end*.

A vector environment of ``n`` episodes returns the same keys with one value per episode, in Gymnasium's way::

    infos["turns_left"]                      int array, shape (n,)
    infos["valid_action"]                    bool array, shape (n,)
    infos["role"], ["messages"], ...         object array, shape (n,), of what ``Info`` says; None where absent
    infos["rewards"]["solver"]               object array, shape (n,), of the lists of one role
    infos["_rewards"]                        bool array, shape (n,): which episodes have the key
    infos["rewards"]["_solver"]              bool array, shape (n,): which of them have this role

So episode 2's solver rewards are ``infos["rewards"]["solver"][2]``. Every key has such a mask, ``_key``. Under
autoreset ``"SameStep"``, ``infos["final_info"]`` holds the last info of the episodes that ended in the same form, and
``infos["final_obs"]`` their last observations (object array). ``gymnasium.wrappers.vector.DictInfoToList`` turns all of
it into one dictionary per episode.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from ssp_env.envs.state import State
from ssp_env.types import Invalid, Message, RoleName, Trajectory


class Info(TypedDict):
    """What an environment tells besides the observation.

    Attributes:
        role: Who acts next; at the end, who acted last.
        messages: The acting role's conversation in chat format, to prompt a chat model with.
        stop: The strings at which a sampler should stop.
        n_searches: Searches that this role's episode has made; calls of other tools do not count.
        searches_left: Searches that it may still make if it calls no other tool.
        turns_left: Completions that it may still write.
        valid_action: Whether the last action was one; True after a reset.
        invalid_reason: Why not: ``no_action``, ``unclosed``, ``empty_argument``, ``not_allowed``, ``too_long`` or "".
        item_id: End: the id of the task or answer.
        truncation: End: what cut the last episode short (``turn_limit``, ``invalid_action``), or "".
        validation: End, not for a lone solver: ``ok`` or why the question was rejected.
        verdicts: End: what decided each solve, ``"correct"`` or ``"wrong"``, a colon and the method (``"exact"``).
        rewards: End: role to the rewards of its episodes, in order.
    """

    role: RoleName
    messages: list[Message]
    stop: list[str]
    n_searches: int
    searches_left: int
    turns_left: int
    valid_action: bool
    invalid_reason: str
    item_id: NotRequired[str]
    truncation: NotRequired[str]
    validation: NotRequired[str]
    verdicts: NotRequired[list[str]]
    rewards: NotRequired[dict[str, list[float]]]


def describe(state: State) -> Info:
    """Return the info of a state."""
    episode = state.episode
    turns_left = episode.turns_left if episode.running else 0
    action = state.turn.action if state.turn else None
    info = Info(
        role=episode.role.name,
        messages=episode.conversation.messages(),
        stop=list(episode.stop),
        n_searches=len(episode.record().queries),
        searches_left=max(0, turns_left - 1) if episode.tools else 0,
        turns_left=turns_left,
        valid_action=not isinstance(action, Invalid),
        invalid_reason=action.reason if isinstance(action, Invalid) else "",
    )
    if not episode.running:
        _add_end(info, state)
    return info


def transcript(state: State) -> str:
    """Return all that was said so far, by role, as one text."""
    parts = [_said(trajectory) for trajectory in state.ended]
    if state.episode.running:
        parts.append(_said(state.episode.record()))
    if state.validation is not None:
        parts.append(f"--- validation: {state.validation.reason}")
    return "\n".join(parts)


def _add_end(info: Info, state: State) -> None:
    info["item_id"] = state.item.id
    info["truncation"] = state.episode.truncation
    if state.validation is not None:
        info["validation"] = state.validation.reason
    info["verdicts"] = [f"{verdict.label}:{verdict.method}" for verdict in state.verdicts]
    rewards: dict[str, list[float]] = {}
    for trajectory in state.ended:
        if trajectory.reward is not None:
            rewards.setdefault(trajectory.role, []).append(trajectory.reward)
    info["rewards"] = rewards


def _said(trajectory: Trajectory) -> str:
    lines = [f"[{message['role']}] {message['content'].strip()}" for message in trajectory.conversation.messages()]
    head = f"--- {trajectory.role}: {trajectory.status}"
    return "\n".join([head if trajectory.reward is None else f"{head}, reward {trajectory.reward:g}", *lines])
