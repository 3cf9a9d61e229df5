"""The law, for one case: after every epoch each kept answer equals DuckDB's over the contents, however the changes are
cut."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from runtime.core.errors import InternalError, SqlEngineError, UnsupportedError
from sqlengine.verify.rows import Row, rows_of
from tests.oracle.compare_engines import Engine, Oracle
from tests.oracle.compare_rows import differing, null_where_none_may_be
from tests.oracle.differences import REFUSALS
from tests.oracle.generate_cases import Case, Definition
from tests.oracle.generate_lives import LIVES, Life
from tests.oracle.generate_tables import Change, Contents
from tests.oracle.generate_text import Kind, Query
from tests.oracle.key_claims import KeyClaims
from tests.oracle.outcomes import Broken, Refused, Skipped

__all__ = ["check_case", "concrete"]

MOST_ROWS = 4000
VIEW = "fuzzed"


def concrete(case: Case) -> list[list[list[Change]]]:
    """The epochs' changes, one list per drawn change (a table emptied is one)."""
    contents = Contents(case.tables)
    return [[found for op in epoch if (found := contents.take(op))] for epoch in case.epochs]


@dataclass(frozen=True)
class _Expected:
    """DuckDB's answers after an epoch: the query's, each materialized view's, and the query's in batch mode."""

    query: list[Row]
    views: dict[str, list[Row]]
    batch: list[Row]


def _materialized(case: Case) -> list[Definition]:
    return [d for d in case.definitions if d.how == "MATERIALIZED VIEW"]


def _expectations(case: Case, *, plain: bool = False) -> list[_Expected]:
    """Before any change, then after each epoch. `plain`: from DuckDB without its optimizer."""
    contents = Contents(case.tables)
    oracle = Oracle(case.tables, case.definitions, plain=plain)
    found = []
    try:
        for number, epoch in enumerate(((), *case.epochs)):
            for op in epoch:
                contents.take(op)
            oracle.load(contents)
            views = {d.name: oracle.rows(f"SELECT * FROM {d.name}") for d in _materialized(case)}
            rows = oracle.rows(case.sql.duck)
            found.append(
                _Expected(rows, views, oracle.batch_rows(case.sql.duck) if number == len(case.epochs) else rows)
            )
            if max(len(rows) for rows in (found[-1].query, *views.values())) > MOST_ROWS:
                raise Skipped("too many rows")
    except duckdb.Error as error:
        raise Skipped(f"DuckDB: {error}") from error
    finally:
        oracle.close()
    return found


class _Run:
    """One run of a case: an engine, the view over the query, perhaps tables by the keys that are claimed of it."""

    def __init__(self, case: Case, label: str, disabled: tuple[str, ...], life: Life, *, keyed: bool) -> None:
        self._case = case
        self._label = label
        self._claims: KeyClaims | None = None
        self._keyed = keyed
        self.engine = Engine(case.tables, case.definitions, disabled, life)

    def begin(self) -> None:
        """Create the views."""
        self.engine.create_view(VIEW, self._case.sql.ours)
        if self._keyed:
            self._claims = self.engine.claims(self._case.sql.ours, below=True)

    def check(self, epoch: int, expected: _Expected) -> None:
        """Compare everything that is kept."""
        columns = self._case.query.columns
        self._view(epoch, VIEW, expected.query, self._case.query)
        if self._claims is not None:
            for table in self._claims.tables:
                what = f"the table by key {', '.join(table.primary_key)}"
                self._compare(epoch, what, rows_of(table.contents()), expected.query, [c.kind for c in columns])
            wrong = self._claims.problem()
            if wrong is not None:
                raise Broken(f"{self._label}: after epoch {epoch} {wrong}")
        for definition in _materialized(self._case):
            self._view(epoch, definition.name, expected.views[definition.name], definition.query)

    def ask(self, epoch: int, expected: _Expected, *, batch: bool) -> None:
        """Compare the answer to the query now."""
        kinds = [c.kind for c in self._case.query.columns]
        if batch:
            answer = self.engine.batch_rows(self._case.sql.ours, 1 + epoch % 3)
            self._compare(epoch, "the query in batch mode", answer, expected.batch, kinds)
        else:
            answer = self.engine.query_rows(self._case.sql.ours)
            self._compare(epoch, "the query asked now", answer, expected.query, kinds)

    def _view(self, epoch: int, name: str, expected: list[Row], query: Query) -> None:
        rows = self.engine.view_rows(name)
        self._compare(epoch, name, rows, expected, [c.kind for c in query.columns])
        wrong = null_where_none_may_be(self.engine.schema(name), rows)
        if wrong is not None:
            raise Broken(f"{self._label}: after epoch {epoch} {name}: {wrong}")

    def _compare(self, epoch: int, what: str, ours: list[Row], theirs: list[Row], kinds: list[Kind]) -> None:
        found = differing(ours, theirs, kinds)
        if found is not None:
            raise Broken(f"{self._label}: after epoch {epoch} {what} differs:\n{found}")


