"""Trees that are built, not read: UPDATE and DELETE as queries, `SELECT *` of a table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from runtime.core.errors import TypeMismatchError
from runtime.core.schema import Schema
from runtime.core.types import TypeRoot
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.nodes import Assigned, TypeSpec
from sqlengine.parse.spans import span_of

__all__ = [
    "Tree",
    "delete_query",
    "has_order",
    "is_values",
    "returning_query",
    "select_all",
    "tables_of",
    "update_query",
    "where_equal",
    "with_renamed_column_in",
]

Tree = exp.Expr
"""A query or expression as the parser gives it."""


def select_all(path: tuple[str, str, str]) -> exp.Select:
    """`SELECT * FROM catalog.database.table`."""
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=_table(path)))


def is_values(query: Tree) -> bool:
    """Whether a query is VALUES."""
    return isinstance(query, exp.Values)


def tables_of(query: Tree, database: str) -> frozenset[str]:
    """The tables of a database, of those that a query names with it."""
    return frozenset(table.name for table in query.find_all(exp.Table) if table.db == database)


def has_order(query: Tree) -> bool:
    """Whether ORDER BY, and no LIMIT, stands at the end of a query."""
    return bool(query.args.get("order")) and not query.args.get("limit") and not query.args.get("fetch")


def where_equal(query: Tree, values: Sequence[tuple[str, Tree]]) -> Tree:
    """A query that has no WHERE yet, with one: each column equals its value."""
    wanted = [exp.EQ(this=_column(name), expression=value.copy()) for name, value in values]
    if wanted:
        query.set("where", exp.Where(this=exp.and_(*wanted, copy=False)))
    return query


def delete_query(statement: st.Delete, path: tuple[str, str, str], schema: Schema) -> exp.Select:
    """`SELECT physical columns FROM table WHERE condition`."""
    if statement.relations is None:
        return _selected([_column(name) for name in schema.names], path, statement.alias, statement.where)
    # A row that meets several others goes once.
    query = _selected([], path, statement.alias, None)
    query.set("expressions", [_column(name, _target(path, statement.alias)) for name in schema.names])
    met = statement.relations.query.copy()
    if statement.where is not None:
        met.set("where", exp.Where(this=statement.where.expression.copy()))
    query.set("where", exp.Where(this=exp.Exists(this=met)))
    return query


def update_query(statement: st.Update, path: tuple[str, str, str], schema: Schema) -> exp.Select:
    """`SELECT old columns, new columns FROM table WHERE condition`; new values become their column's type, as in INSERT.

    Raises TypeMismatchError E1302 for AND between assignments."""
    new = {name.text: value.expression for name, value in statement.assignments}
    target = None if statement.relations is None else _target(path, statement.alias)
    selected: list[exp.Expr] = [_column(name, target) for name in schema.names]
    for field in schema:
        value: exp.Expr = _column(field.name, target)
        if field.name in new:
            given = new[field.name].copy()
            if isinstance(given, exp.And) and field.type.root is not TypeRoot.BOOLEAN:
                raise TypeMismatchError(
                    f'the new value of "{field.name}" is a condition, and the column is {field.type.with_nullable(True)}',
                    code="E1302",
                    span=span_of(given),
                    hint="put a comma between the columns to set: SET a = 1, b = 2",
                )
            value = Assigned(this=given, to=TypeSpec(this=field.type.with_nullable(True)), column=field.name)
        selected.append(exp.Alias(this=value, alias=exp.to_identifier(f"new {field.name}", quoted=True)))
    query = _selected(selected, path, statement.alias, statement.where)
    if statement.relations is not None:
        relations = statement.relations.query.copy()
        query.set(
            "joins", [exp.Join(this=relations.args["from_"].this, kind="CROSS"), *relations.args.get("joins", [])]
        )
    return query


def returning_query(statement: st.Insert | st.Update | st.Delete, path: tuple[str, str, str]) -> exp.Select:
    """`SELECT what RETURNING says FROM table`."""
    assert statement.returning is not None
    query = _selected([], path, statement.alias, None)
    query.set("expressions", [item.copy() for item in statement.returning.query.expressions])
    query.meta.update(statement.returning.query.meta)
    return query


def _table(path: tuple[str, str, str]) -> exp.Table:
    catalog, database, name = (exp.to_identifier(part, quoted=True) for part in path)
    return exp.Table(this=name, db=database, catalog=catalog)


def _selected(
    columns: list[exp.Expr], path: tuple[str, str, str], alias: st.Name | None, where: st.ExpressionText | None
) -> exp.Select:
    source = _table(path)
    name = _target(path, alias)
    source.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    query = exp.Select(expressions=columns, from_=exp.From(this=source))
    if where is not None:
        query.set("where", exp.Where(this=where.expression.copy()))
    return query


def _target(path: tuple[str, str, str], alias: st.Name | None) -> str:
    """What the changed table is called in its statement."""
    return path[2] if alias is None else alias.text


def _column(name: str, table: str | None = None) -> exp.Column:
    relation = None if table is None else exp.to_identifier(table, quoted=True)
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=relation)


def with_renamed_column_in(tree: Tree, old: str, new: str) -> tuple[Tree, str]:
    """An expression in which a column has another name, and its text in Flink SQL."""
    made = tree.copy()
    for column in made.find_all(exp.Column):
        first = column.parts[0]
        if first.name == old:
            first.replace(exp.Identifier(this=new, quoted=True))
    return made, str(made.sql(dialect="flink"))
