"""The exception tree: every failure this library raises on purpose.

::

    SSPError
    ├── ConfigError      a configuration names something unknown or contradicts itself
    ├── CorpusError      a corpus file cannot be read, or is not what it claims to be
    ├── StaleIndexError  an index is missing, half-written or belongs to another corpus
    ├── RetrievalError   a retriever could not answer (outage, not "no results")
    ├── AgentError       an agent could not complete (outage, context exhausted)
    ├── ReaderError      the reader of the validator could not answer
    ├── JudgeError       the judge gave no verdict
    ├── SpaceError       a text space is used where Gymnasium would corrupt it silently
    └── RunError         a run folder is missing, half-written or was made by another configuration

Wrong argument values stay ``ValueError`` and ``TypeError``. What a *model* does wrong is never an exception: it is
an observation. What *we* do wrong is never an observation and never a reward.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class SSPError(Exception):
    """Base of all deliberate failures."""


class ConfigError(SSPError):
    """Raised when a configuration names something unknown or contradicts itself."""


class CorpusError(SSPError):
    """Raised when a corpus cannot be read; the message names file and line."""


class StaleIndexError(SSPError):
    """Raised when a saved index is missing, half-written or was built from another corpus."""


class RetrievalError(SSPError):
    """Raised when a retriever cannot answer; an empty result list is not an error."""


class AgentError(SSPError):
    """Raised when an agent cannot complete."""


class ReaderError(SSPError):
    """Raised when the validator's reader cannot answer."""


class JudgeError(SSPError):
    """Raised when the judge gives no verdict."""


class SpaceError(SSPError):
    """Raised when a text space is used where Gymnasium would corrupt its values silently."""


class RunError(SSPError):
    """Raised when a run folder cannot be used as asked, or a round gave what must not be trained on."""


@contextmanager
def needs(package: str, *, extra: str, use: str) -> Iterator[None]:
    """Import optional packages in a ``with`` block; where one is missing, say which extra brings it.

    Raises:
        ImportError: If an import in the block fails.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{use} needs {package}: pip install 'ssp-env[{extra}]'") from error
