"""COMPILE PLAN and EXECUTE PLAN: an INSERT or a statement set as a file that runs as it was planned, also when a later
version would plan it in another way.

    {"format": "sqlengine-plan", "version": 1, "statement": "INSERT INTO ...", "time_zone": "UTC", "roots": [2], "nodes": [...]}

The nodes are those of `runtime/plan/json.py`, and their tables those of `plan_tables.py`. Nothing in a file is believed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from runtime.core.errors import (
    FormatError,
    InternalError,
    PlanningError,
    Span,
    SqlEngineError,
    UnsupportedError,
    UserError,
    did_you_mean,
)
from runtime.core.schema import Schema
from runtime.core.secrets import masked_sql
from runtime.core.strict_json import read_json
from runtime.core.types import STRING
from runtime.expr.nodes import Call, walk
from runtime.local.job import Job
from runtime.plan.base import PhysicalNode
from runtime.plan.decoding import Wrong, refusing
from runtime.plan.explain import explain as explain_physical
from runtime.plan.json import FORMAT, VERSION, encode_plan, plan_json
from runtime.plan.nodes import ProcessTablesExec, SinkExec
from runtime.plan.stored import decode_plan
from runtime.plan.walk import expressions_of, walk_all
from sqlengine.bind.insert import partition_values
from sqlengine.catalog.objects import CatalogTable
from sqlengine.database.binding import Binding, noting_tables
from sqlengine.database.session import Session
from sqlengine.options.verify import VERIFY
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.explain_restore import restore_text
from sqlengine.statements.plan_files import plan_exists, read_plan_file, write_plan_file
from sqlengine.statements.plan_tables import OpenedTables, SinkName, check_tables, table_entry
from sqlengine.statements.queries import FORCE_RECOMPILE, Inserts, Kept, run_writing, target_table
from sqlengine.statements.query_reads import Reads

__all__ = [
    "KEPT",
    "CompiledWriting",
    "compile_plan",
    "compiled_text",
    "execute_plan",
    "execute_text",
    "explained_plan",
]

KEPT: Final = "compiled plan"
"""The option of a kept job that has its plan."""
_DETAILS: Final = ("CHANGELOG_MODE", "STATE", "JSON_EXECUTION_PLAN", "RESTORE")
_MEMBERS: Final = ("format", "version", "statement", "time_zone", "roots", "nodes")
_LEVELS: Final = 400
"""How deep a file nests: so much is read whatever statements this process has seen before."""


def compile_plan(statement: st.CompilePlan, session: Session) -> Result:
    """Write the plan of INSERTs to a file, or give it as the result; then carry it out, where the statement says so."""
    path, span = statement.path, statement.span
    if path is None:
        return Result.table(Schema.of(("plan", STRING.not_null())), [[compiled_text(statement.statement, session)]])
    replace = session.options.get(FORCE_RECOMPILE)
    there = plan_exists(path, span)
    if there and not replace and not statement.if_not_exists and not statement.execute:
        # Said before it takes time to plan.
        write_plan_file(path, "", replace=False, span=span)
    if not there or replace:
        write_plan_file(path, compiled_text(statement.statement, session), replace=replace, span=span)
        summary = f"the plan is in {path}"
    else:
        summary = f"{path} is there already: it stays as it is"
    if statement.execute:
        return execute_text(read_plan_file(path, span), session, statement.text)
    result = Result.ok()
    result.summary = summary
    return result


def execute_plan(statement: st.ExecutePlan, session: Session, *, again: str = "", text: str | None = None) -> Result:
    """Carry out a plan as its INSERTs would be. `again`: the job of the database that goes on, with the plan `text`."""
    text = statement.plan if text is None else text
    if statement.if_exists and text is None and not plan_exists(statement.path, statement.span):
        return Result.ok()
    if text is None:
        text = read_plan_file(statement.path, statement.span)
    return execute_text(text, session, statement.text, again)


def execute_text(text: str, session: Session, statement: str, again: str = "") -> Result:
    """Carry out the text of a plan, for a statement. Raises FormatError E3210 for what is no plan, or cannot run."""
    try:
        return run_writing(CompiledWriting.read(text, session, statement), session, again)
    except SqlEngineError:
        raise
    except Exception as error:
        # The planner's plans do not come here; what an operator cannot do is the file's.
        raise FormatError(
            f"the plan cannot run: {type(error).__name__}",
            code="E3210",
            hint="compile the statement again; please report it if that cannot run either",
        ) from error


def explained_plan(statement: st.ExecutePlan, session: Session, details: Sequence[str]) -> str:
    """EXPLAIN EXECUTE PLAN: how the plan runs. Raises UserError E1618 for details that follow from a statement."""
    for detail in details:
        if detail not in _DETAILS:
            raise UserError(
                f"EXPLAIN EXECUTE PLAN has no detail {detail}",
                code="E1618",
                hint=did_you_mean(detail, _DETAILS, likeness=0.8) or "EXPLAIN the statement that was compiled",
            )
    text = read_plan_file(statement.path, statement.span) if statement.plan is None else statement.plan
    roots = CompiledWriting.read(text, session).roots
    state = "STATE" in details
    sections = [("Physical Plan", explain_physical(roots, state=state, names=state))]
    if "JSON_EXECUTION_PLAN" in details:
        sections.append(("JSON Execution Plan", plan_json(roots)))
    if "RESTORE" in details:
        sections.append(("Restore", restore_text(roots, session)))
    return "\n\n".join(f"== {title} ==\n{text}" for title, text in sections)


# --- to JSON
# ---------------------------------------------------------------------------------------------------------------------


def compiled_text(statement: st.Statement, session: Session) -> str:
    """The plan of an INSERT or a statement set as JSON. Raises FormatError E3211 for what cannot stand in a file."""
    inserts = _inserts(statement, session)
    with noting_tables() as opened:
        roots = Inserts(inserts, statement.text).plans(session, live=False)
        sinks = {root: _sink_name(insert, table, session) for root, (insert, table) in zip(roots, inserts, strict=True)}
    said = masked_sql(statement.text)
    plan = {
        "format": FORMAT,
        "version": VERSION,
        "statement": said,
        "time_zone": session.time_zone,
        **encode_plan(roots, lambda node: table_entry(node, opened, sinks.get(node))),
    }
    text = json.dumps(plan, indent=2, ensure_ascii=False)
    _check_readable(text, roots, session)
    return text


def _inserts(statement: st.Statement, session: Session) -> list[tuple[st.Insert, CatalogTable]]:
    found: list[tuple[st.Insert, CatalogTable]] = []
    for inner in statement.statements if isinstance(statement, st.StatementSet) else (statement,):
        if not isinstance(inner, st.Insert):
            raise UnsupportedError("only INSERT can be compiled", code="E1606", span=inner.span, hint="run the others")
        if inner.returning is not None:
            raise UnsupportedError(
                "INSERT with RETURNING cannot be compiled", code="E1606", span=inner.span, hint="leave RETURNING out"
            )
        found.append((inner, target_table(session, inner)))
    return found


def _sink_name(insert: st.Insert, table: CatalogTable, session: Session) -> SinkName:
    hints = st.options_dict(insert.hints)
    if not insert.overwrite:
        return SinkName(table, hints, None)
    sink = session.open_sink(table, hints, live=False)
    return SinkName(table, hints, partition_values(insert, sink, Binding(session, False)))


def _check_readable(text: str, roots: Sequence[PhysicalNode], session: Session) -> None:
    """That the plan comes back from its text as it is, so that nobody is told so when it is to run."""
    tables = iter([node.outside for node in walk_all(roots) if node.outside is not None])
    try:
        again = decode_plan(read_json(text, depth=_LEVELS), lambda *_: next(tables), session.functions)
    except (ValueError, FormatError) as error:
        raise FormatError(
            f"the plan of this statement cannot be stored: {error}",
            code="E3211",
            hint="run the INSERT itself, or write it with shorter expressions",
        ) from error
    if again != tuple(roots):
        raise InternalError("a compiled plan comes back as another one", hint="please report the statement")


# --- from JSON
# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class CompiledWriting:
    """A compiled plan as what runs. `plan`: its JSON as text and as a value; `statement`: the one that carries it out."""

    json: str
    plan: dict[str, Any]
    statement: str
    roots: Sequence[PhysicalNode]
    targets: Sequence[CatalogTable]
    tables: OpenedTables = field(repr=False)

    @staticmethod
    def read(text: str, session: Session, statement: str = "") -> CompiledWriting:
        """Raises FormatError E3210 for a text that is no plan, CatalogError for tables that are not as they were, and
        PlanningError E1718 for another time zone."""
        try:
            plan = read_json(text, depth=_LEVELS)
        except ValueError as error:
            raise FormatError(
                f"the plan is wrong: {error}", code="E3210", hint="compile the statement again"
            ) from error
        roots, tables = _opened(plan, session, live=False)
        return CompiledWriting(text, plan, statement, roots, tables.targets, tables)

    @property
    def text(self) -> str:
        return self.statement

    @property
    def span(self) -> Span | None:
        return None

    @property
    def into_memory(self) -> bool:
        return any(table.connector is None for table in self.targets)

    def plans(self, session: Session, *, live: bool) -> Sequence[PhysicalNode]:
        """Tables are opened anew: they are read as they are when the plan runs."""
        self.roots, self.tables = _opened(self.plan, session, live=live)
        return self.roots

    def watch(self, session: Session, job: Job) -> None:
        if session.options.get(VERIFY):
            session.notes.append((f"{job.name} is not verified: DuckDB cannot be asked about a compiled plan", None))

    def reads(self, session: Session) -> Sequence[Reads]:
        objects, temporary = set(), list[str]()
        for _, opened in self.tables.reads:
            objects.add(opened.table.path)
            if opened.table.temporary:
                temporary.append(f'the temporary table "{opened.table.path.name}"')
        called = _called(self.roots)
        temporary += [f"the function {name}" for name in sorted(called & set(session.own_functions))]
        return [
            Reads(
                frozenset(objects),
                frozenset(),
                frozenset(called & set(session.user_functions)),
                temporary,
                frozenset(self.tables.past),
            )
        ]

    def kept(self) -> Kept:
        # Its file may be another one when the database is opened again.
        return Kept("EXECUTE PLAN 'kept'", {KEPT: self.json})


def _opened(plan: Any, session: Session, *, live: bool) -> tuple[Sequence[PhysicalNode], OpenedTables]:
    tables = OpenedTables(session, live=live)
    with refusing():
        if isinstance(plan, dict):
            _check_members(plan)
        roots = decode_plan(plan, tables, session.functions)
        for number, root in zip(plan["roots"], roots, strict=True):
            if not isinstance(root, SinkExec):
                raise Wrong("a root writes to a table").within(number).within("nodes")
        if len(tables.targets) != len(roots):
            raise Wrong("a table is written by a root alone").within("roots")
        order = [number for number, node in enumerate(plan["nodes"]) if str(node["node"]).startswith("SinkExec@")]
        if order != list(plan["roots"]):
            raise Wrong("roots stand in the order of their nodes").within("roots")
    if plan.get("time_zone", "UTC") != session.time_zone:
        raise PlanningError(
            "the plan was compiled for another time zone than that of the session",
            code="E1718",
            hint=f"SET 'table.local-time-zone' = '{plan['time_zone']}'",
        )
    check_tables(roots, tables)
    return roots, tables


def _check_members(plan: dict[str, Any]) -> None:
    for key in plan:
        if key not in _MEMBERS:
            raise Wrong("a plan has no such member", did_you_mean(key, _MEMBERS)).within(key)
    for key in ("statement", "time_zone"):
        if not isinstance(plan.get(key, ""), str) or len(plan.get(key, "")) > 1 << 20:
            raise Wrong("a text is wanted").within(key)


def _called(roots: Sequence[PhysicalNode]) -> set[str]:
    """The names of all functions that plans call."""
    found: set[str] = set()
    for node in walk_all(roots):
        found |= {call.function for call in node.aggregates}
        found |= {e.function for whole in expressions_of(node) for e in walk(whole) if isinstance(e, Call)}
        if isinstance(node, ProcessTablesExec):
            found.add(node.function)
    return found
