"""What specs cannot show: identities of columns, values of literals, what the binder asks of its environment."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from planner.logical.expressions import all_expressions, node_expressions, outer_ids, walk_plan
from planner.logical.nodes import Aggregate, DependentJoin, Join, LogicalNode, Project, Scan, WindowTable
from runtime.core.errors import BindError, UnsupportedError
from runtime.core.types import BIGINT, INT, TimeAttribute
from runtime.expr.nodes import Call, ColumnRef, Expr, Literal, OuterRef, SubqueryExpr, fresh_column, walk
from sqlengine.bind import bind_expression, bind_query
from sqlengine.catalog.objects import CatalogView
from sqlengine.parse import parse_expression, parse_query

from .fake_catalog import FakeCatalog
from .test_specs import SPECS, bind, cases, catalog


def inner_plans(expression: Expr) -> list[LogicalNode]:
    found = (e.plan for e in walk(expression) if isinstance(e, SubqueryExpr))
    return [p for p in found if isinstance(p, LogicalNode)]


def literal(text: str, time_zone: str = "UTC") -> Literal:
    value = bind_expression(parse_expression(text), (), FakeCatalog(time_zone=time_zone))
    assert isinstance(value, Literal)
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("-9223372036854775808", -9223372036854775808),
        ("-1.50", Decimal("-1.50")),
        ("1e3", 1000.0),
        ("X'0aff'", b"\x0a\xff"),
        ("DATE '2024-02-29'", dt.date(2024, 2, 29)),
        ("TIME '10:20:30.5'", dt.time(10, 20, 30, 500_000)),
        ("TIMESTAMP '2024-01-01 10:00:00.25'", dt.datetime(2024, 1, 1, 10, 0, 0, 250_000)),
        ("TIMESTAMP '1970-01-01 00:00:01.000000001'", 1_000_000_001),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", 93_784_500),
        ("INTERVAL -'2-3' YEAR TO MONTH", -27),
    ],
)
def test_values_of_literals(text: str, value: Any) -> None:
    found = literal(text)
    assert found.value == value
    assert type(found.value) is type(value)
    assert not found.type.nullable


@pytest.mark.parametrize(
    ("zone", "hour"),
    [("UTC", 12), ("Asia/Shanghai", 4), ("America/New_York", 17), ("GMT+02:00", 10), ("GMT-05:30", 17)],
)
def test_a_local_timestamp_is_an_instant_of_the_session(zone: str, hour: int) -> None:
    found = literal("TIMESTAMP_LTZ '2024-01-15 12:00:00'", zone)
    minute = 30 if zone.endswith("30") else 0
    assert found.value == dt.datetime(2024, 1, 15, hour, minute)


def test_a_text_is_as_long_as_it_has_characters() -> None:
    assert literal("'😀é'").type.precision == 2


def test_each_use_of_a_view_has_columns_of_its_own() -> None:
    plan = bind_query(parse_query("SELECT x.who, y.who FROM totals x JOIN totals y ON x.n = y.n"), catalog()).plan
    join = next(n for n in walk_plan(plan) if isinstance(n, Join))
    left, right = ({c.id for c in side.columns} for side in (join.left, join.right))
    assert not left & right
    assert len({n for n in walk_plan(plan) if isinstance(n, Scan)}) == 2


def test_keys_of_a_scan_are_its_columns() -> None:
    plan = bind_query(parse_query("TABLE u"), catalog()).plan
    assert isinstance(plan, Scan)
    assert plan.keys == ((plan.columns[0].id,),)


def test_options_of_a_hint_reach_the_environment() -> None:
    context = catalog()
    bind_query(parse_query("SELECT a FROM t /*+ OPTIONS('k'='v', 'l'='w') */ AS x"), context)
    assert context.hinted == {"k": "v", "l": "w"}


@dataclass
class _Databases(FakeCatalog):
    """Remembers for which views it was asked to change the current database."""

    entered: list[str] = field(default_factory=list)

    def within(self, view: CatalogView) -> FakeCatalog:
        self.entered.append(view.path.name)
        return self


def test_a_view_is_bound_where_it_was_created() -> None:
    context = _Databases(catalog().objects).run("CREATE VIEW outer_view AS SELECT * FROM totals")
    assert isinstance(context, _Databases)
    bind_query(parse_query("SELECT * FROM outer_view"), context)
    assert context.entered == ["outer_view", "totals"]


def test_a_view_in_itself_is_refused() -> None:
    context = catalog().run("CREATE VIEW v AS SELECT * FROM w; CREATE VIEW w AS SELECT * FROM v")
    with pytest.raises(BindError, match="contains itself") as caught:
        bind_query(parse_query("SELECT * FROM v"), context)
    assert caught.value.code == "E1222"


def test_a_common_table_hides_a_table() -> None:
    plan = bind_query(parse_query("WITH t AS (SELECT 1 AS one) SELECT * FROM t"), catalog()).plan
    assert not any(isinstance(n, Scan) for n in walk_plan(plan))


def test_a_view_does_not_see_the_common_tables_around_it() -> None:
    plan = bind_query(parse_query("WITH bid AS (SELECT 1 AS one) SELECT n FROM totals, bid"), catalog()).plan
    assert [n.name for n in walk_plan(plan) if isinstance(n, Scan)] == ["c.d.bid"]


def test_time_attributes_travel_with_columns_also_through_a_window() -> None:
    plan = bind_query(parse_query("SELECT ts AS x FROM bid"), catalog()).plan
    assert plan.columns[0].type.time_attribute is TimeAttribute.ROWTIME
    windowed = "SELECT ts, window_time FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    types = [c.type.time_attribute for c in bind_query(parse_query(windowed), catalog()).plan.columns]
    assert types == [TimeAttribute.ROWTIME, TimeAttribute.ROWTIME]


def test_cascaded_windows_take_the_window_time() -> None:
    inner = "SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"
    context = catalog().run(f"CREATE VIEW w5 AS {inner}")
    plan = bind_query(
        parse_query(
            "SELECT * FROM TABLE(TUMBLE(TABLE (SELECT auction, window_time AS wt FROM w5), DESCRIPTOR(wt), "
            "INTERVAL '10' MINUTE))"
        ),
        context,
    ).plan
    assert sum(isinstance(n, WindowTable) for n in walk_plan(plan)) == 2


def test_subquery_over_groups_reads_the_groups() -> None:
    query = "SELECT auction, (SELECT MAX(a) FROM u WHERE u.a = bid.auction) FROM bid GROUP BY ROLLUP (auction)"
    plan = bind_query(parse_query(query), catalog()).plan
    assert isinstance(plan, Project)
    aggregate = next(n for n in walk_plan(plan) if isinstance(n, Aggregate))
    subquery = plan.items[1][1]
    assert outer_ids(inner_plans(subquery)[0]) == {aggregate.group[0].id}


def _unresolved(plan: LogicalNode, around: frozenset[int]) -> set[int]:
    """Ids of outer references in subqueries and lateral plans that no enclosing node has."""
    found: set[int] = set()
    for node in walk_plan(plan):
        seen = around | {c.id for source in node.inputs for c in source.columns}
        for expression in node_expressions(node):
            for inner in inner_plans(expression):
                found |= set(outer_ids(inner)) - seen
                found |= _unresolved(inner, seen)
        if isinstance(node, DependentJoin):
            found |= set(outer_ids(node.right)) - seen
    return found


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_references_of_subqueries_resolve(path: Any) -> None:
    context = catalog()
    for command, text, _ in cases(path):
        if command in ("plan", "types", "insert"):
            plan, names = bind(text, context)
            assert _unresolved(plan, frozenset()) == set(), text
            if command != "insert":
                assert len(names) == len(plan.columns) == len(set(names)), text


def test_an_expression_of_ddl_sees_given_columns() -> None:
    column = fresh_column("a", INT)
    value = bind_expression(parse_expression("a + 1"), (column,), catalog(), place="a computed column")
    assert isinstance(value, Call)
    assert value.args[0] == ColumnRef(column.id, "a", INT)
    with pytest.raises(BindError, match="a computed column"):
        bind_expression(parse_expression("SUM(a)"), (column,), catalog(), place="a computed column")
    with pytest.raises(BindError, match="a subquery cannot stand in a computed column"):
        bind_expression(parse_expression("(SELECT 1)"), (column,), catalog(), place="a computed column")


def test_a_long_chain_of_operators_needs_no_deep_recursion() -> None:
    text = " AND ".join(f"a <> {i}" for i in range(2000))
    value = bind_expression(parse_expression(text), (fresh_column("a", BIGINT),), catalog())
    assert isinstance(value, Call)
    assert len(value.args) == 2000


def test_all_columns_of_a_correlated_query_are_outer_references() -> None:
    plan = bind_query(parse_query("SELECT (SELECT t.a + t.twice) FROM t"), catalog()).plan
    refs: list[Expr] = [e for e in all_expressions(plan) if isinstance(e, OuterRef)]
    assert {r.name for r in refs if isinstance(r, OuterRef)} == {"a", "twice"}


def test_table_functions_of_later_say_so() -> None:
    with pytest.raises(UnsupportedError, match="DEDUPLICATE_KEEP_FIRST"):
        bind_query(parse_query("SELECT * FROM DEDUPLICATE_KEEP_FIRST(input => TABLE bid)"), catalog())
