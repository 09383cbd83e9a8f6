"""A game opens episodes under its rules."""

from __future__ import annotations

from dataclasses import replace

from ssp_env.game.rules import PRESETS
from tests.fakes import tiny_game


def test_episodes_take_limits_and_tools_from_the_game():
    game = tiny_game(replace(PRESETS["code"], max_turns=3))
    episode = game.episode("solver", game.tasks[0])
    assert (episode.turns_left, episode.limits.end_on_invalid, list(episode.tools)) == (3, True, ["search"])


def test_the_proposer_starts_from_a_seed_and_shows_its_answer():
    game = tiny_game()
    episode = game.episode("proposer", game.answers[0])
    assert game.answers[0].text in episode.conversation.prompt[-1]["content"]
