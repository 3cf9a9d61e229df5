"""Errors as PostgreSQL tells them: a SQLSTATE, the message, the hint, and the place in the text.

Source: PostgreSQL 15, appendix A "Error Codes". The engine's own code stands in the DETAIL, so that its documentation is
found.
"""

from __future__ import annotations

from collections.abc import Iterator

from connectors.memory.constraints import BrokenConstraint
from runtime.core.errors import InternalError, MemoryLimitError, SqlEngineError

__all__ = ["PgError", "error_fields", "sqlstate"]

_STATES = {
    "E1100": "42601",
    "E1201": "42703",
    "E1202": "42P01",
    "E1203": "42883",
    "E1204": "42809",
    "E1205": "42702",
    "E1207": "42703",
    "E1210": "42803",
    "E1215": "42P20",
    "E1217": "42803",
    "E1219": "2201W",
    "E1222": "42712",
    "E1250": "42P02",
    "E1251": "08P01",
    "E1301": "42883",
    "E1302": "42883",
    "E1305": "42846",
    "E1306": "42P18",
    "E1307": "22003",
    "E1308": "22007",
    "E1314": "23502",
    "E1326": "23502",
    "E1401": "42P07",
    "E1402": "3D000",
    "E1403": "3F000",
    "E1405": "2BP01",
    "E1406": "42704",
    "E1409": "42809",
    "E1410": "2BP01",
    "E1411": "42809",
    "E1415": "2BP01",
    "E1450": "42P01",
    "E1452": "22023",
    "E1428": "42809",
    "E1440": "42723",
    "E1441": "42723",
    "E1442": "42883",
    "E1633": "57014",
    "E1470": "42710",
    "E1471": "2BP01",
    "E1472": "42809",
    "E1473": "42704",
    "E1474": "42939",
    "E1475": "0LP01",
    "E1476": "0LP01",
    "E1477": "0LP01",
    "E1478": "2BP01",
    "E1620": "57014",
    "E1636": "26000",
    "E1637": "42P05",
    "E1712": "25001",
    "E1716": "40001",
    "E1722": "25006",
    "E1803": "53400",
    "E1804": "53400",
    "E1805": "53400",
    "E2003": "2201B",
    "E2010": "23502",
    "E2011": "23502",
    "E2013": "21000",
    "E2015": "23505",
    "E2018": "21000",
    "E2023": "2200H",
    "E2024": "23514",
    "E2025": "23505",
    "E2026": "55000",
    "E2027": "42601",
    "E2028": "22038",
    "E2029": "22023",
    "E2101": "22P02",
    "E2102": "22012",
    "E2103": "22008",
    "E2104": "22003",
    "E2105": "22001",
    "E2110": "38000",
    "E2111": "39000",
}
"""By the code of the error."""

_FAMILIES = {
    "E11": "42601",
    "E12": "42P10",
    "E13": "42804",
    "E14": "42809",
    "E15": "22023",
    "E16": "0A000",
    "E17": "0A000",
    "E18": "42501",
    "E20": "22000",
    "E21": "22000",
    "E31": "58030",
    "E32": "22P04",
    "E34": "58000",
    "E37": "58000",
}
"""By its first digits."""


class PgError(Exception):
    """An error that the server itself tells, with its SQLSTATE."""

    def __init__(self, state: str, message: str, *, hint: str | None = None, detail: str | None = None) -> None:
        super().__init__(message)
        self.state = state
        self.hint = hint
        self.detail = detail


def sqlstate(error: SqlEngineError) -> str:
    """The SQLSTATE of an error of the engine."""
    if isinstance(error, InternalError):
        return "XX000"
    if isinstance(error, MemoryLimitError):
        return "53200"
    return _STATES.get(error.code) or _FAMILIES.get(error.code[:3]) or "58000"


def error_fields(error: BaseException, offset: int = 0, *, severity: str = "ERROR") -> Iterator[tuple[str, str]]:
    """The fields of an ErrorResponse.

    Args:
        offset: where in the client's message the text of the statement begins.
    """
    yield "S", severity
    yield "V", severity
    if isinstance(error, PgError):
        yield "C", error.state
        yield "M", str(error)
        if error.detail:
            yield "D", error.detail
        if error.hint:
            yield "H", error.hint
    elif isinstance(error, SqlEngineError):
        yield "C", sqlstate(error)
        yield "M", error.message
        yield "D", f"Code {error.code}."
        if error.hint:
            yield "H", error.hint
        if error.span is not None:
            yield "P", str(offset + error.span.start + 1)
        if isinstance(error, BrokenConstraint):
            _, schema, table = error.table.split(".", 2)
            yield "s", schema
            yield "t", table
            yield "n", error.constraint
    else:
        yield "C", "XX000"
        yield "M", f"internal error: {type(error).__name__}"
        yield "H", "this is a bug of the server; its log has the details"
