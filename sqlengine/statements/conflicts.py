"""INSERT .. ON CONFLICT into tables without connector, as in PostgreSQL: what happens to rows whose primary key is there, or the
values of a UNIQUE.

    rows of the statement -- key --> rows that are there, with those of the open epoch
        none is there:   the row is inserted
        one is there:    NOTHING leaves it, ERROR raises, UPDATE computes its new values from both rows

All of it works on columns. The rows that are there are looked up in the indexes of the table with its lock held; when
another session has changed one of the changed rows since, the statement is carried out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from connectors.memory import MemoryTable, OpenChanges
from connectors.memory.constraints import UniqueRule
from connectors.values.constants import ConstantTable
from planner.logical.nodes import Project, Scan
from runtime.core.changelog import INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import CatalogError, ExpressionError, PlanningError, UnsupportedError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.eval.context import BatchContext
from runtime.eval.evaluator import Evaluator
from runtime.expr.nodes import Column, Expr
from runtime.expr.rewrite import to_input_refs
from runtime.kernels.grouping import distinct_rows
from runtime.state.keyed import KeyIndex
from sqlengine.bind.conflict import bind_conflict_update
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.binding import Binding
from sqlengine.database.recovery import savepoint_named
from sqlengine.database.session import Session
from sqlengine.parameters.rows import OneByOne, bound
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.parameters import marks_of
from sqlengine.results.result import Result
from sqlengine.statements.constant_rows import constant_rows
from sqlengine.statements.epochs import in_epoch, together
from sqlengine.statements.inserted_rows import inserted_rows, without_null
from sqlengine.statements.parameter_rows import parameter_rows
from sqlengine.statements.row_changes import is_short
from sqlengine.text.amounts import counted_rows

__all__ = ["bound_update", "insert_on_conflict"]


def insert_on_conflict(statement: st.Insert, session: Session, table: CatalogTable) -> Result | None:
    """Carry out an INSERT with ON CONFLICT; None for what has only the meaning of Flink: DO DEDUPLICATE, a table without
    a primary key, and input that does not end.

    Raises:
        UnsupportedError: E1607, the conflict target is neither the primary key nor a UNIQUE, or the input of DO UPDATE does not end.
        PlanningError: E1710, the table is append-only.
        ExpressionError: E2015, a key is there already (DO ERROR); E2018, DO UPDATE meets a row twice; E2011, NULL for a
            NOT NULL column.
    """
    needed = _is_needed(statement)
    arbiters = _arbiters(statement, table)
    if statement.on_conflict == "DEDUPLICATE" or not arbiters or statement.overwrite:
        return None
    if savepoint_named(session) and not needed:
        return None
    if session.memory_table(table).append_only:
        raise PlanningError(
            f'"{table.path.name}" is append-only: it does not look rows up by key',
            code="E1710",
            span=statement.table.span,
            hint="leave ON CONFLICT out, or create it WITH ('changelog-mode' = 'retract')",
        )
    plain = statement.with_(on_conflict=None, conflict_target=(), conflict_constraint=None, assignments=(), where=None)
    known = _known(plain, session, table)
    if known is not None:

        def write() -> Result:
            return in_epoch(session, lambda: _write(statement, session, table, arbiters, known))

        return together(session, write, table.storage) if is_short(statement, session, table) else write()
    return in_epoch(session, lambda: _inserted(statement, plain, session, table, arbiters, needed))


def _is_needed(statement: st.Insert) -> bool:
    """Whether the statement means nothing without a look at the rows that are there."""
    given = bool(statement.conflict_target) or statement.conflict_constraint is not None
    return given or statement.on_conflict == "UPDATE"


@dataclass(frozen=True)
class _Arbiter:
    """What must not repeat: the primary key, or the columns of a UNIQUE, whose constraint has a `name`."""

    columns: tuple[str, ...]
    name: str | None = None

    def rule(self, contents: MemoryTable) -> UniqueRule | None:
        rules = () if contents.rules is None else contents.rules.uniques
        return next((rule for rule in rules if rule.name == self.name), None)


def _arbiters(statement: st.Insert, table: CatalogTable) -> Sequence[_Arbiter]:
    """By what rows conflict. Raises UnsupportedError E1607, CatalogError E1414."""
    key = [_Arbiter(table.primary_key)] if table.primary_key else []
    # A UNIQUE with all columns of the key holds where the key does.
    uniques = [
        _Arbiter(c.columns, c.name)
        for c in table.constraints
        if c.condition is None and not (table.primary_key and set(table.primary_key) <= set(c.columns))
    ]
    if _is_needed(statement) and not key and not uniques:
        raise UnsupportedError(
            f'"{table.path.name}" has no primary key and no UNIQUE: no two rows conflict',
            code="E1607",
            span=statement.table.span,
            hint="leave ON CONFLICT out, or create the table with a PRIMARY KEY",
        )
    named = statement.conflict_constraint
    if named is not None:
        names = {table.constraint_name or f"{table.path.name}_pkey": key[0]} if key else {}
        names |= {arbiter.name or "": arbiter for arbiter in uniques}
        if named.text not in names:
            raise CatalogError(
                f'unknown constraint "{named.text}"',
                code="E1414",
                span=named.span,
                hint=did_you_mean(named.text, names),
            )
        return [names[named.text]]
    target = [name.text for name in statement.conflict_target]
    if target:
        found = [a for a in (*key, *uniques) if set(a.columns) == set(target) and len(set(target)) == len(target)]
        if not found:
            known = " or ".join(f"({', '.join(a.columns)})" for a in (*key, *uniques))
            raise UnsupportedError(
                f"the conflict target ({', '.join(target)}) is neither the primary key nor a UNIQUE, which is {known}",
                code="E1607",
                span=statement.conflict_target[0].span,
                hint=f"ON CONFLICT {known.partition(' or ')[0]}",
            )
        return found[:1]
    if statement.on_conflict == "UPDATE":
        return (*key, *uniques)[:1]
    return (*key, *uniques) if statement.on_conflict == "NOTHING" else key


def _known(plain: st.Insert, session: Session, table: CatalogTable) -> pa.RecordBatch | None:
    """The rows of an INSERT of rows that stand in the statement."""
    parameters = session.parameters
    if parameters is None or not parameters.keys:
        return constant_rows(session, plain, table)
    return parameter_rows(session, plain, table, parameters)


def _inserted(
    statement: st.Insert,
    plain: st.Insert,
    session: Session,
    table: CatalogTable,
    arbiters: Sequence[_Arbiter],
    needed: bool,
) -> Result | None:
    """The same for rows of a query, in the order of its ORDER BY; None for one that does not end."""
    rows = inserted_rows(plain, session, table)
    if rows is None:
        if not needed:
            return None
        raise UnsupportedError(
            "ON CONFLICT with columns or with DO UPDATE needs input that ends",
            code="E1607",
            span=statement.query.span,
            hint="ON CONFLICT DO NOTHING and DO ERROR of a job are about the rows of the job; without ON CONFLICT the last "
            "row of a key stays",
        )
    return _write(statement, session, table, arbiters, rows, str(table.path))


def _write(
    statement: st.Insert,
    session: Session,
    table: CatalogTable,
    arbiters: Sequence[_Arbiter],
    rows: pa.RecordBatch,
    counted: str = "rows",
) -> Result:
    """Insert rows that have the columns of the table. `counted`: the name of the count's column."""
    contents = session.to_write(table)
    assert isinstance(contents, OpenChanges)
    rows = without_null(contents, contents.table.exactly(rows), session)
    changes = _changes(statement, session, table, contents, arbiters, rows) if rows.num_rows else None
    count = 0
    if changes is not None and len(changes):
        contents.apply(changes)
        count = int(np.count_nonzero(changes.kinds_or_inserts() != UPDATE_BEFORE))
    summary = f"{counted_rows(count)} written to {table.path.name}"
    return Result.table(Schema.of((counted, BIGINT.not_null())), [[count]], summary=summary)


