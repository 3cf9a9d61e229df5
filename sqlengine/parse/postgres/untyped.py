"""What has no type of its own is a text in the columns of a query, as in PostgreSQL: `SELECT NULL AS x, 'a' AS y`.

A text in quotes would be CHAR(n) otherwise, and a table that is made of the query would hold no longer ones. A column that is
NULL has, in a set operation, the type of the same column of the other queries, where one of them says one. What an INSERT
writes has the types of the table's columns.
"""

from __future__ import annotations

from sqlglot import exp

from runtime.core.types import STRING
from sqlengine.parse.nodes import JoinTree, TypeSpec

__all__ = ["untyped_are_texts"]


def untyped_are_texts(query: exp.Expr) -> bool:
    """Give a type to such columns of a query, and of those in its WITH and FROM; whether there were any."""
    changed = False
    with_ = query.args.get("with_")
    for table in with_.expressions if with_ is not None else ():
        changed |= untyped_are_texts(table.this)
    selects = _selects(query)
    for select in selects:
        for relation in (select.args.get("from_"), *(select.args.get("joins") or ())):
            if relation is not None:
                changed |= _within(relation)
        for place, item in enumerate(select.expressions):
            if _is_text(item.unalias()):
                _make_text(select, place)
                changed = True
    lists = [select.expressions for select in selects]
    if not lists or any(len(items) != len(lists[0]) for items in lists):
        return changed
    for place, column in enumerate(zip(*lists, strict=True)):
        if all(isinstance(item.unalias(), exp.Null) for item in column):
            _make_text(selects[0], place)
            changed = True
    return changed


def _selects(query: exp.Expr) -> list[exp.Select]:
    """The SELECTs that a query is made of; none when there is another kind of query among them."""
    match query:
        case exp.Select():
            return [query]
        case exp.Subquery():
            return _selects(query.this)
        case exp.SetOperation():
            left, right = _selects(query.this), _selects(query.expression)
            return left + right if left and right else []
        case _:
            return []


def _within(holder: exp.Expr) -> bool:
    relation = holder.this
    if isinstance(relation, exp.Subquery):
        return untyped_are_texts(relation.this)
    if isinstance(relation, JoinTree):
        return any([_within(relation), *map(_within, relation.args["joins"])])
    return False


def _is_text(tree: exp.Expr) -> bool:
    """Whether it is a text in quotes, or one of several."""
    match tree:
        case exp.Literal():
            return tree.is_string
        case exp.Paren():
            return _is_text(tree.this)
        case exp.Case():
            found = [branch.args["true"] for branch in tree.args["ifs"]]
            found += [tree.args["default"]] if tree.args.get("default") is not None else []
            return any(map(_is_text, found)) and all(_is_text(r) or isinstance(r, exp.Null) for r in found)
        case _:
            return False


def _make_text(select: exp.Select, place: int) -> None:
    item = select.expressions[place]
    value = item.unalias()
    typed = exp.Cast(this=value.copy(), to=TypeSpec(this=STRING))
    typed.meta.update(value.meta)
    if isinstance(item, exp.Alias):
        item.set("this", typed)
    else:
        items = list(select.expressions)
        items[place] = typed
        select.set("expressions", items)
