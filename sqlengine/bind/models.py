"""ML_PREDICT in FROM: the rows of a table with what a model gives for them.

    ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(a, b) [, MAP['async', 'true']])        INPUT, MODEL, ARGS, CONFIG

A prediction is a lookup: the model is asked for the different inputs of each epoch at once. It is not asked where an
input is NULL: then the outputs are NULL. Where rows are taken back the answers are kept, so that a row leaves with what
it came with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from planner.logical.build import passing
from planner.logical.nodes import JoinKind, LogicalNode, LookupJoin, Project
from runtime.core.errors import TypeMismatchError, did_you_mean, pointing_at
from runtime.core.options import bool_option, duration_option, int_option, text_option
from runtime.core.schema import Schema
from runtime.expr.nodes import TRUE, Expr, fresh_column
from runtime.expr.typing import implicit_cast
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.function_arguments import call_arguments, input_column, refused, text_map
from sqlengine.bind.scope import Source
from sqlengine.bind.session import QueryEnv
from sqlengine.catalog.objects import AskedModel
from sqlengine.parse.nodes import Descriptor, FunctionCall, ModelArg, TableArg
from sqlengine.parse.spans import span_of

__all__ = ["RelationOf", "asked_model", "bind_prediction", "free_names", "input_table"]

_PARAMETERS = ("INPUT", "MODEL", "ARGS", "CONFIG")
_USAGE = "write ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(a, b))"
_CONFIG = {
    option.key: option
    for option in (
        bool_option("async", True, "whether requests may wait for answers side by side"),
        int_option("max-concurrent-operations", 10, "how many requests wait for an answer at a time"),
        text_option("output-mode", "ordered", "'ordered' or 'allow_unordered'", ("ordered", "allow_unordered")),
        duration_option("timeout", 180_000, "how long an answer may take"),
    )
}
"""What Flink takes. Here a provider has such settings in the options of the model: all rows of an epoch are asked for at
once."""

RelationOf = Callable[[exp.Expr], tuple[LogicalNode, Source]]


def bind_prediction(call: FunctionCall, env: QueryEnv, relation: RelationOf) -> LogicalNode:
    """The relation of a call: the columns of the table, then those of the model's OUTPUT.

    Raises:
        BindError: E1230 for wrong arguments, E1201 for a column that is not there.
        CatalogError: E1450 for a model that is not there.
        TypeMismatchError: E1303 for a column that is not of its input's type.
    """
    arguments = call_arguments("ML_PREDICT", call, _PARAMETERS, ("CONFIG",), _USAGE, system=())
    plan, source = input_table("ML_PREDICT", arguments["INPUT"], relation, _USAGE)
    if "CONFIG" in arguments:
        _check_config(arguments["CONFIG"], env)
    table = asked_model("ML_PREDICT", arguments["MODEL"], env, _USAGE)
    features = _features(arguments["ARGS"], source, table.inputs)
    kind = JoinKind.LEFT if any(f.type.nullable for f in features) else JoinKind.INNER
    keys = tuple(zip(features, table.inputs.names, strict=True))
    asked = tuple(fresh_column(f.name, f.type) for f in table.schema)
    join = LookupJoin(plan, table, f"MODEL {table.name}", kind, keys, asked, TRUE)
    given = join.columns[len(plan.columns) + len(table.inputs) :]
    names = free_names([c.name for c in source.columns], table.outputs.names)
    outputs = ((fresh_column(n, c.type), c.ref()) for n, c in zip(names, given, strict=True))
    return Project(join, (*passing(plan.columns), *outputs))


def input_table(name: str, tree: exp.Expr, relation: RelationOf, usage: str) -> tuple[LogicalNode, Source]:
    """The table argument of a function of models."""
    if not isinstance(tree, TableArg):
        raise refused(f"the input of {name} is a table", tree, usage)
    if tree.args.get("partition_by") or tree.args.get("order") is not None:
        raise refused(f"{name} takes each row by itself: no PARTITION BY, no ORDER BY", tree, "leave them out")
    return relation(tree.this)


def asked_model(name: str, tree: exp.Expr, env: QueryEnv, usage: str) -> AskedModel:
    """The model argument of a function of models, loaded."""
    if not isinstance(tree, ModelArg):
        raise refused(f"the model of {name} is MODEL name", tree, usage)
    return env.context.model(tuple(p.name for p in tree.this.parts), span_of(tree.this))


def _check_config(tree: exp.Expr, env: QueryEnv) -> None:
    for key, value in text_map(tree, "CONFIG", env):
        if key not in _CONFIG:
            hint = did_you_mean(key, _CONFIG) or "there is " + ", ".join(sorted(_CONFIG))
            raise refused(f"CONFIG has the key '{key}', which ML_PREDICT does not know", tree, hint)
        with pointing_at(span_of(tree)):
            _CONFIG[key].read(value)


def _features(tree: exp.Expr, source: Source, inputs: Schema) -> list[Expr]:
    """The columns that DESCRIPTOR names, as the model's inputs."""
    if not isinstance(tree, Descriptor):
        raise refused("ARGS of ML_PREDICT is DESCRIPTOR(column, ..)", tree, _USAGE)
    if len(tree.expressions) != len(inputs):
        wanted = ", ".join(f"{f.name} {f.type.with_nullable(True)}" for f in inputs)
        raise refused(
            f"DESCRIPTOR has {len(tree.expressions)} columns, and the model takes {len(inputs)}",
            tree,
            f"name a column for each of ({wanted})",
        )
    found: list[Expr] = []
    for named, wanted in zip(tree.expressions, inputs, strict=True):
        column = input_column(source, named.name, named, "ML_PREDICT")
        if not implicit_cast(column.type, wanted.type):
            raise TypeMismatchError(
                f'the column "{column.name}" is {column.type.with_nullable(True)}, and the model takes '
                f'{wanted.type.with_nullable(True)} as "{wanted.name}"',
                code="E1303",
                span=span_of(named),
                hint=f"cast it in the input: TABLE (SELECT CAST({column.name} AS {wanted.type.with_nullable(True)}) ..)",
            )
        found.append(cast_to(column.ref(), wanted.type.with_nullable(column.type.nullable)))
    return found


def free_names(taken: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names for outputs; one that the table has gets a number, as in Flink."""
    known, found = set(taken), []
    for name in names:
        free, number = name, 0
        while free in known:
            free, number = f"{name}{number}", number + 1
        known.add(free)
        found.append(free)
    return found