def _changes(
    statement: st.Insert,
    session: Session,
    table: CatalogTable,
    contents: OpenChanges,
    arbiters: Sequence[_Arbiter],
    rows: pa.RecordBatch,
) -> ChangelogBatch:
    found = [_Conflicts.of(arbiter, contents, session, table, rows) for arbiter in arbiters]
    known = found[0]
    if len(found) > 1:
        return ChangelogBatch(rows.take(pa.array(_free_of_all(found))))
    if statement.on_conflict == "UPDATE":
        if not known.first.all():
            _check_one_statement(session)
        return _updated(statement, session, table, arbiters[0], rows, known)
    if statement.on_conflict == "ERROR" and (known.held.any() or not known.first.all()):
        raise _conflict(contents, rows, contents.table.key_positions, known.slots, known.first, known.held)
    return ChangelogBatch(rows.take(pa.array(np.flatnonzero(known.first & ~known.held))))


@dataclass(frozen=True)
class _Conflicts:
    """For rows of a statement, by one arbiter: a number of what must not repeat, which of them have it first, which meet a
    row that is there, and those rows."""

    slots: np.ndarray
    first: np.ndarray
    held: np.ndarray
    there: pa.RecordBatch

    @staticmethod
    def of(
        arbiter: _Arbiter, contents: OpenChanges, session: Session, table: CatalogTable, rows: pa.RecordBatch
    ) -> _Conflicts:
        positions = [rows.schema.get_field_index(name) for name in arbiter.columns]
        keys = [rows.column(p) for p in positions]
        index = KeyIndex([key.type for key in keys])
        slots, first = index.insert(keys, rows.num_rows)
        with session.alone(lambda: session.views.touched({table.storage})):
            rule = arbiter.rule(contents.table)
            if rule is None:
                held, there = contents.rows_by_key(keys)
            else:
                held, there = contents.rows_by_unique(rule, keys)
                missing = rule.missing(keys, rows.num_rows)
                slots = np.where(missing, index.capacity + np.arange(rows.num_rows), slots)
                first = first | missing
        return _Conflicts(slots, first, held, there)


