"""The parts that a policy can play. A new role is one file here and one line in ``ROLES``."""

from __future__ import annotations

from ssp_env.roles.proposer import Proposer
from ssp_env.roles.reader import ReaderRole
from ssp_env.roles.role import Role
from ssp_env.roles.solver import Solver

ROLES: dict[str, Role] = {"proposer": Proposer(), "reader": ReaderRole(), "solver": Solver()}

__all__ = ["ROLES", "Proposer", "ReaderRole", "Role", "Solver"]
