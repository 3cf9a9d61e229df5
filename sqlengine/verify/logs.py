"""Rows of a table with the order in which they have come: versions of temporal joins, FIRST_VALUE and LAST_VALUE.

A log of a plan is a query of its columns and three more: `arrival` (a number that grows with every change), `came` (the
epoch) and `gone` (whether the row was taken back). Old rows of updates are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from runtime.expr.nodes import Call, Cast, Column, ColumnRef, Expr, Literal, WindowCall
from runtime.plan.parts import JoinKind
from sqlengine.verify.texts import CannotVerify, Texts, duck_type, name_of

__all__ = ["LATE", "Logs", "lookup_join"]

LATE = "sqlengine: a version that came late"
_CARRIED = "arrival, came, gone"


class _Asked(Protocol):
    def history(self, scan: n.Scan) -> str:
        """The name of a table's log: its columns by their own names, and `$arrival`, `$came`, `$gone`."""
        ...

    def closed(self, plan: LogicalNode) -> str:
        """The watermark of a plan in milliseconds, as text."""
        ...

    def marks(self, plan: LogicalNode) -> str:
        """The name of a table of the watermark of a plan (`known`) before each epoch (`came`)."""
        ...


class Logs:
    """The texts of logs.

    Args:
        texts: of expressions.
        asked: knows the tables.
        scanned: the text of the columns of a scan.
        window: the text of a window function over a text of its input, with the columns of logs carried along.
        of: the text of a whole plan.
    """

    def __init__(
        self,
        texts: Texts,
        asked: _Asked,
        scanned: Callable[[n.Scan], str],
        window: Callable[[n.WindowTable, str], str],
        of: Callable[[LogicalNode], str],
    ) -> None:
        self._texts, self._asked, self._scanned, self._window, self._of = texts, asked, scanned, window, of

    def arriving(self, plan: LogicalNode) -> str:
        """The log of rows that are never taken back, for FIRST_VALUE and LAST_VALUE. Raises CannotVerify."""
        match plan:
            case n.Scan(table=table) if table is not None and table.changelog_mode.is_append_only:
                return self._log(plan)
            case n.AssignWatermark(input=source):
                return self.arriving(source)
            case n.Filter(input=source, predicate=predicate):
                return f"SELECT * FROM ({self.arriving(source)}) WHERE {self._texts.of(predicate)}"
            case n.Project(input=source, items=items):
                return self._projected(items, self.arriving(source))
            case n.WindowTable(input=source):
                return self._window(plan, self.arriving(source))
            case _:
                raise CannotVerify(
                    "FIRST_VALUE or LAST_VALUE over anything but the rows of one table that only grows, because the order "
                    "of arrival is known there alone"
                )

    def _log(self, scan: n.Scan) -> str:
        return (
            f'SELECT {self._scanned(scan)}, "$arrival" AS arrival, "$came" AS came, "$gone" AS gone '
            f"FROM {self._asked.history(scan)}"
        )

    def _projected(self, items: Sequence[tuple[Column, Expr]], below: str) -> str:
        texts = [f"{self._texts.of(e)} AS {name_of(c.id)}" for c, e in items]
        return f"SELECT {', '.join([*texts, _CARRIED])} FROM ({below})"

    # --- temporal joins

    def temporal(self, plan: n.TemporalJoin) -> str:
        """Each left row that event time has passed with the version that was valid at its time. Raises CannotVerify."""
        if not isinstance(plan.time, ColumnRef) or not plan.time.type.is_rowtime:
            raise CannotVerify("a temporal join by anything but a rowtime column")
        times = [c for c in plan.right.columns if c.type.is_rowtime]
        if not times:
            raise CannotVerify("a temporal join with versions that have no event time")
        versions, keys = self._versions(plan.right)
        at, key = name_of(times[0].id), ", ".join(map(name_of, keys))
        known = f"SELECT * FROM ({versions}) JOIN {self._asked.marks(plan)} USING (came)"
        late = f"{at} IS NULL OR epoch_ms({at}) <= known"
        timely = f"SELECT * FROM ({known}) WHERE CASE WHEN {late} THEN error('{LATE}') ELSE true END"
        # The delete of the newest version is the first half of an update when its key comes again in the epoch.
        halves = (
            f"SELECT *, MAX({at}) OVER (PARTITION BY {key} ORDER BY came RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) "
            f"AS newest, MAX(CASE WHEN gone THEN -1 ELSE arrival END) OVER (PARTITION BY {key}, came) AS last_row "
            f"FROM ({timely})"
        )
        whole = f"SELECT * FROM ({halves}) WHERE NOT (gone AND arrival < last_row AND {at} IS NOT DISTINCT FROM newest)"
        valid = f"SELECT *, LEAD({at}) OVER (PARTITION BY {key} ORDER BY {at}, arrival) AS until FROM ({whole})"
        time = name_of(plan.time.id)
        due = f"SELECT * FROM ({self._of(plan.left)}) WHERE epoch_ms({time}) <= {self._asked.closed(plan)}"
        columns = ", ".join(name_of(c.id) for c in plan.columns)
        word = "LEFT JOIN" if plan.kind is JoinKind.LEFT else "JOIN"
        return (
            f"SELECT {columns} FROM ({due}) {word} (SELECT * FROM ({valid}) WHERE NOT gone) ON {time} >= {at} "
            f"AND (until IS NULL OR {time} < until) AND {self._texts.of(plan.condition)}"
        )

    def _versions(self, plan: LogicalNode) -> tuple[str, tuple[int, ...]]:
        """The log of a versioned table, and its key: a table with a primary key, or the last row of each key."""
        match plan:
            case n.AssignWatermark(input=source):
                return self._versions(source)
            case n.Project(input=source, items=items):
                below, keys = self._versions(source)
                return self._projected(items, below), _moved(items, keys)
            case n.Scan(table=table, keys=[first, *_]) if table is not None:
                return self._log(plan), first
            case n.Filter(input=n.Project(input=n.Over() as over, items=items), predicate=predicate):
                number = over.calls[0][0]
                numbers = {c.id for c, e in items if isinstance(e, ColumnRef) and e.id == number.id}
                partition = _last_row(over)
                if partition is not None and _is_first(predicate, numbers):
                    below = self.arriving(over.input)
                    numbered = f"SELECT *, CAST(1 AS {duck_type(number.type)}) AS {name_of(number.id)} FROM ({below})"
                    return self._projected(items, numbered), _moved(items, partition)
        raise CannotVerify(
            "a temporal join with versions that are neither a table with a key nor the last row of each key"
        )


