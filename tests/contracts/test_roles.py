"""The roles and what each may do."""

from __future__ import annotations

import pytest

from ssp_env.grammar import FINAL_TAGS
from ssp_env.roles import ROLES
from ssp_env.roles.reader import MAX_PASSAGE_CHARS
from ssp_env.types import Passage, ReadingCase
from tests.fakes import SEED


def test_roles_are_filed_under_their_names_and_end_with_a_final_tag() -> None:
    assert {name: (role.name, role.final_tag, role.uses_tools) for name, role in ROLES.items()} == {
        "proposer": ("proposer", "question", True),
        "reader": ("reader", "answer", False),
        "solver": ("solver", "answer", True),
    }
    assert {role.final_tag for role in ROLES.values()} <= set(FINAL_TAGS)


@pytest.mark.parametrize("role", sorted(ROLES))
@pytest.mark.parametrize("item", [SEED, "a question", None])
def test_roles_refuse_items_of_another_kind(role: str, item) -> None:
    if role == "proposer" and item is SEED:
        return
    with pytest.raises(TypeError, match=f"expected a .* for the {role}, got"):
        ROLES[role].prompt(item, prompt_set="paper")


def test_long_passages_are_cut_visibly_for_the_reader() -> None:
    case = ReadingCase("Which?", (Passage("p", "Long", "y" * (MAX_PASSAGE_CHARS + 1)),))
    text = ROLES["reader"].prompt(case, prompt_set="paper")[-1]["content"]
    assert "y" * MAX_PASSAGE_CHARS + " [...]" in text
