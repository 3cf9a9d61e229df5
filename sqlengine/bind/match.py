"""MATCH_RECOGNIZE: a `Match` that finds the matches and reads what MEASURES need of their rows, and a projection that
computes the measures."""

from __future__ import annotations

from sqlglot import exp

from planner.logical.match import Match
from planner.logical.nodes import LogicalNode, Project
from runtime.core.errors import BindError, UnsupportedError
from runtime.expr.analysis import conjuncts
from runtime.expr.nodes import Column, ColumnRef, Expr, SortKey, fresh_column, walk
from runtime.expr.rewrite import conjunction
from runtime.plan.pattern import UNIVERSAL, AfterMatch, MatchRows, Pattern, PatternSubset
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.match_pattern import read_pattern
from sqlengine.bind.match_values import MatchValues, variable_number
from sqlengine.bind.scope import Scope
from sqlengine.bind.session import MATCH_SEMANTICS, BoundRelation, Clause, QueryEnv
from sqlengine.bind.sort_keys import sort_key
from sqlengine.bind.table_functions import milliseconds
from sqlengine.options.dialect import DIALECT, POSTGRES
from sqlengine.parse.nodes import MatchRecognize
from sqlengine.parse.spans import span_of

__all__ = ["bind_match"]

_SKIPS = {
    "PAST LAST ROW": AfterMatch.PAST_LAST_ROW,
    "TO NEXT ROW": AfterMatch.TO_NEXT_ROW,
    "TO FIRST": AfterMatch.TO_FIRST,
    "TO LAST": AfterMatch.TO_LAST,
}


_ROWS = {
    "": MatchRows.ONE,
    "ONE ROW PER MATCH": MatchRows.ONE,
    "ALL ROWS PER MATCH": MatchRows.SHOW_EMPTY,
    "ALL ROWS PER MATCH SHOW EMPTY MATCHES": MatchRows.SHOW_EMPTY,
    "ALL ROWS PER MATCH OMIT EMPTY MATCHES": MatchRows.OMIT_EMPTY,
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS": MatchRows.UNMATCHED,
}


def bind_match(tree: MatchRecognize, source: BoundRelation, env: QueryEnv) -> LogicalNode:
    """The matches of a relation: its partition columns, then the measures; with ALL ROWS PER MATCH the partition columns,
    those of ORDER BY, the measures, then all other columns.

    Raises:
        BindError: E1260 for a pattern that cannot be matched, E1261 for a variable that is not in it, E1262 for a value
            that is of more than one variable, or a definition that has no meaning.
        UnsupportedError: what Flink refuses, too.
    """
    arguments = tree.args
    rows = _ROWS[arguments.get("rows") or ""]
    if not arguments.get("measures") and rows is MatchRows.ONE:
        raise BindError(
            "MATCH_RECOGNIZE needs MEASURES", code="E1262", span=span_of(tree), hint="for example MEASURES A.x AS x"
        )
    pattern = _pattern(tree, env)
    if rows is MatchRows.UNMATCHED and pattern.shape is not None and pattern.shape.excludes:
        raise BindError(
            "WITH UNMATCHED ROWS shows all rows, so no part of PATTERN can be excluded",
            code="E1262",
            span=span_of(arguments["pattern"]),
            hint="leave WITH UNMATCHED ROWS out, or {- and -}",
        )
    columns = source.plan.columns
    plain = ExpressionBinder(env, source.scope, Clause("MATCH_RECOGNIZE", subqueries=False))
    partition = _partition(arguments.get("partition_by") or (), plain)
    order = _order(tree, plain)
    rowtime = order[0].expr
    values = MatchValues(env, source.scope, columns, pattern, rowtime, rows)
    alone, asked = _definitions(arguments["define"], values)
    tested = values.items
    values.items = []
    items: list[tuple[Column, Expr]] = [(c, c.ref()) for c, _ in partition]
    given = {ref.id for _, ref in partition}
    others: list[tuple[Column, Expr]] = []
    if rows is not MatchRows.ONE:
        ordered = [key.expr.id for key in order if isinstance(key.expr, ColumnRef)]
        for column in columns:
            if column.id not in given:
                (items if column.id in ordered else others).append(values.of_row(column))
        first = {name: place for place, name in enumerate(_names_in_order(order))}
        items[len(partition) :] = sorted(items[len(partition) :], key=lambda item: first[item[0].name])
    for measure in arguments.get("measures") or ():
        name = measure.args["alias"]
        if any(c.name == name.name for c, _ in (*items, *others)):
            raise BindError(
                f'two columns of MATCH_RECOGNIZE are called "{name.name}"',
                code="E1262",
                span=span_of(name),
                hint="give the measure another name",
            )
        value = values.measure(measure.this)
        items.append((fresh_column(name.name, value.type), value))
    match = Match(
        source.plan,
        tuple(partition),
        order,
        pattern,
        tuple(alone),
        tuple(asked),
        tuple(tested),
        tuple(values.items),
        rows,
    )
    return Project(match, (*items, *others))


