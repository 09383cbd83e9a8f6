"""What a role is: a name, the tag that ends its episode, whether it may use tools, and its prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ssp_env.protocols import Tool
from ssp_env.types import Item, Message, RoleName


class Role(Protocol):
    """One part in the game; stateless."""

    @property
    def name(self) -> RoleName:
        """The role's name, also that of its prompt template."""
        ...

    @property
    def final_tag(self) -> str:
        """The tag whose block ends the episode."""
        ...

    @property
    def uses_tools(self) -> bool:
        """Whether tools may be called; a role without tools has a single turn."""
        ...

    def prompt(self, item: Item, *, prompt_set: str, tools: Mapping[str, Tool]) -> tuple[Message, ...]:
        """Return the opening messages for a seed, a task or a reading case, and tell of the tools that may be called.

        Raises:
            TypeError: If the item is not of this role's kind.
            ConfigError: If the prompt set cannot tell of the tools.
        """
        ...
