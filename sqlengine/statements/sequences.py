"""CREATE, ALTER and DROP SEQUENCE, and what becomes of sequences whose column goes or has another name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from runtime.core.errors import CatalogError, Span, UnsupportedError, did_you_mean, pointing_at
from runtime.core.types import BIGINT, DataType
from sqlengine.catalog.definitions import CatalogSequence, range_of_type
from sqlengine.catalog.objects import CatalogTable, DefaultValue, ObjectPath, PhysicalColumn
from sqlengine.database.number_functions import find_sequence
from sqlengine.database.session import Session
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import session_nodes as sn
from sqlengine.parse.sequence_names import asks_for_number, sequence_names, with_sequence_names
from sqlengine.results.result import Result
from sqlengine.statements.create_text import literal
from sqlengine.statements.definitions import is_free

__all__ = [
    "alter_sequence",
    "create_sequence",
    "declared_sequence",
    "drop_sequence",
    "follow_table",
    "with_whole_names",
]

_IN_MEMORY = "generic_in_memory"


def create_sequence(statement: sn.CreateSequence, session: Session) -> Result:
    """Make a sequence known by a name. Raises CatalogError E1401, E1452 and UnsupportedError."""
    made, span = declared_sequence(statement, session), statement.name.span
    if not is_free(made, session, span, if_not_exists=statement.if_not_exists):
        return Result.ok()
    if session.catalogs.find(made.path) is not None:
        raise CatalogError(
            f'"{made.path.name}" exists already', code="E1401", span=span, hint="give the sequence another name"
        )
    if session.catalogs.catalog(made.path.catalog).options.get("type") != _IN_MEMORY:
        raise UnsupportedError(
            f"the catalog {made.path.catalog} keeps no numbers, so it has no sequences",
            span=span,
            hint="CREATE SEQUENCE in a catalog of the database's own",
        )
    _check_owner(made, session, _said(statement.options, "OWNED BY"))
    session.database.sequences.forget(made.path)
    session.catalogs.define(made)
    return Result.ok()


def declared_sequence(statement: sn.CreateSequence, session: Session) -> CatalogSequence:
    """The sequence of a statement, also of one that was carried out before. Raises CatalogError E1452."""
    path = session.catalogs.qualify(statement.name.parts)
    given = {option.word: option.value for option in statement.options}
    return _with_options(path, given, None, statement.name.span)


def _with_options(
    path: ObjectPath, given: Mapping[str, object], before: CatalogSequence | None, span: Span | None
) -> CatalogSequence:
    """A sequence as its clauses say; where these say nothing as it was before, or as PostgreSQL has it."""

    def number(word: str, known: int | None) -> int | None:
        value = given.get(word, known)
        assert value is None or isinstance(value, int)
        return value

    type_ = given.get("AS", BIGINT if before is None else before.type)
    assert isinstance(type_, DataType)
    least, greatest = range_of_type(type_)
    step = number("INCREMENT", 1 if before is None else before.step) or 1
    rises = step > 0
    before_least, before_greatest = (0, 0) if before is None else range_of_type(before.type)
    # The ends of another type are those of the new one.
    other = before is not None and before.type.root is not type_.root
    to_least = other and before is not None and before.low == before_least
    to_greatest = other and before is not None and before.high == before_greatest
    low = number("MINVALUE", None if before is None or to_least else before.low)
    high = number("MAXVALUE", None if before is None or to_greatest else before.high)
    low = (least if to_least or not rises else 1) if low is None else low
    high = (greatest if to_greatest or rises else -1) if high is None else high
    start = number("START", None if before is None else before.start)
    start = (low if rises else high) if start is None else start
    cache = number("CACHE", 1 if before is None else before.cache) or 0
    wrong = (
        f"MINVALUE {low} is not less than MAXVALUE {high}"
        if low >= high
        else f"{type_.with_nullable(True)} has no numbers from {low} to {high}"
        if low < least or high > greatest
        else f"START {start} is not between {low} and {high}"
        if not low <= start <= high
        else f"CACHE {cache} is less than 1"
        if cache < 1
        else None
    )
    if wrong is not None:
        raise CatalogError(wrong, code="E1452", span=span, hint="a sequence has MINVALUE <= START <= MAXVALUE")
    owner = given.get("OWNED BY", None if before is None else before.owner)
    if isinstance(owner, ddl.ObjectName):
        owner = (ObjectPath(path.catalog, *(path.database, *owner.parts)[-3:-1]), owner.parts[-1])
    cycle = bool(given.get("CYCLE", before is not None and before.cycle))
    return CatalogSequence(
        path=path, type=type_.with_nullable(True), start=start, step=step, low=low, high=high, cache=cache, cycle=cycle,
        owner=owner,  # type: ignore[arg-type]
    )  # fmt: skip


def _said(options: Sequence[sn.SequenceOption], word: str) -> Span | None:
    """Where a name stands in a clause."""
    value = next((option.value for option in options if option.word == word), None)
    return value.span if isinstance(value, ddl.ObjectName) else None


def _check_owner(sequence: CatalogSequence, session: Session, span: Span | None) -> None:
    if sequence.owner is None:
        return
    path, name = sequence.owner
    table = session.catalogs.get(path.parts, span, "stored table")
    columns = (
        [c.name for c in table.columns if isinstance(c, PhysicalColumn)] if isinstance(table, CatalogTable) else []
    )
    if name not in columns or path.database != sequence.path.database:
        raise CatalogError(
            f'"{path.name}" has no column "{name}" with which a sequence of "{sequence.path.database}" could go',
            code="E1452",
            span=span,
            hint=did_you_mean(name, columns) or "a table of the same database has the column",
        )


def alter_sequence(statement: sn.AlterSequence, session: Session) -> Result:
    """Have a sequence give other numbers, or have another name or owner. RESTART is all that one of a column takes."""
    catalogs, name = session.catalogs, statement.name
    path = catalogs.qualify(name.parts)
    found = catalogs.find_definition("sequence", path)
    if not isinstance(found, CatalogSequence):
        return _alter_column(statement, session)
    if isinstance(statement.action, ddl.RenameTo):
        _check_unused(found, session, name.span, "renamed")
        renamed = replace(found, path=replace(found.path, name=statement.action.name.parts[-1]))
        if catalogs.qualify(statement.action.name.parts) != renamed.path and len(statement.action.name.parts) > 1:
            raise CatalogError(
                "a sequence stays in its database",
                code="E1413",
                span=statement.action.name.span,
                hint="CREATE SEQUENCE there, and DROP this one",
            )
        is_free(renamed, session, statement.action.name.span, if_not_exists=False)
        catalogs.undefine(found)
        session.database.sequences.change(found, renamed, None)
        catalogs.define(renamed)
        return Result.ok()
    given = {option.word: option.value for option in statement.action}
    changed = _with_options(path, given, found, name.span)
    if "OWNED BY" in given:
        _check_owner(changed, session, _said(statement.action, "OWNED BY"))
    restart = _restart(given, changed, name.span)
    last = session.database.sequences.of(found).last
    if restart is None and not changed.low <= last <= changed.high:
        raise CatalogError(
            f"the number that was given last, {last}, is not between {changed.low} and {changed.high}",
            code="E1452",
            span=name.span,
            hint=f"add RESTART WITH {changed.start}",
        )
    session.database.sequences.change(found, changed, restart)
    catalogs.define(changed)
    return Result.ok()


def _restart(given: Mapping[str, object], sequence: CatalogSequence, span: Span | None) -> int | None:
    """The number with which a sequence begins anew; None where it goes on."""
    if "RESTART" not in given:
        return None
    said = given["RESTART"]
    number = said if isinstance(said, int) else sequence.start
    if not sequence.low <= number <= sequence.high:
        raise CatalogError(
            f"RESTART {number} is not between {sequence.low} and {sequence.high}",
            code="E1452",
            span=span,
            hint="MINVALUE and MAXVALUE say which numbers there are",
        )
    return number


def _alter_column(statement: sn.AlterSequence, session: Session) -> Result:
    name = statement.name
    try:
        with pointing_at(name.span):
            found = find_sequence(session, ".".join(f'"{part}"' for part in name.parts))
    except CatalogError:
        if statement.if_exists:
            return Result.ok()
        raise
    given = {} if isinstance(statement.action, ddl.RenameTo) else {o.word: o.value for o in statement.action}
    if found.column is None or set(given) != {"RESTART"}:
        raise UnsupportedError(
            f'"{name}" is the sequence of a numbered column, which is only restarted',
            span=name.span,
            hint=f"ALTER SEQUENCE {name} RESTART WITH 1",
        )
    restart = _restart(given, found.sequence, name.span)
    assert restart is not None
    session.database.sequences.set_column(*found.column, restart, called=False)
    return Result.ok()


def drop_sequence(statement: sn.DropSequence, session: Session) -> Result:
    """Forget sequences. CASCADE takes the default values away that ask them. Raises CatalogError E1410, E1450."""
    catalogs = session.catalogs
    dropped: list[CatalogSequence] = []
    for name in statement.names:
        if statement.if_exists and catalogs.find_definition("sequence", catalogs.qualify(name.parts)) is None:
            continue
        found = catalogs.definition("sequence", name.parts, name.span)
        assert isinstance(found, CatalogSequence)
        if not statement.cascade:
            _check_unused(found, session, name.span, "dropped")
        dropped.append(found)
    for sequence in dropped:
        for table, column in _users(sequence, session):
            columns = tuple(replace(c, default=None) if c is column else c for c in table.columns)  # type: ignore[arg-type]
            catalogs.replace(replace(table, columns=columns))
        _drop(sequence, session)
    return Result.ok()


def _drop(sequence: CatalogSequence, session: Session) -> None:
    session.catalogs.undefine(sequence)
    session.database.sequences.forget(sequence.path)


def _check_unused(sequence: CatalogSequence, session: Session, span: Span | None, what: str) -> None:
    """Raise CatalogError E1410 where a default value asks the sequence."""
    for table, column in _users(sequence, session):
        cascade = ", or DROP SEQUENCE .. CASCADE" if what == "dropped" else ""
        raise CatalogError(
            f'the sequence "{sequence.path.name}" cannot be {what}: '
            f'the default value of "{column.name}" of {table.path} asks it',
            code="E1410",
            span=span,
            hint=f"ALTER TABLE {table.path.name} ALTER {column.name} DROP DEFAULT first{cascade}",
        )


def _users(sequence: CatalogSequence, session: Session) -> Iterator[tuple[CatalogTable, PhysicalColumn]]:
    """The columns whose default values ask a sequence."""
    name = _whole_name(sequence.path)
    for thing in list(session.catalogs.all_objects()):
        for column in thing.columns if isinstance(thing, CatalogTable) else ():
            if isinstance(column, PhysicalColumn) and column.default is not None:
                if name in sequence_names(column.default.expression):
                    yield thing, column  # type: ignore[misc]


# --- what tables have to do with them
# ---------------------------------------------------------------------------------------------------------------------


def with_whole_names(table: CatalogTable, session: Session) -> CatalogTable:
    """The table with default values that name sequences by their whole names, wherever they are computed.

    Raises CatalogError E1450 for a sequence that is not there."""
    return replace(
        table,
        columns=tuple(
            replace(c, default=_with_whole_names(c.default, session))
            if isinstance(c, PhysicalColumn) and c.default is not None and asks_for_number(c.default.expression)
            else c
            for c in table.columns
        ),
    )


def _with_whole_names(default: DefaultValue, session: Session) -> DefaultValue:
    text = default.text
    names = {n: _whole_name(find_sequence(session, n).sequence.path) for n in sequence_names(default.expression)}
    for name, whole in names.items():
        text = text.replace(literal(name), literal(whole))
    return DefaultValue(with_sequence_names(default.expression, names), text)


def _whole_name(path: ObjectPath) -> str:
    return ".".join(p if p.isidentifier() and p == p.lower() else f'"{p}"' for p in path.parts)


def follow_table(
    before: CatalogTable, after: CatalogTable | None, session: Session, renamed: tuple[str, str] | None = None
) -> None:
    """Sequences that go with a column of a table are dropped with it, or follow its new name (`renamed`: from, to).
    `after`: the table as it is now, None when it is gone.

    Raises CatalogError E1410 where a default value of another table asks one that would go."""
    owned: list[CatalogSequence] = []
    for found in session.catalogs.definitions("sequence", before.path.catalog, before.path.database):
        if isinstance(found, CatalogSequence) and found.owner is not None and found.owner[0] == before.path:
            owned.append(found)
    old, new = renamed or ("", "")
    for sequence in owned:
        assert sequence.owner is not None
        column = new if sequence.owner[1] == old else sequence.owner[1]
        if after is None or after.column(column) is None:
            for table, user in _users(sequence, session):
                if table.path != before.path or (after is not None and after.column(user.name) is not None):
                    _check_unused(sequence, session, None, "dropped")
            _drop(sequence, session)
        else:
            session.catalogs.define(replace(sequence, owner=(after.path, column)))
