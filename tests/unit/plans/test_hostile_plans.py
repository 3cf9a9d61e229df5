"""Plans out of files are not believed: what is wrong is told with its place, and nothing else ever comes out."""

from __future__ import annotations

import copy
import random
from base64 import b64encode
from typing import Any

import pytest
from mutations import mutated
from samples import as_json, decoded, environment, plans

import runtime.plan.nodes as nodes
from runtime.core.errors import FormatError, SqlEngineError
from runtime.plan.json import encode_plan
from runtime.plan.walk import walk_all
from sqlengine import PlanReference, TableEnvironment

ENV = environment()
PLANS = plans(ENV)


def change(plan: Any, path: list[Any], value: Any) -> Any:
    copied = copy.deepcopy(plan)
    at = copied
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return copied


@pytest.mark.parametrize(("text", "roots"), PLANS, ids=[text for text, _ in PLANS])
def test_a_plan_comes_back_as_it_is(text: str, roots: Any) -> None:
    plan = as_json(roots)
    found = decoded(plan, roots, ENV.session.functions)
    assert found == roots and encode_plan(found) == plan


def test_the_samples_have_every_kind_of_operator() -> None:
    kinds = {type(node) for _, roots in PLANS for node in walk_all(roots)}
    missing = {c for c in vars(nodes).values() if isinstance(c, type) and c.__name__.endswith("Exec")} - kinds
    names = {c.__name__ for c in missing}
    assert names <= {"LookupJoinExec", "CurrentJoinExec", "ProcessTablesExec", "SinkMaterializeExec", "FinalRowsExec",
                     "WindowJoinExec", "WindowTopNExec", "ChangelogNormalizeExec", "DropUpdateBeforeExec",
                     "LoopInputExec", "DuckDBExec", "DeltaJoinExec"}  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_changed_nothing_but_an_error_with_a_code_comes_out(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        _, roots = chance.choice(PLANS)
        try:
            decoded(mutated(as_json(roots), chance), roots, ENV.session.functions)
        except SqlEngineError as error:
            assert error.code == "E3210", error


CALC = as_json(PLANS[0][1])
WHERE = next(i for i, node in enumerate(CALC["nodes"]) if node["node"] == "CalcExec@1")


FIRST: list[Any] = [WHERE, "projections", 0]
TYPE: list[Any] = [WHERE, "schema", "fields", 0, "type"]
AT = f"at nodes[{WHERE}]"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], "x", 'at format: an object with "format": "sqlengine-plan" is wanted'),
        (["version"], 99, "at version: this version reads plans of version 1; use the version that wrote it"),
        (["version"], True, "at version: this version reads plans of version 1"),
        (["nodes"], [], "at nodes: a list of 1 to 10,000 nodes is wanted"),
        (["roots"], [99], "at roots: there is no node 99 before it"),
        (
            [WHERE, "node"],
            "CalkExec@1",
            f'{AT}.node: "CalkExec" is a node that this version does not know; did you mean "CalcExec"?',
        ),
        ([WHERE, "node"], "CalcExec@7", f"{AT}.node: version 7 of CalcExec cannot be read"),
        ([WHERE, "input"], WHERE, f"{AT}.input: there is no node {WHERE} before it"),
        ([WHERE, "colour"], [], f'{AT}.colour: CalcExec has no field "colour"'),
        (
            [WHERE, "projektions"],
            [],
            f'{AT}.projektions: CalcExec has no field "projektions"; did you mean "projections"?',
        ),
        ([*FIRST, "args", 0, "index"], "0", f"{AT}.projections[0].args[0].index: a whole number is wanted, not a text"),
        ([*FIRST, "args", 0, "index"], 9, f"{AT}.projections[0].args[0].index: there is no column 9"),
        ([*FIRST, "function"], "PLUSS", f"{AT}.projections[0].function: there is no function PLUSS"),
        ([*FIRST, "args", 1, "value"], "one", f"{AT}.projections[0].args[1]: the constant is no INT"),
        (
            [*TYPE, "root"],
            {"$enum": "TypeRoot.IMT"},
            'there is no TypeRoot "TypeRoot.IMT"; did you mean "TypeRoot.INT"?',
        ),
        (
            [*TYPE, "root"],
            {"$enum": "TypeRoot.DATE"},
            f"{AT}.schema[0]: it is DATE, and the operator gives INT",
        ),
        ([WHERE, "mode", "insert"], 1, f"{AT}.mode.insert: true or false is wanted, not a number"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(path: list[Any], value: Any, message: str) -> None:
    with pytest.raises(FormatError) as raised:
        decoded(change(CALC, path if path[0] != WHERE else ["nodes", *path], value), PLANS[0][1], ENV.session.functions)
    assert raised.value.code == "E3210" and message in str(raised.value)


def test_bytes_are_no_bitmaps() -> None:
    """They are carried alike; and a constant must be a bitmap."""
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(
            "CREATE TABLE given (data BYTES) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json')"
        )
        t_env.execute_sql("CREATE TABLE sets (a BYTES, b BYTES) WITH ('connector' = 'blackhole')")
        text = t_env.compile_plan_sql(
            "INSERT INTO sets SELECT BITMAP_TO_BYTES(BITMAP_OR(BITMAP_FROM_BYTES(data), BITMAP_BUILD(ARRAY[1]))), data FROM given"
        ).as_json_string()
        constant = b64encode(bytes.fromhex("3a3000000100000000000000100000000100")).decode()
        for there, instead in (("BITMAP_FROM_BYTES", "BITMAP_TO_BYTES"), (constant, b64encode(b"no").decode())):
            assert there in text
            with pytest.raises(FormatError, match="E3210"):
                t_env.load_plan(PlanReference.from_json_string(text.replace(there, instead))).explain()
        t_env.load_plan(PlanReference.from_json_string(text)).explain()


def test_deep_nesting_is_refused() -> None:
    inner: Any = 1
    for _ in range(3000):
        inner = [inner]
    with pytest.raises(FormatError, match="E3210"):
        decoded(
            change(CALC, ["nodes", *FIRST, "args", 1, "value"], inner),
            PLANS[0][1],
            ENV.session.functions,
        )
