"""One JSON object a line on standard error, for our own events and for those of the web server."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

LOGGER = "ssp_env.serve"


class JsonFormatter(logging.Formatter):
    """Writes time, level, event and the mapping given as ``extra={"fields": ...}``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=True, default=repr)


def log_config() -> dict[str, object]:
    """Return the logging configuration of a server process, for ``logging.config.dictConfig``."""
    loggers = {name: {"handlers": ["stderr"], "level": "INFO", "propagate": False} for name in (LOGGER, "uvicorn")}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "loggers": loggers,
    }
