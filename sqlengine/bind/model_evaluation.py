"""ML_EVALUATE in FROM: one row with figures of how well a model predicts a column, kept up to date as rows change.

    ML_EVALUATE(TABLE t, MODEL m, DESCRIPTOR(label), DESCRIPTOR(a, b) [, 'classification' [, MAP[..]]])
    INPUT, MODEL, LABEL, ARGS, TASK, CONFIG

It is a query over ML_PREDICT, so it needs nothing of its own to follow changes. Precision, recall and F1 are means over
the classes, each of the same weight (scikit-learn's `average='macro'`, `zero_division=0`).
"""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import TypeMismatchError
from runtime.core.types import TypeRoot
from runtime.expr.typing import implicit_cast
from sqlengine.bind.function_arguments import call_arguments, descriptor_column, input_column, refused, text_argument
from sqlengine.bind.models import RelationOf, asked_model, free_names, input_table
from sqlengine.bind.session import BoundQuery, QueryEnv
from sqlengine.parse import parse_query
from sqlengine.parse.nodes import FunctionCall, TableFunction
from sqlengine.parse.spans import placed_at, span_of

__all__ = ["bind_evaluation"]

_PARAMETERS = ("INPUT", "MODEL", "LABEL", "ARGS", "TASK", "CONFIG")
_USAGE = "write ML_EVALUATE(TABLE t, MODEL m, DESCRIPTOR(label), DESCRIPTOR(a, b), 'classification')"
_FROM = "WITH pairs AS (SELECT y, p FROM (SELECT {label} AS y, {output} AS p FROM given) WHERE y IS NOT NULL AND p IS NOT NULL)"
_TASKS = {
    "classification": _FROM + """
        SELECT MAP['count', SUM(labelled), 'accuracy', SUM(hits) / SUM(labelled),
                   'precision', AVG(CASE WHEN predicted > 0 THEN hits / predicted ELSE CAST(0 AS DOUBLE) END),
                   'recall', AVG(CASE WHEN labelled > 0 THEN hits / labelled ELSE CAST(0 AS DOUBLE) END),
                   'f1', AVG(2 * hits / (predicted + labelled))] AS `result`
        FROM (SELECT c, SUM(hit) AS hits, SUM(of_p) AS predicted, SUM(of_y) AS labelled FROM (
            SELECT y AS c, CAST(CASE WHEN y = p THEN 1 ELSE 0 END AS DOUBLE) AS hit, CAST(0 AS DOUBLE) AS of_p,
                   CAST(1 AS DOUBLE) AS of_y FROM pairs
            UNION ALL SELECT p, CAST(0 AS DOUBLE), CAST(1 AS DOUBLE), CAST(0 AS DOUBLE) FROM pairs) GROUP BY c)""",
    "regression": _FROM + """
        SELECT MAP['count', CAST(COUNT(*) AS DOUBLE), 'mae', AVG(ABS(e)), 'mse', AVG(e * e), 'rmse', SQRT(AVG(e * e)),
                   'r2', CASE WHEN VAR_POP(y) > 0 THEN 1 - AVG(e * e) / VAR_POP(y) END] AS `result`
        FROM (SELECT CAST(y AS DOUBLE) AS y, CAST(p AS DOUBLE) - CAST(y AS DOUBLE) AS e FROM pairs)""",
}  # fmt: skip
_NUMBERS = (TypeRoot.DOUBLE, TypeRoot.FLOAT, TypeRoot.DECIMAL)


def bind_evaluation(call: FunctionCall, env: QueryEnv, relation: RelationOf) -> BoundQuery:
    """The query of a call: one row, a MAP<STRING, DOUBLE> of figures. Raises what `bind_prediction` raises."""
    arguments = call_arguments("ML_EVALUATE", call, _PARAMETERS, ("TASK", "CONFIG"), _USAGE, system=())
    _, source = input_table("ML_EVALUATE", arguments["INPUT"], relation, _USAGE)
    model = asked_model("ML_EVALUATE", arguments["MODEL"], env, _USAGE)
    named = descriptor_column(arguments["LABEL"], "LABEL")
    label = input_column(source, named.name, named, "ML_EVALUATE")
    if len(model.outputs) != 1:
        raise refused(
            f"ML_EVALUATE compares one output with the label, and the model has {len(model.outputs)}",
            arguments["MODEL"],
            "declare another model with the one OUTPUT that is to be compared",
        )
    output = model.outputs[0]
    if not implicit_cast(label.type, output.type):
        raise TypeMismatchError(
            f'the label "{label.name}" is {label.type.with_nullable(True)}, and the model gives {output.type.with_nullable(True)}',
            code="E1303",
            span=span_of(named),
            hint="cast it in the input: TABLE (SELECT CAST(..) ..)",
        )
    task = _task(arguments.get("TASK"), output.type.root, env)
    (name,) = free_names([c.name for c in source.columns], [output.name])
    text = _TASKS[task].format(label=_quoted(label.name), output=_quoted(name))
    tree = placed_at(parse_query(text), span_of(call))
    for table in list(tree.find_all(exp.Table)):
        if table.name == "given":
            table.replace(_prediction(arguments, call))
    return env.inside(env.outer).query(tree)


def _task(tree: exp.Expr | None, root: TypeRoot, env: QueryEnv) -> str:
    if tree is None:
        return "regression" if root in _NUMBERS else "classification"
    task = text_argument(tree, "TASK", env).lower()
    if task not in _TASKS:
        raise refused(f"ML_EVALUATE has no task '{task}'", tree, "there is 'classification' and 'regression'")
    return task


def _prediction(arguments: dict[str, exp.Expr], call: FunctionCall) -> exp.Expr:
    given = [arguments[key].copy() for key in ("INPUT", "MODEL", "ARGS", "CONFIG") if key in arguments]
    inner = FunctionCall(this="ML_PREDICT", expressions=given)
    inner.meta.update(call.meta)
    tree = TableFunction(this=inner, lateral=False)
    tree.meta.update(call.meta)
    return tree


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
