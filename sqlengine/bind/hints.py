"""Hints after SELECT and after table names.

STATE_TTL says how long the state of a join's side, or of an aggregation, functions with OVER or a top-n over a single
relation, lives without being touched (Flink knows it for joins and aggregations). MULTI_JOIN names tables whose joins are to
run in one operator, whatever the option says.
LOOKUP says how the table of a lookup join is asked (`lookup_hint.py`). The join strategies of batch jobs are accepted and change
nothing here. An unknown hint, or one that names no
relation of the query, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.core.errors import BindError, OptionError, did_you_mean
from runtime.core.options import Options, bool_option, parse_duration
from runtime.core.rooms import Room
from sqlengine.bind.scope import Source
from sqlengine.parse.nodes import HintCall
from sqlengine.parse.spans import span_of

if TYPE_CHECKING:
    import sqlengine.bind.lookup_hint as _lookup_hint
    from sqlengine.bind.lookup_hint import LookupHint
else:
    _lookup_hint = Room("sqlengine.bind.lookup_hint")

__all__ = ["IGNORE_HINTS", "QueryHints", "check_hint_names", "query_hints", "table_options"]

IGNORE_HINTS = bool_option("table.optimizer.ignore-query-hints", False, "whether hints after SELECT are passed over")
_LISTS = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")
_KNOWN = ("STATE_TTL", "LOOKUP", *_LISTS)


def _hints(tree: exp.Select) -> list[HintCall]:
    hint = tree.args.get("hint")
    return [h for h in hint.expressions if isinstance(h, HintCall)] if hint is not None else []


@dataclass(frozen=True, slots=True)
class QueryHints:
    """What the hints of a SELECT say of the relations of its FROM, by name.

    `ttl`: milliseconds, from STATE_TTL. `merged`: the relations of each MULTI_JOIN. `lookups`: from LOOKUP.
    """

    ttl: Mapping[str, int]
    merged: tuple[frozenset[str], ...] = ()
    lookups: Mapping[str, LookupHint] = field(default_factory=dict)


def query_hints(tree: exp.Select, options: Options) -> QueryHints:
    """The hints after SELECT that mean something here; none where an option says that they are ignored."""
    if options.get(IGNORE_HINTS):
        return QueryHints({})
    merged = [
        frozenset(_last(e) for e in hint.args.get("expressions") or ())
        for hint in _hints(tree)
        if hint.name.upper() == "MULTI_JOIN"
    ]
    lookups: dict[str, LookupHint] = {}
    for hint in _hints(tree):
        if hint.name.upper() == "LOOKUP":
            name, said = _lookup_hint.lookup_hint(hint)
            lookups.setdefault(name, said)
    return QueryHints(_state_ttl(tree), tuple(merged), lookups)


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


def check_hint_names(tree: exp.Select, sources: Sequence[Source], options: Options) -> None:
    """Refuses hints that do not exist (E1240) or say nothing (E1242), and names in hints that are no relation of FROM
    (E1241)."""
    if options.get(IGNORE_HINTS):
        return
    names = [s.name for s in sources if s.name is not None]
    for hint in _hints(tree):
        name = hint.name.upper()
        if name not in _KNOWN:
            raise BindError(
                f"there is no hint {hint.name}", code="E1240", span=span_of(hint), hint=did_you_mean(name, _KNOWN)
            )
        _check_arguments(hint, name)
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


def _check_arguments(hint: HintCall, name: str) -> None:
    pairs, names = hint.args.get("options"), hint.args.get("expressions")
    if name in _LISTS and (pairs or not names):
        written = f"{name}(a, b)"
    elif name == "STATE_TTL" and (names or not pairs):
        written = "STATE_TTL('a' = '1 d', 'b' = '2 h')"
    else:
        return
    raise BindError(
        f"the hint {name} takes {'names of relations' if name in _LISTS else 'a time for each relation'}",
        code="E1242",
        span=span_of(hint),
        hint=f"write {written}",
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
