"""Errors as clients of Flink read them: what stands behind the last `Caused by:` is what they show."""

from __future__ import annotations

from runtime.core.errors import SqlEngineError
from runtime.core.logs import Log
from sqlengine.server.http.refused import Refused

__all__ = ["error_list", "error_text"]

_log = Log("server")


def error_text(error: BaseException) -> str:
    """What to tell of an error; of one that is none of SQL nothing but that there was one."""
    if isinstance(error, SqlEngineError):
        return str(error)
    if isinstance(error, Refused):
        return error.errors[0]
    _log.failure("gateway", error)
    return "E9100 internal error; the log of the server says more"


def error_list(error: BaseException) -> list[str]:
    """The `errors` of an answer for a statement that has failed."""
    lines = error_text(error).splitlines() or [""]
    # A line that begins with a tab and `at` would end the message at the client.
    told = "\n".join(line.replace("\t", "    ") for line in lines)
    cause = (
        "<Exception on server side:\n"
        "org.apache.flink.table.gateway.service.utils.SqlExecutionException: Failed to execute the operation.\n"
        f"Caused by: sqlengine.SqlError: {told}\n"
        "\tat sqlengine\n\n"
        "End of exception on server side>"
    )
    return ["Internal server error.", cause]