def _names_in_order(order: tuple[SortKey, ...]) -> list[str]:
    return list(dict.fromkeys(key.expr.name for key in order if isinstance(key.expr, ColumnRef)))


def _pattern(tree: MatchRecognize, env: QueryEnv) -> Pattern:
    options = env.context.options
    standard = options.get(MATCH_SEMANTICS).lower() == "standard"
    if MATCH_SEMANTICS.key not in options:
        standard = options.get(DIALECT).lower() == POSTGRES
    read = read_pattern(tree.args["pattern"], standard)
    variables = read.variables
    subsets = _subsets(tree, [v.name for v in variables])
    after, skip_to = tree.args.get("after"), UNIVERSAL
    kind = AfterMatch.PAST_LAST_ROW if standard else AfterMatch.TO_NEXT_ROW
    if after is not None:
        kind = _SKIPS[after.this]
        named = after.args.get("expression")
        if named is not None:
            skip_to = variable_number(named.name, [v.name for v in (*variables, *subsets)], span_of(named))
    within = tree.args.get("within")
    length = 0
    if within is not None:
        binder = ExpressionBinder(env, Scope(), Clause("WITHIN", subqueries=False))
        # Flink takes a length that is not positive for none.
        length = max(milliseconds(binder.bind(within), "WITHIN", span_of(within)), 0)
    pattern = Pattern(variables, kind, skip_to, length, subsets, read.shape)
    if read.shape is None and kind is AfterMatch.TO_FIRST and 0 in pattern.members(skip_to):
        raise BindError(
            f'AFTER MATCH SKIP TO FIRST "{pattern.name(skip_to)}" leads to the first row of the match again',
            code="E1260",
            span=span_of(after),
            hint="skip to a variable behind it, or SKIP TO NEXT ROW",
        )
    return pattern


def _subsets(tree: MatchRecognize, variables: list[str]) -> tuple[PatternSubset, ...]:
    found: list[PatternSubset] = []
    for subset in tree.args.get("subsets") or ():
        name = subset.this
        if name.name in (*variables, *(s.name for s in found)):
            raise BindError(
                f'a variable or a subset is called "{name.name}" already',
                code="E1262",
                span=span_of(name),
                hint="give the subset another name",
            )
        members = {variable_number(v.name, variables, span_of(v)) for v in subset.expressions}
        found.append(PatternSubset(name.name, tuple(sorted(members))))
    return tuple(found)


def _partition(trees: list[exp.Expr] | tuple[()], binder: ExpressionBinder) -> list[tuple[Column, ColumnRef]]:
    found: list[tuple[Column, ColumnRef]] = []
    for tree in trees:
        value = binder.bind(tree)
        if not isinstance(value, ColumnRef):
            raise UnsupportedError(
                "PARTITION BY of MATCH_RECOGNIZE takes columns only",
                span=span_of(tree),
                hint="compute the value in a query in FROM",
            )
        if all(ref.id != value.id for _, ref in found):
            found.append((fresh_column(value.name, value.type), value))
    return found


def _order(tree: MatchRecognize, binder: ExpressionBinder) -> tuple[SortKey, ...]:
    order = tree.args.get("order")
    if order is None:
        raise BindError(
            "MATCH_RECOGNIZE needs ORDER BY", code="E1262", span=span_of(tree), hint="ORDER BY a time attribute first"
        )
    keys = tuple(sort_key(binder.bind(item.this), item) for item in order.expressions)
    first = keys[0]
    if first.descending or not isinstance(first.expr, ColumnRef) or first.expr.type.time_attribute is None:
        raise UnsupportedError(
            "MATCH_RECOGNIZE takes rows in the order of time",
            code="E1614",
            span=span_of(order.expressions[0]),
            hint="ORDER BY an ascending time attribute first; a column is one with WATERMARK FOR, or AS PROCTIME()",
        )
    return keys


def _definitions(trees: list[exp.Expr], values: MatchValues) -> tuple[list[tuple[int, Expr]], list[tuple[int, Expr]]]:
    """The conditions by variable: what they say of the row alone, and the rest."""
    alone: list[tuple[int, Expr]] = []
    asked: list[tuple[int, Expr]] = []
    defined: set[int] = set()
    for tree in trees:
        name = tree.args["alias"]
        number = variable_number(name.name, [v.name for v in values.pattern.variables], span_of(name))
        if number in defined:
            raise BindError(
                f'the variable "{name.name}" is defined twice',
                code="E1262",
                span=span_of(name),
                hint="combine the conditions with AND",
            )
        defined.add(number)
        parts = conjuncts(values.condition(tree.this, number))
        of_match = {item.column.id for item in values.items}
        depends = [any(isinstance(e, ColumnRef) and e.id in of_match for e in walk(part)) for part in parts]
        for conditions, of_run in ((alone, False), (asked, True)):
            chosen = [part for part, depending in zip(parts, depends, strict=True) if depending is of_run]
            if chosen:
                conditions.append((number, conjunction(chosen)))
    return alone, asked