def _spread(op: list[Change]) -> list[list[Change]]:
    """A drawn change in epochs of its own: one, or a few when it is many changes at once."""
    return [op] if len(op) < 20 else [op[i : i + size] for i, size in ((0, 50), (50, 1), (51, len(op)))]


def check_case(case: Case, only: str | None = None) -> None:
    """Raises Broken where the law does not hold or the engine fails, Skipped for a case that says nothing.

    `only`: just the run with this label.
    """
    expected = _expectations(case)
    try:
        _check(case, expected, only)
    except Broken:
        plain = _expectations(case, plain=True)
        if not _differ(case, expected, plain):
            raise
        _check(case, plain, only)


def _differ(case: Case, ones: list[_Expected], others: list[_Expected]) -> bool:
    """Whether DuckDB, asked twice, gives two answers."""
    definitions = {d.name: d.query for d in _materialized(case)}
    for one, other in zip(ones, others, strict=True):
        pairs = [(case.query, one.query, other.query)]
        pairs += [(definitions[n], one.views[n], other.views[n]) for n in definitions]
        if any(differing(a, b, [c.kind for c in query.columns], duck=True) for query, a, b in pairs):
            return True
    return False


@dataclass(frozen=True)
class _Way:
    """How a case is run. `steps`: the changes of each epoch; None is one change an epoch. `late`: the view is made when
    the tables are full. `keyed`: what is claimed of keys is kept, too. `asked`: the query is asked at the end, in batch
    mode after one change an epoch."""

    label: str
    steps: list[list[Change]] | None
    disabled: tuple[str, ...] = ()
    life: Life = LIVES[0]
    late: bool = False
    keyed: bool = False
    asked: bool = False


def _check(case: Case, expected: list[_Expected], only: str | None) -> None:
    epochs = concrete(case)
    together = [c for epoch in epochs for op in epoch for c in op]
    ways = (
        _Way("as written", [[c for op in epoch for c in op] for epoch in epochs], keyed=True, asked=True),
        _Way("all in one epoch", [together], case.disabled, case.life, late=case.late),
        _Way(
            "one change an epoch", None, case.disabled, case.life, keyed=bool(case.disabled) and case.late, asked=True
        ),
    )
    largest = 0
    for way in ways:
        if only is not None and only != way.label:
            continue
        steps, late, label = way.steps, way.late, way.label
        if way.life.label != LIVES[0].label:
            label += f" with {way.life.label}"
        if way.disabled:
            label += f" without rules {', '.join(way.disabled)}"
        run: _Run | None = None
        try:
            run = _Run(case, label, way.disabled, way.life.for_rows(largest), keyed=way.keyed)
            if not late:
                run.begin()
                run.check(0, expected[0])
            if steps is None:
                for number, epoch in enumerate(epochs, 1):
                    for op in epoch:
                        for change in _spread(op):
                            run.engine.take(change)
                    run.check(number, expected[number])
            else:
                for number, step in enumerate(steps, 1):
                    run.engine.take(step)
                    if late:
                        run.begin()
                    run.check(number, expected[number if len(steps) == len(epochs) else -1])
            largest = max(largest, run.engine.largest_output)
            if way.asked:
                run.ask(len(epochs), expected[-1], batch=steps is None)
        except InternalError as error:
            raise Broken(f"{label}: {error}\n{error.hint or ''}") from error
        except UnsupportedError as error:
            raise Refused(f"refused: {error}") from error
        except SqlEngineError as error:
            if any(r in str(error) for r in REFUSALS):
                raise Skipped(f"refused: {error}") from error
            raise Broken(f"{label}: refused: {error}") from error
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"{label}: {type(error).__name__}: {error}") from error
        finally:
            if run is not None:
                run.engine.close()
