"""The laws that the driver holds rules to."""

from __future__ import annotations

import inspect
import re

import pytest
from spec_table import open_table

from planner.logical import display, expressions
from planner.logical import nodes as n
from planner.logical.display import explain
from planner.logical.nodes import Filter, Limit, LogicalNode, Project, Scan
from planner.logical.reader import read_plan
from planner.logical.validate import validate
from planner.optimizer import DISABLED_RULES, optimize, run_stages
from planner.rule import Direction, Rule, RuleContext, Stage
from planner.rules.prune import narrowing
from planner.trace import Trace
from runtime.core.errors import InternalError, OptionError
from runtime.core.node import node_fields
from runtime.core.options import Options
from runtime.core.types import BIGINT
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import TRUE, ColumnRef, Literal

FUNCTIONS = builtin_functions()
PLAN = """
Filter price#2 > 10
  Scan bid(auction#1 BIGINT NOT NULL, price#2 INT)
"""


def read(text: str) -> LogicalNode:
    return read_plan(text, FUNCTIONS, open_table)


def stage(*rules: Rule, direction: Direction = Direction.TOP_DOWN) -> Stage:
    return Stage("test", rules, direction, "a test")


def context(**options: str) -> RuleContext:
    return RuleContext(FUNCTIONS, Options({k.replace("__", "."): v for k, v in options.items()}))


def test_a_rule_that_changes_the_columns_is_refused() -> None:
    rule = Rule("drop_columns", Filter, lambda node, _: Project(node, ((node.columns[0], node.columns[0].ref()),)))
    with pytest.raises(InternalError, match="rule drop_columns made a wrong plan: output columns changed"):
        run_stages(read(PLAN), [stage(rule)], context())


def test_a_rule_that_changes_a_type_is_refused() -> None:
    def widen(node: Filter, _: RuleContext) -> LogicalNode:
        return Project(node, tuple((c.with_type(BIGINT), Literal(1, BIGINT)) for c in node.columns))

    with pytest.raises(InternalError, match=r"the type of auction#\d+ changed from BIGINT NOT NULL to BIGINT"):
        run_stages(read(PLAN), [stage(Rule("widen", Filter, widen))], context())


def test_a_rule_that_refers_to_nothing_is_refused() -> None:
    def dangle(node: Filter, _: RuleContext) -> LogicalNode | None:
        return node.with_(predicate=ColumnRef(-1, "ghost", TRUE.type))

    with pytest.raises(InternalError, match=r"Filter refers to ghost#-1, which is not in"):
        run_stages(read(PLAN), [stage(Rule("dangle", Filter, dangle))], context())


def test_rules_that_undo_each_other_are_named() -> None:
    wrap = Rule("wrap", Scan, lambda node, _: Limit(node, 0, 5))
    unwrap = Rule("unwrap", Limit, lambda node, _: node.input)
    with pytest.raises(InternalError, match="rules keep firing at one node: .*wrap, unwrap"):
        run_stages(read(PLAN), [stage(wrap, unwrap)], context())
    swap = Rule(
        "swap", Filter, lambda node, _: node.with_(predicate=node.predicate.with_(args=node.predicate.args[::-1]))
    )
    with pytest.raises(InternalError, match="rules keep firing at one node: swap, swap"):
        run_stages(read(PLAN), [stage(swap)], context())


def test_the_trace_tells_what_fired() -> None:
    trace = Trace()
    optimize(read("Filter TRUE\n  Filter 10 < price#2\n    Scan bid(auction#1 BIGINT, price#2 INT)"), context(), trace)
    assert {"merge_filters", "simplify_comparison"} <= trace.fired or {
        "remove_trivial_filter",
        "simplify_comparison",
    } <= trace.fired
    assert trace.counts()["simplify_comparison"] == 1


def test_a_rule_can_be_switched_off_by_name() -> None:
    text = "Project b#3 = a#1 + 1\n  Project a#1\n    Scan t(a#1 INT, b#2 INT)"
    assert explain(optimize(read(text), context())).count("Project") == 1
    without = context(optimizer__disabled_rules="merge_projects, remove_identity_project")
    assert explain(optimize(read(text), without)).count("Project") == 2


def test_wrong_lists_of_disabled_rules_are_errors() -> None:
    with pytest.raises(OptionError, match='unknown rule "merge_project".*did you mean "merge_projects"'):
        optimize(read(PLAN), context(optimizer__disabled_rules="merge_project"))
    with pytest.raises(OptionError, match='rule "convert_dependent_to_join" cannot be switched off'):
        optimize(read(PLAN), context(optimizer__disabled_rules="convert_dependent_to_join"))
    assert DISABLED_RULES.key == "optimizer.disabled_rules"


def concrete_nodes() -> list[type[LogicalNode]]:
    return [c for c in vars(n).values() if isinstance(c, type) and issubclass(c, LogicalNode) and node_fields(c)]


@pytest.mark.parametrize("kind", concrete_nodes(), ids=lambda c: c.__name__)
def test_every_node_class_is_known_where_classes_are_told_apart(kind: type[LogicalNode]) -> None:
    for module, times in ((expressions, 2), (display, 1), (narrowing, 1)):
        text = inspect.getsource(module).partition("__all__")[2]
        if kind is n.DependentJoin and module is narrowing:
            continue
        found = re.findall(rf"\b{kind.__name__}\b", text)
        assert len(found) >= times, f"{kind.__name__} is missing in {module.__name__}"


def test_validation_finds_what_constructors_let_pass() -> None:
    scan = read("Scan t(a#1 INT)")
    assert isinstance(scan, Scan)
    with pytest.raises(InternalError, match="Join has a column twice"):
        validate(n.Join(scan, scan, n.JoinKind.INNER, TRUE))
    with pytest.raises(InternalError, match="the predicate of a Filter is INT"):
        validate(Filter(scan, scan.columns[0].ref()))
    with pytest.raises(InternalError, match="a set operation has inputs of 1 and 2 columns"):
        validate(
            n.Union((scan,), (*scan.columns, scan.columns[0].with_type(BIGINT))).with_(
                produced=(*scan.columns, *read("Scan u(b#1 INT)").columns)
            )
        )


def test_columns_are_numbered_in_order_of_appearance() -> None:
    first, second = read(PLAN), read(PLAN)
    assert first != second
    assert explain(first) == explain(second)
    assert explain(first, types=True).endswith("Scan bid(auction#1 BIGINT NOT NULL, price#2 INT)")
    assert explain(first, note=lambda node: "here" if isinstance(node, Scan) else "").endswith("price#2)  here")
