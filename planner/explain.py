"""The text of EXPLAIN: the plan as bound, after the rules, and as it runs, with the details asked for.

| detail | adds |
|---|---|
| CHANGELOG_MODE | the upsert keys of each updating node of the optimized plan (row kinds always stand in the physical
plan) |
| ESTIMATED_COST | rows, changes and state of each node of the optimized plan |
| STATE | the state tables of each operator and what bounds them; how large they will be |
| JSON_EXECUTION_PLAN | the physical plan as JSON |
| PLAN_ADVICE | what in the plan may surprise: state without bound |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from planner.advice import advice
from planner.cost.cost import Estimate, estimate
from planner.explain_state import state_text, tables_of
from planner.logical import nodes as n
from planner.logical.display import explain as explain_logical
from planner.logical.nodes import LogicalNode
from planner.lower.lowering import LowerContext
from planner.traits.changes import is_append_only
from planner.traits.context import TraitContext
from planner.traits.keys import upsert_keys
from runtime.core.errors import UserError, did_you_mean
from runtime.local.job_settings import EPOCH_MAX_ROWS
from runtime.plan.explain import explain as explain_physical
from runtime.plan.json import plan_json
from runtime.plan.nodes import PhysicalNode, SortSpec
from runtime.plan.text import order_text
from runtime.state.backend import STATE_BACKEND

__all__ = ["DETAILS", "explain_text"]

DETAILS = ("CHANGELOG_MODE", "ESTIMATED_COST", "STATE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")

Plans = Sequence[tuple[LogicalNode, LogicalNode, PhysicalNode]]


def explain_text(plans: Plans, details: Collection[str], context: LowerContext, order: Sequence[SortSpec] = ()) -> str:
    """The sections of EXPLAIN for statements planned together, each as (bound, optimized, physical).

    `order`: how the rows of the only plan are shown, once the input has ended.
    Raises UserError E1618 for a detail that does not exist.
    """
    for detail in details:
        if detail not in DETAILS:
            raise UserError(f"EXPLAIN has no detail {detail}", code="E1618", hint=did_you_mean(detail, DETAILS))
    traits = context.traits
    sections = [
        ("Abstract Syntax Tree", "\n\n".join(explain_logical(bound) for bound, _, _ in plans)),
        ("Optimized Logical Plan", "\n\n".join(explain_logical(best, _note(details, traits)) for _, best, _ in plans)),
        ("Physical Plan", _physical([p for _, _, p in plans], details, order, context)),
    ]
    if "STATE" in details:
        tables = tables_of([best for _, best, _ in plans])
        sections.append(("State", state_text([q for _, _, q in plans], tables, context.options.get(EPOCH_MAX_ROWS))))
    if "PLAN_ADVICE" in details:
        sections.append(("Advice", "\n".join(advice([best for _, best, _ in plans], traits)) or "nothing to say"))
    if "JSON_EXECUTION_PLAN" in details:
        sections.append(("JSON Execution Plan", plan_json([p for _, _, p in plans])))
    return "\n\n".join(f"== {title} ==\n{text}" for title, text in sections)


def _physical(
    plans: Sequence[PhysicalNode], details: Collection[str], order: Sequence[SortSpec], context: LowerContext
) -> str:
    on_disk = context.options.get(STATE_BACKEND) == "rocksdb"
    text = explain_physical(plans, state="STATE" in details, names="STATE" in details, on_disk=on_disk)
    if not order:
        return text
    shown = f"Show sorted by {order_text(order, plans[0].schema)}, when the input has ended  [I]"
    return "\n".join([shown, *(f"  {line}" for line in text.splitlines())])


def _note(details: Collection[str], traits: TraitContext) -> Callable[[LogicalNode], str] | None:
    wanted = [detail for detail in ("CHANGELOG_MODE", "ESTIMATED_COST") if detail in details]
    if not wanted:
        return None

    def note(plan: LogicalNode) -> str:
        parts = [
            _keys(plan, traits) if detail == "CHANGELOG_MODE" else _cost(estimate(plan, traits)) for detail in wanted
        ]
        return "  ".join(p for p in parts if p)

    return note


def _keys(plan: LogicalNode, traits: TraitContext) -> str:
    if isinstance(plan, n.Sink) or is_append_only(plan, traits):
        return ""
    names = {c.id: c.name for c in plan.columns}
    keys = [", ".join(names[c] for c in sorted(key)) for key in upsert_keys(plan, traits) if key <= names.keys()]
    return "upsert key " + " or ".join(f"({k})" for k in keys[:3]) if keys else "no upsert key"


def _cost(cost: Estimate) -> str:
    return f"{{rows: {_number(cost.rows)}, changes: {_number(cost.changes)}, state: {_number(cost.state)}}}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value >= 1e6 else f"{value:.0f}"
