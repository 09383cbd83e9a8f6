from __future__ import annotations

import pytest

from ssp_env.cli.arguments import in_flags


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("use reader='policy'", "use --reader policy"),
        (
            "use judge={'name': 'model', 'agent': ...}, or rules='code'",
            """use --judge '{"name": "model", "agent": ...}', or --rules code""",
        ),
        ("expected a judge, got 'exactt'; x=1", "expected a judge, got 'exactt'; x=1"),
    ],
)
def test_errors_speak_in_flags(message: str, shown: str) -> None:
    assert in_flags(message) == shown
