from __future__ import annotations

import json
import logging

from ssp_env.serve.logs import JsonFormatter


def test_log_line_is_json_whatever_is_in_it() -> None:
    record = logging.LogRecord("a", logging.WARNING, __file__, 1, "event\n%s", ("x",), None)
    record.fields = {"odd": object(), "text": "\u2028\n"}
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["event"] == "event\nx"
