"""Compiled plans: INSERTs that run as they were planned once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.core.rooms import Room
from sqlengine.expression.sql_words import ExplainDetail
from sqlengine.results.result import Result

if TYPE_CHECKING:
    import sqlengine.statements.plan_files as _plan_files
else:
    _plan_files = Room("sqlengine.statements.plan_files")

__all__ = ["CompiledPlan", "PlanReference"]


class PlanReference:
    """Where a compiled plan is: a file, or its JSON.

    PlanReference.from_file("plan.json")
    """

    def __init__(self, path: str | None, json: str | None) -> None:
        self.path = path
        self.json = json

    @staticmethod
    def from_file(path: str) -> PlanReference:
        """A file that COMPILE PLAN or `CompiledPlan.write_to_file` has written."""
        return PlanReference(str(path), None)

    @staticmethod
    def from_json_string(json_string: str) -> PlanReference:
        """What `CompiledPlan.as_json_string` gives."""
        return PlanReference(None, json_string)

    def text(self) -> str:
        """The JSON. Raises FormatError E3212 when its file cannot be read."""
        return _plan_files.read_plan_file(self.path) if self.json is None and self.path is not None else self.json or ""


class CompiledPlan:
    """An INSERT or a statement set as it was planned; `t_env.compile_plan_sql` and `t_env.load_plan` give one.

    plan = t_env.compile_plan_sql("INSERT INTO totals SELECT item, SUM(price) FROM orders GROUP BY item")
    plan.write_to_file("totals.json")
    plan.execute().wait()
    """

    def __init__(self, engine: Any, json: str) -> None:
        self._engine = engine
        self._json = json

    def as_json_string(self) -> str:
        """The plan as JSON."""
        return self._json

    def print_json_string(self) -> None:
        """Print `as_json_string`."""
        print(self._json)

    def write_to_file(self, file: str, ignore_if_exists: bool = False) -> None:
        """Write the plan to a file; one that is there is left as it is with `ignore_if_exists`.

        Raises FormatError E3212 for one that is there without it.
        """
        if not (ignore_if_exists and _plan_files.plan_exists(str(file))):
            _plan_files.write_plan_file(str(file), self._json, replace=False)

    def execute(self) -> Result:
        """Carry the plan out, as its INSERTs would be."""
        return self._engine.run_plan(self._json)

    def explain(self, *extra_details: ExplainDetail | str) -> str:
        """How the plan runs, as text: details as in EXPLAIN EXECUTE PLAN, for example "STATE"."""
        return self._engine.explain_plan(self._json, extra_details)

    def print_explain(self, *extra_details: ExplainDetail | str) -> None:
        """Print `explain`."""
        print(self.explain(*extra_details))
