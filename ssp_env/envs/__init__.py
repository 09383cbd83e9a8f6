"""The environments, registered with Gymnasium when ``ssp_env`` is imported.

Their modules are loaded by the first ``gymnasium.make``; importing this package registers three names and no more.
"""

from __future__ import annotations

import gymnasium

ENV_IDS: dict[str, str] = {
    "SearchProposer-v0": "ssp_env.envs.proposer:SearchProposerEnv",
    "SearchSelfPlay-v0": "ssp_env.envs.selfplay:SearchSelfPlayEnv",
    "SearchSolver-v0": "ssp_env.envs.solver:SearchSolverEnv",
}
"""Id to entry point; the module's ``make_vector`` is the vector entry point."""


def register_envs() -> None:
    """Register the ids that Gymnasium does not know yet.

    Without Gymnasium's passive checker: it takes a first reset that fails for a checked one and then fails in every
    episode. What it looks for is tested, and actions and options are checked by the environments themselves.
    """
    for env_id, entry_point in ENV_IDS.items():
        if env_id not in gymnasium.registry:
            module = entry_point.partition(":")[0]
            gymnasium.register(
                env_id,
                entry_point=entry_point,
                vector_entry_point=f"{module}:make_vector",
                disable_env_checker=True,
            )