def _free_of_all(found: Sequence[_Conflicts]) -> np.ndarray:
    """The rows, ascending, that conflict by no arbiter with a row that is there, or with one of these before them.

    Which those are depends on their order, so rows that are alike by some arbiter are looked at one by one."""
    free = ~np.any([known.held for known in found], axis=0)
    candidates = np.flatnonzero(free)
    alike = np.zeros(len(free), np.bool_)
    for known in found:
        _, where, counts = np.unique(known.slots[candidates], return_inverse=True, return_counts=True)
        alike[candidates] |= counts[where] > 1
    taken: list[set[int]] = [set() for _ in found]
    for row in np.flatnonzero(alike & free).tolist():
        slots = [int(known.slots[row]) for known in found]
        free[row] = not any(slot in used for slot, used in zip(slots, taken, strict=True))
        if free[row]:
            for slot, used in zip(slots, taken, strict=True):
                used.add(slot)
    return np.flatnonzero(free)


def _check_one_statement(session: Session) -> None:
    """Many rows of values are a statement each: a key may come again."""
    if session.parameters is not None and session.parameters.count_of_rows > 1:
        raise OneByOne


def _conflict(
    contents: OpenChanges,
    rows: pa.RecordBatch,
    positions: list[int],
    slots: np.ndarray,
    first: np.ndarray,
    held: np.ndarray,
) -> ExpressionError:
    at = int(np.flatnonzero(held if held.any() else ~first)[0])
    key = ", ".join(f"{contents.schema[p].name} = {rows.column(p)[at].as_py()}" for p in positions)
    if held.any():
        return ExpressionError(
            f"a row with {key} is in {contents.name} already",
            code="E2015",
            hint="ON CONFLICT DO NOTHING leaves it as it is, DO UPDATE changes it",
        )
    return ExpressionError(
        f"rows of the query clash on the primary key: {int(np.count_nonzero(slots == slots[at]))} have {key}",
        code="E2015",
        hint="ON CONFLICT DO NOTHING keeps the first of them, DO DEDUPLICATE the last",
    )


