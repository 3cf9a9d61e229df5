"""Hints after SELECT and after table names.

STATE_TTL says how long the state of a join's side, or of an aggregation, functions with OVER or a top-n over a single
relation, lives without being touched (Flink knows it for joins and aggregations). MULTI_JOIN names tables whose joins are to
run in one operator, whatever the option says.
LOOKUP and the join strategies of batch jobs are accepted and change nothing here. An unknown hint, or one that names no
relation of the query, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from runtime.core.errors import BindError, OptionError, did_you_mean
from runtime.core.options import parse_duration
from sqlengine.bind.scope import Source
from sqlengine.parse.nodes import HintCall
from sqlengine.parse.spans import span_of

__all__ = ["QueryHints", "check_hint_names", "query_hints", "table_options"]

_LISTS = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")
_KNOWN = ("STATE_TTL", "LOOKUP", *_LISTS)


def _hints(tree: exp.Select) -> list[HintCall]:
    hint = tree.args.get("hint")
    return [h for h in hint.expressions if isinstance(h, HintCall)] if hint is not None else []


@dataclass(frozen=True, slots=True)
class QueryHints:
    """What the hints of a SELECT say of the relations of its FROM, by name.

    `ttl`: milliseconds, from STATE_TTL. `merged`: the relations of each MULTI_JOIN.
    """

    ttl: Mapping[str, int]
    merged: tuple[frozenset[str], ...] = ()


def query_hints(tree: exp.Select) -> QueryHints:
    """The hints after SELECT that mean something here."""
    merged = [
        frozenset(_last(e) for e in hint.args.get("expressions") or ())
        for hint in _hints(tree)
        if hint.name.upper() == "MULTI_JOIN"
    ]
    return QueryHints(_state_ttl(tree), tuple(merged))


def _state_ttl(tree: exp.Select) -> dict[str, int]:
    """Milliseconds by name of relation. Of two STATE_TTL hints the first wins, inside one the last."""
    found: dict[str, int] = {}
    for hint in _hints(tree):
        if hint.name.upper() != "STATE_TTL":
            continue
        for name, text in hint.options.items():
            try:
                found.setdefault(name, parse_duration(text))
            except OptionError as error:
                error.span = span_of(hint)
                raise
    return found


def check_hint_names(tree: exp.Select, sources: Sequence[Source]) -> None:
    """Refuses hints that do not exist (E1240) and names in hints that are no relation of FROM (E1241)."""
    names = [s.name for s in sources if s.name is not None]
    for hint in _hints(tree):
        name = hint.name.upper()
        if name not in _KNOWN:
            raise BindError(
                f"there is no hint {hint.name}", code="E1240", span=span_of(hint), hint=did_you_mean(name, _KNOWN)
            )
        named: Iterable[str] = ()
        if name == "STATE_TTL":
            named = hint.options
        elif name == "LOOKUP":
            named = [v for k, v in hint.options.items() if k == "table"]
        elif name in _LISTS:
            named = [_last(e) for e in hint.args.get("expressions") or ()]
        for target in named:
            if target not in names:
                raise BindError(
                    f'the hint {name} names "{target}", which is no relation of this FROM',
                    code="E1241",
                    span=span_of(hint),
                    hint=did_you_mean(target, names),
                )


def _last(tree: exp.Expr) -> str:
    return tree.parts[-1].name if isinstance(tree, exp.Column | exp.Table) else tree.name


def table_options(tree: exp.Table) -> Mapping[str, str]:
    """The options that an OPTIONS hint after a table's name gives."""
    found: dict[str, str] = {}
    for hint in tree.args.get("hints") or ():
        if hint.name.upper() != "OPTIONS":
            raise BindError(
                f"the hint {hint.name} cannot stand after a table",
                code="E1240",
                span=span_of(hint),
                hint="after a table stands OPTIONS('key' = 'value'); other hints stand after SELECT",
            )
        found.update(hint.options)
    return found
