"""The queries of WITH RECURSIVE, in the order in which they are to be bound.

A name is known in all of its queries, before and behind it. Queries that read each other, directly or by way of others, form
a group (a strongly connected part of who reads whom). In a group, the queries that are `first UNION [ALL] step`, where
`first` reads none of the group, are the recursive ones: they are one loop (`recursion.py`). The others have no rows to begin
with; each stands in the steps that name it for what its query gives over the round before, and outside for what it gives over
the whole. So they may not read each other in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from runtime.core.errors import BindError
from sqlengine.bind.session import CommonTable, QueryEnv
from sqlengine.parse.spans import span_of

__all__ = ["named_tables", "recursive_tables"]


def recursive_tables(tables: Sequence[CommonTable], env: QueryEnv) -> QueryEnv:
    """The surroundings of the query behind WITH RECURSIVE; `tables` come without surroundings that know each other.

    Raises:
        BindError: E1263, queries read each other and none has rows to begin with.
    """
    by_name = {table.name: table for table in tables}
    reads = {table.name: _names(table.query) & by_name.keys() for table in tables}
    for names in _groups(reads):
        members = [replace(by_name[name], env=env.inside(env.outer)) for name in by_name if name in names]
        if len(names) == 1:
            (only,) = members
            env = env.with_tables({only.name: replace(only, recursive=only.name in reads[only.name])})
            continue
        env = _grouped(members, reads, env)
    return env


def _grouped(members: list[CommonTable], reads: Mapping[str, set[str]], env: QueryEnv) -> QueryEnv:
    names = {m.name for m in members}
    looping = [replace(m, recursive=True) for m in members if not _names(_first(m.query)) & names]
    others = [m for m in members if m.name not in {x.name for x in looping}]
    done = {m.name for m in looping}
    ordered: list[CommonTable] = []
    while len(ordered) < len(others):
        ready = [m for m in others if m.name not in done and reads[m.name] & names <= done]
        if not ready:
            left = [m for m in others if m.name not in done]
            named = " and ".join(f'"{m.name}"' for m in left)
            raise BindError(
                f"the recursive queries {named} read each other, and none has rows to begin with",
                code="E1263",
                span=span_of(left[0].query),
                hint="write one of them as UNION or UNION ALL of a query that reads none of them and one that does",
            )
        ordered += ready
        done.update(m.name for m in ready)
    group = (*looping, *ordered)
    env = env.with_tables({m.name: replace(m, group=group) for m in looping})
    for member in ordered:
        env = env.with_tables({member.name: replace(member, env=env.inside(env.outer))})
    return env


def _first(query: exp.Expr) -> exp.Expr:
    """What a query of the form `first UNION step` begins with; the query itself when it has no such form."""
    tree = query
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(k) for k in ("order", "limit", "offset", "with_")):
        tree = tree.this
    if not isinstance(tree, exp.Union):
        return query
    while isinstance(tree, exp.Union):
        tree = tree.this
    return tree


def named_tables(tree: exp.Expr) -> list[exp.Table]:
    """Where a query names tables by one word, but for those that a WITH within it defines."""
    return [t for t in tree.find_all(exp.Table) if len(t.parts) == 1 and not _is_defined(t, tree)]


def _names(tree: exp.Expr) -> set[str]:
    return {t.name for t in named_tables(tree)}


def _is_defined(table: exp.Table, whole: exp.Expr) -> bool:
    """Whether a WITH between a table and the whole query defines its name."""
    inner: exp.Expr = table
    while inner is not whole and inner.parent is not None:
        around = inner.parent
        if isinstance(around, exp.With):
            # Within WITH a name is known behind its query, and with RECURSIVE everywhere.
            known = around.expressions if around.args.get("recursive") else around.expressions[: _place(inner, around)]
            if any(t.args["alias"].this.name == table.name for t in known):
                return True
        elif not isinstance(inner, exp.With):
            with_ = around.args.get("with_")
            if with_ is not None and any(t.args["alias"].this.name == table.name for t in with_.expressions):
                return True
        inner = around
    return False


def _place(inner: exp.Expr, around: exp.With) -> int:
    return next(i for i, t in enumerate(around.expressions) if t is inner)


def _groups(reads: Mapping[str, set[str]]) -> list[set[str]]:
    """The strongly connected parts, each behind those that it reads (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        open_.append(name)
        for other in reads:
            if other not in reads[name]:
                continue
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in open_:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            at = open_.index(name)
            found.append(set(open_[at:]))
            del open_[at:]

    for name in reads:
        if name not in number:
            visit(name)
    return found
