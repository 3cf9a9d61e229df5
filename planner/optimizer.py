"""The driver of the rules: stage by stage, walk the plan, apply, check, trace.

After every application the output columns must be the same (ids; types up to a tightened nullability) and the new
nodes must be valid. A plan that comes back within one stage means that two rules undo each other: an error that names
them. Both are bugs of ours and raise InternalError.

`SET optimizer.disabled_rules = 'a,b'` leaves out rules by name, to find the one that is wrong; rules that plans
cannot do without refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.logical.nodes import LogicalNode
from planner.logical.shared import holds_shared, map_shared
from planner.logical.validate import Validator
from planner.rule import Direction, Rule, RuleContext, Stage
from planner.rules.prune.scans import merge_scans, scans_by_column
from planner.stages import STAGES
from planner.trace import Trace
from runtime.core.errors import InternalError, OptionError, did_you_mean
from runtime.core.options import text_option
from runtime.core.rooms import Room
from runtime.expr.nodes import Column

if TYPE_CHECKING:
    import planner.logical.display as _display
else:
    _display = Room("planner.logical.display")

__all__ = ["DISABLED_RULES", "disabled_rules", "optimize", "optimize_set", "run_stages"]

DISABLED_RULES = text_option(
    "optimizer.disabled_rules", "", "names of optimizer rules to leave out, separated by commas"
)

_MOST_ROUNDS = 100
"""Walks of one stage before the driver gives up; plans of the test suites need fewer than ten."""


def optimize(plan: LogicalNode, context: RuleContext, trace: Trace | None = None) -> LogicalNode:
    """The plan after all stages of `planner/stages.py`: without subqueries, with streaming forms, ready to be
    lowered. See `run_stages`.

    What stands in several places (`Shared`) is optimized by itself, once, before the rest: rules ask what it is.
    """
    if holds_shared(plan):
        done: dict[LogicalNode, LogicalNode] = context.memory.setdefault("shared plans", {})
        plan = map_shared(plan, lambda inner: optimize(inner, context, trace), done)
    return run_stages(plan, STAGES, context, trace)


def optimize_set(
    plans: Sequence[LogicalNode], context: RuleContext, traces: Sequence[Trace] | None = None
) -> tuple[LogicalNode, ...]:
    """The plans of statements that run as one dataflow: each as by `optimize`, and a table that several read is read
    once.

    `traces` has one trace per plan.
    """
    records = traces if traces is not None else [Trace() for _ in plans]
    done = tuple(optimize(p, context, t) for p, t in zip(plans, records, strict=True))
    if "prune_columns" in disabled_rules(STAGES, context):
        return done
    merged = merge_scans(done, scans_by_column(plans))
    return tuple(
        new if new is old else run_stages(new, STAGES[-1:], context, t)
        for new, old, t in zip(merged, done, records, strict=True)
    )


def run_stages(
    plan: LogicalNode, stages: Sequence[Stage], context: RuleContext, trace: Trace | None = None
) -> LogicalNode:
    """The plan after all stages; `trace` receives every rule that fired.

    Raises UserError (of a rule) when the query cannot be planned, OptionError for a wrong list of disabled rules, and
    InternalError when a rule breaks a law of the driver.
    """
    record = trace if trace is not None else Trace()
    disabled = disabled_rules(stages, context)
    for stage in stages:
        rules = tuple(r for r in stage.rules if r.name not in disabled)
        if rules:
            plan = _StageRun(stage, rules, context, record).run(plan)
    return plan


def disabled_rules(stages: Sequence[Stage], context: RuleContext) -> frozenset[str]:
    """The rules that the session switched off; raises OptionError for names that do not exist or cannot be missed."""
    names = frozenset(n.strip() for n in context.options.get(DISABLED_RULES).split(",") if n.strip())
    known = {r.name: r for s in (*STAGES, *stages) for r in s.rules}
    for name in sorted(names):
        rule = known.get(name)
        if rule is None:
            hint = did_you_mean(name, known) or "EXPLAIN lists the rules that were applied"
            raise OptionError(f'unknown rule "{name}" in optimizer.disabled_rules', hint=hint)
        if rule.essential:
            raise OptionError(f'rule "{name}" cannot be switched off', hint="queries that need it could not run at all")
    return names


class _StageRun:
    """One stage over one plan."""

    def __init__(self, stage: Stage, rules: tuple[Rule, ...], context: RuleContext, trace: Trace) -> None:
        self._stage = stage
        self._local = tuple(r for r in rules if not r.whole_plan)
        self._whole = tuple(r for r in rules if r.whole_plan)
        self._by_kind: dict[type[LogicalNode], tuple[Rule, ...]] = {}
        self._context = context
        self._trace = trace
        self._settled: set[LogicalNode] = set()
        self._validator = Validator()

    def run(self, plan: LogicalNode) -> LogicalNode:
        seen = {plan}
        for _ in range(_MOST_ROUNDS):
            start = len(self._trace.steps)
            before = plan
            for rule in self._whole:
                plan = self._try(rule, plan) or plan
            plan = self._walk(plan)
            if plan == before:
                return plan
            if plan in seen:
                self._fail(
                    "a plan came back: rules undo each other: "
                    + ", ".join(sorted({s.rule for s in self._trace.steps[start:]})),
                    plan,
                )
            if not self._stage.fixpoint:
                return plan
            seen.add(plan)
        self._fail(f"no end after {_MOST_ROUNDS} rounds: {self._trace}", plan)
        return plan

    def _walk(self, node: LogicalNode) -> LogicalNode:
        if not self._local or node in self._settled:
            return node
        if self._stage.direction is Direction.TOP_DOWN:
            node = self._at(node)
        inputs = tuple(self._walk(source) for source in node.inputs)
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            node = node.with_inputs(*inputs)
            if self._stage.direction is Direction.TOP_DOWN and self._stage.fixpoint:
                node = self._at(node)
        if self._stage.direction is Direction.BOTTOM_UP:
            done = self._at(node)
            if done is not node and self._stage.fixpoint:
                return self._walk(done)
            node = done
        # With a fixpoint no rule fires at the node any more: `_at` has ended with it.
        if all(source in self._settled for source in node.inputs):
            self._settled.add(node)
        return node

    def _at(self, node: LogicalNode) -> LogicalNode:
        """Apply the rules at one node until none fires (once each when the stage is not a fixpoint)."""
        for _ in range(_MOST_ROUNDS):
            changed = self._first(node)
            if changed is None:
                return node
            node = changed
            if not self._stage.fixpoint:
                return node
        self._fail(f"rules keep firing at one node: {', '.join(s.rule for s in self._trace.steps[-6:])}", node)
        return node

    def _first(self, node: LogicalNode) -> LogicalNode | None:
        for rule in self._matching(type(node)):
            changed = self._try(rule, node)
            if changed is not None:
                return changed
        return None

    def _matching(self, kind: type[LogicalNode]) -> tuple[Rule, ...]:
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = tuple(r for r in self._local if issubclass(kind, r.matches))
        return found

    def _try(self, rule: Rule, node: LogicalNode) -> LogicalNode | None:
        changed = rule.apply(node, self._context)
        # Plans are equal whatever the types of their columns, and a rule for the whole plan may change only those.
        if changed is None or changed is node or (changed == node and not rule.whole_plan):
            return None
        self._trace.add(self._stage.name, rule.name, node, changed)
        self._check(rule, node, changed)
        return changed

    def _check(self, rule: Rule, before: LogicalNode, after: LogicalNode) -> None:
        problem = _column_change(before.columns, after.columns)
        if problem is None:
            problem = self._validator.problem(after)
        if problem is not None:
            self._fail(f"rule {rule.name} made a wrong plan: {problem}", after, before)

    def _fail(self, message: str, plan: LogicalNode, before: LogicalNode | None = None) -> None:
        texts = ([] if before is None else ["before:", _display.explain(before)]) + ["plan:", _display.explain(plan)]
        raise InternalError(
            f"optimizer stage {self._stage.name!r}: {message}", hint="this is a bug; the plan:\n" + "\n".join(texts)
        )


def _column_change(before: tuple[Column, ...], after: tuple[Column, ...]) -> str | None:
    if [c.id for c in before] != [c.id for c in after]:
        return f"output columns changed from {_names(before)} to {_names(after)}"
    for old, new in zip(before, after, strict=True):
        if new.type not in (old.type, old.type.not_null()) and new.type not in (
            old.type.materialized(),
            old.type.materialized().not_null(),
        ):
            return f"the type of {old} changed from {old.type} to {new.type}"
    return None


def _names(columns: tuple[Column, ...]) -> str:
    return "(" + ", ".join(str(c) for c in columns) + ")"
