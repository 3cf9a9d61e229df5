"""What stands in FROM in PostgreSQL's dialect: VALUES, functions that give rows, and the names of their columns."""

from __future__ import annotations

from abc import abstractmethod

from sqlglot import exp

from runtime.core.errors import UnsupportedError
from runtime.core.types import TypeRoot
from sqlengine.parse.constant_rows import ConstantRows
from sqlengine.parse.lexer import Token
from sqlengine.parse.nodes import FunctionCall, TableFunction, TypeSpec
from sqlengine.parse.postgres.operators import OperatorGrammar
from sqlengine.parse.postgres.table_functions import RECORDS, gives_rows, in_from, rows_of
from sqlengine.parse.postgres.templates import filled
from sqlengine.parse.spans import span_of

__all__ = ["PostgresRelations"]


class PostgresRelations(OperatorGrammar):
    """Reads relations as PostgreSQL does."""

    def __init__(self, text: str, tokens: list[Token] | None = None, index: int = 0) -> None:
        super().__init__(text, tokens, index)
        self._of_one_column: dict[str, str] = {}
        """Of the SELECT that is read, aliases of functions of one column, and what that is called."""

    def _select(self) -> exp.Select:
        outside, self._of_one_column = self._of_one_column, {}
        tree = super()._select()
        own = tree.walk(prune=lambda part: part is not tree and isinstance(part, exp.Query))
        if any(isinstance(part, exp.Join) and part.side for part in own):
            for call in tree.find_all(FunctionCall):
                if call.name == "PG_ROW_OR":
                    call.expressions[1].set("this", True)
        for column in list(tree.find_all(exp.Column)) if self._of_one_column else ():
            # The alias of a function of one column is that column.
            name = self._of_one_column.get(column.name) if len(column.parts) == 1 else None
            if name is not None:
                only = exp.Column(this=exp.Identifier(this=name, quoted=True), table=column.this.copy())
                only.meta.update(column.meta)
                shown = exp.Alias(this=only, alias=column.this.copy()) if column.parent is tree else only
                column.replace(shown)
        self._of_one_column = outside
        return tree

    def relation(self) -> exp.Expr:
        """VALUES in FROM has columns `column1`, `column2`, .. where nothing else is said."""
        tree = super().relation()
        alias = tree.args.get("alias")
        if isinstance(tree, exp.Unnest):
            self._name_columns(tree, alias)
        if isinstance(tree, exp.Values):
            alias = tree.args.get("alias") or exp.TableAlias(this=exp.Identifier(this="*VALUES*", quoted=True))
            if not alias.columns:
                width = _width(tree)
                alias.set("columns", [exp.Identifier(this=f"column{i + 1}", quoted=True) for i in range(width)])
            tree.set("alias", alias)
        return tree

    def _name_columns(self, tree: exp.Unnest, alias: exp.TableAlias | None) -> None:
        """Columns that the alias does not name have the names of the functions; the only column of one without a name of
        its own, that of the alias."""
        columns, takes_alias = tree.meta.pop("columns", ((), False))
        if not columns:
            return
        if alias is None:
            alias = exp.TableAlias(this=exp.Identifier(this=columns[0], quoted=True), columns=[])
            tree.set("alias", alias)
        given = list(alias.columns)
        if not given and takes_alias:
            given = [exp.Identifier(this=alias.name, quoted=True)]
        elif not given and len(columns) == 1:
            self._of_one_column[alias.name] = columns[0]
        alias.set("columns", [*given, *(exp.Identifier(this=n, quoted=True) for n in columns[len(given) :])])

    def _unnest(self) -> exp.Unnest:
        start = self.token
        tree = super()._unnest()
        call = FunctionCall(this="UNNEST", expressions=tree.expressions)
        return self.place(in_from([call], ordinality=bool(tree.args.get("offset"))), start)

    def _relation_without_alias(self) -> exp.Expr:
        if not self.at("ROWS", "FROM") or self.peek(2).upper != "(":
            return super()._relation_without_alias()
        start = self.advance()
        self.expect("FROM")
        self.expect("(")
        calls = [self._function_of_rows()]
        while self.match(","):
            calls.append(self._function_of_rows())
        self.expect(")")
        return self.place(in_from(calls, ordinality=self.match("WITH", "ORDINALITY")), start)

    def _function_of_rows(self) -> FunctionCall:
        start = self.token
        call = self.expression()
        if not gives_rows(call):
            self.refuse("ROWS FROM takes functions that give rows", start, "for example unnest(array)")
        return call

    def _as_table_function(self, call: exp.Expr, start: Token, *, lateral: bool) -> TableFunction:
        if gives_rows(call):
            made = in_from([call], ordinality=self.match("WITH", "ORDINALITY"))
            return self.place(made, start)  # type: ignore[return-value]
        if isinstance(call, FunctionCall) and not call.qualifier:
            if call.name.upper() in RECORDS and len(call.expressions) == 1:
                return self._record(call, start)  # type: ignore[return-value]
            rows = rows_of(call)
            if rows is not None:
                return self.place(rows, start)  # type: ignore[return-value]
        return super()._as_table_function(call, start, lateral=lateral)

    # Records of jsonb

    @abstractmethod
    def cast_to(self, value: exp.Expr, spec: TypeSpec, start: Token) -> exp.Expr:
        """The value as a type."""

    def _record(self, call: FunctionCall, start: Token) -> exp.Lateral:
        """`jsonb_to_recordset(v) [AS] r (a int, b text)`: a query that takes members out of each element."""
        self.match("AS")
        name = exp.Identifier(this=str(call.name).lower(), quoted=True) if self.at("(") else self.identifier("an alias")
        self.expect("(")
        columns = self.comma_separated(self._record_column)
        self.expect(")")
        array = filled(RECORDS[str(call.name).upper()], call)
        alias = exp.TableAlias(this=exp.to_identifier("r"), columns=[exp.to_identifier("v")])
        rows = self.place(exp.Unnest(expressions=[array], offset=False, alias=alias), start)
        query = self.place(exp.Select(expressions=columns, from_=exp.From(this=rows)), start)
        made = exp.Lateral(
            this=self.place(exp.Subquery(this=query), start), alias=exp.TableAlias(this=name, columns=[])
        )
        return self.place(made, start)

    def _record_column(self) -> exp.Expr:
        start = self.token
        name = self.identifier("a column name")
        spec = self.type_spec()
        key = exp.Literal(this=name.name, is_string=True)
        value: exp.Expr = FunctionCall(this="PG_JSONB_GET", expressions=[exp.Column(this=exp.to_identifier("v")), key])
        if spec.data_type.root in (TypeRoot.ARRAY, TypeRoot.ROW, TypeRoot.MAP):
            value = exp.Cast(this=value, to=spec)
        elif spec.data_type.root is not TypeRoot.VARIANT:
            value = self.cast_to(FunctionCall(this="PG_JSONB_TEXT", expressions=[value]), spec, start)
        for part in value.walk():
            self.place(part, start)
        return self.place(exp.Alias(this=value, alias=exp.Identifier(this=name.name, quoted=True)), start)

    # Functions that give rows, where none may stand

    def call(self, name: exp.Identifier, qualifier: list[exp.Identifier], start: Token) -> exp.Expr:
        tree = super().call(name, qualifier, start)
        if name.name.upper() == "COALESCE":
            self._refuse_rows(tree, "COALESCE")
        return tree

    def _case(self) -> exp.Expr:
        tree = super()._case()
        self._refuse_rows(tree, "CASE")
        return tree

    def _refuse_rows(self, tree: exp.Expr, place: str) -> None:
        """Rows are made before it is asked whether they are wanted."""
        for part in tree.walk(prune=lambda part: isinstance(part, exp.Query)):
            if gives_rows(part):
                raise UnsupportedError(
                    f"a function that gives rows cannot stand in {place}",
                    span=span_of(part),
                    text=self.text,
                    hint="write it in FROM: FROM t, unnest(array) AS x",
                )


def _width(values: exp.Values) -> int:
    first = values.expressions[0]
    if isinstance(first, ConstantRows):
        first = first.rows()[0]
    return len(first.expressions)
