"""Physical plans as JSON and as names: what a checkpoint relies on."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from trait_plans import bids, call, col, context, count_by, eq, join, lit, products, project, sink

from planner.explain import explain_text
from planner.logical import nodes as n
from planner.lower import lower
from runtime.core.changelog import UPSERT
from runtime.core.errors import FormatError, UserError
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    STRING,
    TIME,
    TIMESTAMP,
    DataType,
    row,
)
from runtime.core.types import decimal as decimal_type
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import Literal
from runtime.plan.decoding import decode_value
from runtime.plan.identity import uid, uids
from runtime.plan.json import encode_plan
from runtime.plan.nodes import CalcExec, PhysicalNode, SourceExec, WindowAggregateExec
from runtime.plan.stored import decode_plan
from runtime.plan.values import CLASSES, encode_value
from runtime.plan.walk import walk

FUNCTIONS = builtin_functions()


def sample() -> PhysicalNode:
    left = project(n.Filter(bids(), call(">", lit(1), lit(0))), "item", "price")
    right = count_by(products(UPSERT), "cat")
    return lower(
        sink(join(left, right, eq(col(left, "item"), col(right, "cat"))), UPSERT, ("item",), "DEDUPLICATE"), context()
    )


def test_json_round_trip() -> None:
    plan = sample()
    text = json.dumps(encode_plan([plan]))
    tables = {node.table for node in walk(plan) if isinstance(node, SourceExec)} | {plan.table}  # type: ignore[attr-defined]
    found = {
        ("sink" if t.describe() == {"connector": "fake"} else "source", t.describe().get("name")): t for t in tables
    }
    assert decode_plan(json.loads(text), lambda use, name, said, _: found[use, said.get("name")], FUNCTIONS) == (plan,)


def test_a_node_of_every_family_is_known_by_its_name() -> None:
    assert [CLASSES[kind.__name__] for kind in (CalcExec, WindowAggregateExec)] == [CalcExec, WindowAggregateExec]


def test_unknown_versions_are_refused() -> None:
    encoded = encode_plan([sample()])
    with pytest.raises(FormatError):
        decode_plan({**encoded, "version": 99}, lambda *_: None, FUNCTIONS)  # type: ignore[arg-type,return-value]
    encoded["nodes"][0]["node"] = encoded["nodes"][0]["node"].replace("@1", "@7")
    with pytest.raises(FormatError, match="version 7"):
        decode_plan(encoded, lambda *_: None, FUNCTIONS)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (decimal.Decimal("1.50"), decimal_type(3, 2)),
        (datetime.date(2024, 2, 29), DATE),
        (datetime.datetime(2024, 2, 29, 23, 59, 59, 500000), TIMESTAMP),
        (datetime.time(1, 2, 3), TIME),
        (b"\x00\xff", BYTES),
        (math.inf, DOUBLE),
        (math.nan, DOUBLE),
        (-(2**63), BIGINT),
        (None, BIGINT),
        (True, BOOLEAN),
        ("x", STRING),
        ((1, "a"), row(("n", BIGINT), ("s", STRING))),
    ],
)
def test_constants_survive(value: object, type_: DataType) -> None:
    literal = Literal(value, type_)
    back = decode_value(json.loads(json.dumps(encode_value(literal))))
    assert back == literal and type(back.value) is type(value)


def test_names_follow_meaning_not_place_or_alias() -> None:
    counted = lower(count_by(bids(), "item"), context())
    renamed_plan = project(count_by(bids(), "item"), "item")
    inner = count_by(bids(), "item")
    ((column, call_),) = inner.calls
    aliased = lower(inner.with_(calls=((column.with_(name="total"), call_),)), context())
    assert uid(counted) == uid(aliased)
    names = set(uids([lower(renamed_plan, context())]).values())
    assert uid(counted) in names
    assert uid(counted) != uid(lower(count_by(bids(), "price"), context()))
    assert uid(lower(sink(count_by(bids(), "item"), UPSERT, ("item",)), context()).inputs[0]) == uid(counted)


def test_names_are_the_same_in_another_process() -> None:
    here = Path(__file__).parent
    code = "from test_plan_text import sample; from runtime.plan.identity import uid; print(uid(sample()))"
    root = str(here.parents[2])
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=here,
        env={"PYTHONPATH": f"{root}:{here}", "PYTHONHASHSEED": "77"},
    )
    assert found.stdout.strip() == uid(sample())


def test_explain_has_a_section_for_each_detail() -> None:
    plan = count_by(bids(), "item")
    physical = lower(plan, context())
    details = ("CHANGELOG_MODE", "ESTIMATED_COST", "STATE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
    text = explain_text([(plan, plan, physical)], details, context())
    assert [line for line in text.splitlines() if line.startswith("== ")] == [
        "== Abstract Syntax Tree ==",
        "== Optimized Logical Plan ==",
        "== Physical Plan ==",
        "== State ==",
        "== Advice ==",
        "== JSON Execution Plan ==",
    ]
    assert "upsert key (item)  {rows: " in text and "bounded by the number of keys" in text
    with pytest.raises(UserError, match="no detail COSTS"):
        explain_text([(plan, plan, physical)], ("COSTS",), context())
