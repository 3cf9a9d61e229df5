"""FROM_CHANGELOG and TO_CHANGELOG in FROM: rows as changes, and changes as rows.

    FROM_CHANGELOG(input => TABLE t, op => DESCRIPTOR(c), op_mapping => MAP['c, r', 'INSERT', 'd', 'DELETE'])
    TO_CHANGELOG(input => TABLE t, op => DESCRIPTOR(c), op_mapping => MAP['INSERT, UPDATE_AFTER', 'put', 'DELETE', 'del'])

Both take `uid`, which means nothing here: they keep no state.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.logical.nodes import FromChangelog, LogicalNode, ToChangelog
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from runtime.core.errors import TypeMismatchError, UnsupportedError, did_you_mean
from runtime.core.types import STRING
from runtime.expr.nodes import fresh_column
from sqlengine.bind.function_arguments import (
    call_arguments,
    check_uid,
    descriptor_column,
    input_column,
    refused,
    text_argument,
    text_map,
)
from sqlengine.bind.scope import Source
from sqlengine.bind.session import QueryEnv
from sqlengine.parse.nodes import FunctionCall, TableArg
from sqlengine.parse.spans import span_of

__all__ = ["bind_changelog_function"]

_PARAMETERS = {
    "FROM_CHANGELOG": ("input", "op", "op_mapping", "error_handling"),
    "TO_CHANGELOG": ("input", "op", "op_mapping"),
}
_KINDS = {"INSERT": INSERT, "UPDATE_BEFORE": UPDATE_BEFORE, "UPDATE_AFTER": UPDATE_AFTER, "DELETE": DELETE}
_OP = "op"

RelationOf = Callable[[exp.Expr], tuple[LogicalNode, Source]]


def bind_changelog_function(call: FunctionCall, env: QueryEnv, relation: RelationOf) -> LogicalNode:
    """The relation of a call; `relation` binds the table argument.

    Raises:
        BindError: E1230 for wrong arguments, E1201 for a column `op` that is not there.
        TypeMismatchError: E1230 for a column `op` that is no text.
        UnsupportedError: E1600 in batch mode, and for `on_time`.
    """
    name, parameters = call.name.upper(), _PARAMETERS[call.name.upper()]
    rest = ", ".join(f"{p} => .." for p in parameters[1:])
    usage = f"write {name}(input => TABLE t, {rest}); all but input may be left out"
    arguments = call_arguments(name, call, parameters, parameters[1:], usage)
    if env.context.batch:
        raise UnsupportedError(
            f"{name} does not run in batch mode, which has no changes",
            span=span_of(call),
            hint="SET 'execution.runtime-mode' = 'streaming'",
        )
    if "on_time" in arguments:
        raise UnsupportedError(
            f"on_time of {name} is not supported",
            span=span_of(arguments["on_time"]),
            hint="leave it out: a time attribute of the input stays one",
        )
    if "uid" in arguments:
        check_uid(arguments["uid"])
    plan, source = _input(name, arguments["input"], usage, relation)
    named = descriptor_column(arguments["op"], _OP) if "op" in arguments else None
    mapping = arguments.get("op_mapping")
    pairs = tuple((k, k) for k in _KINDS) if mapping is None else text_map(mapping, "op_mapping", env)
    place = mapping or call
    if name == "TO_CHANGELOG":
        op = fresh_column(_OP if named is None else named.name, STRING)
        if any(c.name == op.name for c in source.columns):
            raise refused(
                f'the input of TO_CHANGELOG has a column "{op.name}" already',
                named or call,
                "give the column of the kinds another name: op => DESCRIPTOR(change)",
            )
        kinds = _kinds([(kind, code) for keys, code in pairs for kind in _split(keys)], place)
        return ToChangelog(plan, op, tuple((kind, code) for kind, code in kinds), span_of(call))
    at = input_column(source, _OP if named is None else named.name, named or call, name)
    if not at.type.is_character:
        raise TypeMismatchError(
            f'the column "{at.name}" of FROM_CHANGELOG is a text that says what change a row is, not {at.type.with_nullable(True)}',
            code="E1230",
            span=span_of(named or call),
            hint="cast it in the input: (SELECT CAST(c AS STRING) AS c, .. FROM t)",
        )
    if len(plan.columns) == 1:
        raise refused(f'the input of FROM_CHANGELOG has no column but "{at.name}"', named or call, usage)
    codes = _codes(pairs, place)
    return FromChangelog(plan, at.ref(), codes, _skips(arguments.get("error_handling"), env), span_of(call))


def _input(name: str, tree: exp.Expr, usage: str, relation: RelationOf) -> tuple[LogicalNode, Source]:
    if not isinstance(tree, TableArg):
        raise refused(f"the input of {name} is a table", tree, usage)
    if tree.args.get("partition_by") or tree.args.get("order") is not None:
        raise refused(
            f"{name} takes each row by itself, so its input has no PARTITION BY and no ORDER BY",
            tree,
            "leave them out",
        )
    return relation(tree.this)


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",")]


def _kind(text: str, place: exp.Expr) -> int:
    kind = _KINDS.get(text.strip())
    if kind is None:
        hint = did_you_mean(text.strip().upper(), _KINDS)
        raise refused(
            f"op_mapping names '{text}', which is no kind of change", place, hint or f"there are {', '.join(_KINDS)}"
        )
    return kind


def _kinds(pairs: list[tuple[str, str]], place: exp.Expr) -> list[tuple[int, str]]:
    found: dict[int, str] = {}
    for text, code in pairs:
        kind = _kind(text, place)
        if kind in found:
            raise refused(f"op_mapping has {text} twice", place, "give each kind one code")
        found[kind] = code
    return sorted(found.items())


def _codes(pairs: tuple[tuple[str, str], ...], place: exp.Expr) -> tuple[tuple[str, int], ...]:
    """Codes with their row kinds."""
    targets: set[int] = set()
    found: dict[str, int] = {}
    for keys, text in pairs:
        kind = _kind(text, place)
        if kind in targets:
            raise refused(
                f"op_mapping has {text} twice", place, f"write all codes of a kind in one key: MAP['c, r', '{text}']"
            )
        targets.add(kind)
        for code in _split(keys):
            if code in found:
                raise refused(f"op_mapping has the code '{code}' twice", place, "give each code one kind")
            found[code] = kind
    if UPDATE_AFTER in targets and UPDATE_BEFORE not in targets:
        raise refused(
            "op_mapping has UPDATE_AFTER without UPDATE_BEFORE, so that nobody knows which row is updated",
            place,
            "map a code to UPDATE_BEFORE, too; a log with new rows alone is a table with a primary key: keep its last rows "
            "with ROW_NUMBER() OVER (PARTITION BY key ORDER BY time DESC) = 1",
        )
    return tuple(found.items())


def _skips(tree: exp.Expr | None, env: QueryEnv) -> bool:
    if tree is None:
        return False
    text = text_argument(tree, "error_handling", env)
    if text not in ("FAIL", "SKIP"):
        raise refused(f"error_handling is 'FAIL' or 'SKIP', not '{text}'", tree, "'SKIP' rejects rows of unknown codes")
    return text == "SKIP"