def lookup_join(plan: n.TemporalJoin) -> CannotVerify:
    """Why a lookup join is not checked."""
    del plan
    return CannotVerify(
        "a lookup join, because each row has the answer of the moment when it asked, and nobody keeps those"
    )


def _moved(items: Sequence[tuple[Column, Expr]], keys: Sequence[int]) -> tuple[int, ...]:
    moved = {e.id: c.id for c, e in items if isinstance(e, ColumnRef)}
    if any(k not in moved for k in keys):
        raise CannotVerify("a temporal join with versions whose key is not selected")
    return tuple(moved[k] for k in keys)


def _last_row(over: n.Over) -> tuple[int, ...] | None:
    """The key of `ROW_NUMBER() OVER (PARTITION BY key ORDER BY rowtime DESC)`."""
    if len(over.calls) != 1:
        return None
    call: WindowCall = over.calls[0][1]
    by = call.order_by
    if call.function != "ROW_NUMBER" or len(by) != 1 or not by[0].descending or not by[0].expr.type.is_rowtime:
        return None
    keys = tuple(e.id for e in call.partition_by if isinstance(e, ColumnRef))
    return keys if keys and len(keys) == len(call.partition_by) else None


def _is_first(predicate: Expr, numbers: set[int]) -> bool:
    """Whether a condition keeps the rows with the number 1."""
    if not isinstance(predicate, Call) or len(predicate.args) != 2:
        return False
    column, value = (e.value if isinstance(e, Cast) else e for e in predicate.args)
    if not isinstance(column, ColumnRef) or column.id not in numbers or not isinstance(value, Literal):
        return False
    return (predicate.function, value.value) in {("=", 1), ("<=", 1), ("<", 2)}
