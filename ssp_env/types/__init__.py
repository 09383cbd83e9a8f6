"""The records that flow between the parts of the library.

All are frozen and slotted and hold tuples, never lists, so that a record can be shared, hashed and logged without
fear. Only the standard library is used here. The names follow the field's terms; the glossary is in
``CONTRIBUTING.md``. The game itself is Search Self-Play (arXiv 2510.18821, section 3).
"""

from ssp_env.types.episode import (
    Action,
    Completion,
    Conversation,
    Final,
    Finish,
    Invalid,
    InvalidReason,
    Item,
    Message,
    Passage,
    ReadingCase,
    RoleName,
    Sampling,
    SearchResult,
    Seed,
    Status,
    Task,
    ToolCall,
    ToolOutput,
    Trajectory,
    Turn,
)
from ssp_env.types.round import (
    JudgeCase,
    JudgedReading,
    Reading,
    ReadingKind,
    Reason,
    Round,
    Validation,
    Verdict,
)

__all__ = [
    "Action",
    "Completion",
    "Conversation",
    "Final",
    "Finish",
    "Invalid",
    "InvalidReason",
    "Item",
    "JudgeCase",
    "JudgedReading",
    "Message",
    "Passage",
    "Reading",
    "ReadingCase",
    "ReadingKind",
    "Reason",
    "RoleName",
    "Round",
    "Sampling",
    "SearchResult",
    "Seed",
    "Status",
    "Task",
    "ToolCall",
    "ToolOutput",
    "Trajectory",
    "Turn",
    "Validation",
    "Verdict",
]