def _updated(
    statement: st.Insert,
    session: Session,
    table: CatalogTable,
    arbiter: _Arbiter,
    rows: pa.RecordBatch,
    known: _Conflicts,
) -> ChangelogBatch:
    """DO UPDATE."""
    slots, held, there = known.slots, known.held, known.there
    at = np.flatnonzero(held)
    columns, items = bound_update(statement, session, table)
    excluded = rows.take(pa.array(at))
    (passes,) = _evaluate(items[:1], columns, there, excluded, session)
    chosen = np.flatnonzero(np.asarray(passes.fill_null(False)))
    updated, inserted = at[chosen], np.flatnonzero(~held)
    repeated = np.setdiff1d(np.concatenate([updated, inserted]), distinct_rows(slots, last=True))
    if len(repeated):
        key = ", ".join(f"{name} = {rows.column(name)[int(repeated[0])].as_py()}" for name in arbiter.columns)
        raise ExpressionError(
            f"ON CONFLICT DO UPDATE cannot affect a row a second time: several rows have {key}",
            code="E2018",
            hint="give each key once, for example with GROUP BY or DISTINCT",
        )
    before, excluded = there.take(pa.array(chosen)), excluded.take(pa.array(chosen))
    values = _evaluate(items[1:], columns, before, excluded, session)
    new = dict(zip((column.name for column, _ in items[1:]), values, strict=True))
    after = pa.RecordBatch.from_arrays(
        [new.get(f.name, before.column(i)) for i, f in enumerate(rows.schema)], schema=rows.schema
    )
    _check_not_null(table, session, after)
    counts = [len(inserted), len(updated), len(updated)]
    kinds = np.repeat(np.array([INSERT, UPDATE_BEFORE, UPDATE_AFTER], np.int8), counts)
    whole = ChangelogBatch.concat([ChangelogBatch(part) for part in (rows.take(pa.array(inserted)), before, after)])
    place = np.concatenate([inserted * 2, updated * 2, updated * 2 + 1])
    return ChangelogBatch(whole.rows, kinds).take(np.argsort(place, kind="stable"))


def _check_not_null(table: CatalogTable, session: Session, rows: pa.RecordBatch) -> None:
    for column, f in zip(rows.columns, session.memory_table(table).schema, strict=True):
        if not f.type.nullable and column.null_count:
            raise ExpressionError(
                f'column "{f.name}" of {table.path} is NOT NULL, and {column.null_count} of the updated rows would have no value',
                code="E2011",
                hint="leave such rows out with WHERE, or use COALESCE",
            )


_Items = tuple[tuple[Column, Expr], ...]


def bound_update(statement: st.Insert, session: Session, table: CatalogTable) -> tuple[tuple[Column, ...], _Items]:
    """What DO UPDATE computes, with the values of its parameters."""
    schema = session.memory_table(table).schema
    binding, parameters = Binding(session, False), session.parameters
    found: list[tuple[Column, ...]] = []

    def bind() -> Project:
        columns, items = bind_conflict_update(statement, table, schema, binding)
        found.append(columns)
        names = [f"c{i}" for i in range(len(columns))]
        rows = pa.RecordBatch.from_arrays([pa.nulls(0, c.type.arrow) for c in columns], names=names)
        pair = Schema.of(*((name, column.type) for name, column in zip(names, columns, strict=True)))
        return Project(Scan(ConstantTable(pair, rows), "ON CONFLICT", columns), items)

    texts = [value for _, value in statement.assignments] + ([] if statement.where is None else [statement.where])
    marked = any(marks_of(text) for text in texts)
    made = bind() if parameters is None or not marked else bound(parameters, bind)
    return found[-1], made.items


def _evaluate(
    items: _Items, columns: tuple[Column, ...], before: pa.RecordBatch, excluded: pa.RecordBatch, session: Session
) -> list[pa.Array]:
    """The values over pairs of rows."""
    count = before.num_rows
    pairs = pa.RecordBatch.from_arrays([*before.columns, *excluded.columns], [f"c{i}" for i in range(len(columns))])
    values = [to_input_refs(value, columns) for _, value in items]
    context = BatchContext(count, session.time_zone, session.clock.now())
    return Evaluator(values, session.functions).evaluate(pairs, context)
