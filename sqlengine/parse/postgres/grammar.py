"""The grammar of PostgreSQL's dialect: where it reads something in another way than Flink's."""

from __future__ import annotations

import re
from typing import TypeVar

from sqlglot import exp

from runtime.core.errors import SqlEngineError, UnsupportedError
from runtime.core.types import VARIANT, DataType, TypeRoot
from sqlengine.parse.ddl_nodes import CreateTable, ExpressionText, QueryText, Statement
from sqlengine.parse.interval_texts import amount_of
from sqlengine.parse.lexer import NUMBER, QUOTED, STRING, WORD, Token
from sqlengine.parse.nodes import FunctionCall, IntervalLiteral, JsonFunction, PatternText, TypeSpec
from sqlengine.parse.postgres.array_query import array_of_query
from sqlengine.parse.postgres.lexer import scan
from sqlengine.parse.postgres.meanings import meaning
from sqlengine.parse.postgres.one_row import always_a_row
from sqlengine.parse.postgres.operators import operator_call
from sqlengine.parse.postgres.output_names import NO_NAME, cast_name, named, output_name
from sqlengine.parse.postgres.passing_time import follows_time
from sqlengine.parse.postgres.relations import PostgresRelations
from sqlengine.parse.postgres.table_functions import rows_of_array
from sqlengine.parse.postgres.types import NUMERIC, PLAIN, REFUSED
from sqlengine.parse.postgres.untyped import untyped_are_texts
from sqlengine.parse.statement_nodes import CreateMaterializedView, CreateView, Insert, QueryStatement

__all__ = ["HEADER", "PostgresGrammar"]

_OF_TYPE = frozenset(
    ("INT", "INTEGER", "INT2", "INT4", "INT8", "BIGINT", "SMALLINT", "NUMERIC", "DECIMAL", "REAL", "FLOAT4", "FLOAT8",
     "BOOL", "BOOLEAN", "TEXT", "VARCHAR", "JSON", "JSONB", "BYTEA", "TIMESTAMPTZ", "TIMESTAMP", "UUID")
)  # fmt: skip
"""Types that may stand before a text in quotes, as in `jsonb '{}'`."""
_OF_ROWS = frozenset(("ROW_TO_JSON", "TO_JSON", "TO_JSONB", "JSON_AGG", "JSONB_AGG"))
"""Functions that take the rows of a relation by its name."""
_BIGINT = "9223372036854775808"
"""Behind a minus sign it is a bigint, too."""
HEADER = "-- dialect: postgres\n"
_S = TypeVar("_S", bound=Statement)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MINUTES = re.compile(r"\s*(?:\d{4}-\d{1,2}-\d{1,2} )?\d{1,2}:\d{2}\s*")
"""A time of which the seconds are not written."""
_BYTES = re.compile(r"\\x([0-9a-fA-F]{2})*")


class PostgresGrammar(PostgresRelations):
    """Reads statements as PostgreSQL does."""

    scanner = staticmethod(scan)
    database_is = "catalog"

    # Texts

    def _finish(self, statement: _S, start: Token) -> _S:
        """The text of a statement says its dialect, so that it can be read again."""
        found = super()._finish(statement, start)
        if isinstance(found, (QueryStatement, CreateView, CreateMaterializedView, CreateTable)):
            query = found.query
            if query is not None and untyped_are_texts(query.query):
                found = found.with_(query=QueryText(query.query, _written(query.query), query.span))
        if isinstance(found, Insert):
            # Rows of a table have no order, and those of VALUES are written as they come (SQLAlchemy sorts them so).
            _without_order(found.query.query)
        return found.with_(text=f"{HEADER}{found.text}")

    def query_text(self) -> QueryText:
        """A query whose text is Flink SQL, in which anybody can read it."""
        found = super().query_text()
        query = always_a_row(found.query)
        return QueryText(query, _written(query), found.span)

    def expression_text(self) -> ExpressionText:
        found = super().expression_text()
        return ExpressionText(found.expression, _written(found.expression), found.span)

    # Views

    def _create_view(self, *, temporary: bool, replace: bool) -> CreateView:
        made = super()._create_view(temporary=temporary, replace=replace)
        return made.with_(query=self._following_time(made.query))

    def create_materialized(self, *, replace: bool) -> Statement:
        made = super().create_materialized(replace=replace)
        if isinstance(made, CreateMaterializedView):
            return made.with_(query=self._following_time(made.query))
        return made

    def _following_time(self, query: QueryText) -> QueryText:
        """The query of a view: rows come in and leave when time passes, so now in a condition is the time that passes."""
        found = follows_time(query.query, self.text)
        return query if found is None else QueryText(found, _written(found), query.span)

    # Order

    def sort_item(self) -> exp.Ordered:
        """NULLs are the greatest values."""
        item = super().sort_item()
        if item.args.get("nulls_first") is None:
            item.set("nulls_first", bool(item.args.get("desc")))
        return item

    def _count(self) -> exp.Expr:
        """`LIMIT $1::integer`: a number of rows has no other type."""
        found = super()._count()
        while self.match("::"):
            self.type_spec()
        return found

    # Operators

    def _like(self, kind: type[exp.Expr], left: exp.Expr, start: Token) -> exp.Expr:
        """A backslash escapes where nothing else is said."""
        tree = super()._like(kind, left, start)
        if isinstance(tree, exp.Escape) or kind is exp.SimilarTo:
            return tree
        pattern = tree.expression
        if isinstance(pattern, exp.Literal) and pattern.is_string:
            text = str(pattern.this)
            if "\\" not in text:
                return tree
            # Only wildcards and the backslash itself need the escape.
            kept = _ESCAPED.sub(lambda m: m.group() if m[1] in "%_\\" else m[1], text)
            pattern.set("this", kept)
            if "\\" not in kept:
                return tree
        escape = exp.Literal(this="\\", is_string=True)
        return exp.Escape(this=tree, expression=escape)

    def _postfix(self, *, zone: bool = False) -> exp.Expr:
        """`zone`: what stands behind AT TIME ZONE, where another one belongs to all before it."""
        start = self.token
        tree = self._primary()
        while True:
            if self.match("["):
                tree = self.place(self._subscript(tree), start)
            elif self.match("::"):
                tree = self.place(self._cast(tree, start), start)
            elif self._at_field():
                self.advance()
                tree = self.place(exp.Dot(this=tree, expression=self.identifier("a field", reserved=True)), start)
            elif not zone and self.match("AT", "TIME", "ZONE"):
                tree = named(
                    self.place(operator_call("PG_AT_TIME_ZONE", tree, self._postfix(zone=True)), start), "timezone"
                )
            else:
                return tree

    def _subscript(self, tree: exp.Expr) -> exp.Expr:
        """`a[n]`, and `a[n:m]`, from the bracket on."""
        name = output_name(tree) or tree.name
        low = None if self.at(":") else self.expression()
        if not self.match(":"):
            self.expect("]")
            return exp.Bracket(this=tree, expressions=[low])
        high = None if self.at("]") else self.expression()
        self.expect("]")
        one = exp.Literal(this="1", is_string=False)
        last = FunctionCall(this="CARDINALITY", expressions=[tree.copy()])
        return named(operator_call("PG_SLICE", tree, low or one, high or last), name)

    # Types and casts

    def _base_type(self) -> DataType:
        start = self.token
        if start.kind is WORD:
            if start.upper in REFUSED:
                raise UnsupportedError(
                    f"the type {start.text} is not supported",
                    span=start.span,
                    text=self.text,
                    hint=REFUSED[start.upper],
                )
            if start.upper in PLAIN:
                self.advance()
                return PLAIN[start.upper]
            if start.upper in ("NUMERIC", "DECIMAL", "DEC") and self.peek().upper != "(":
                self.advance()
                return NUMERIC
            if start.upper == "FLOAT":
                self.advance()
                return DataType(TypeRoot.FLOAT if 0 < self._size("precision", 1, 53, 53) < 25 else TypeRoot.DOUBLE)
            if start.upper == "INTERVAL" and self.peek().upper not in (
                "YEAR",
                "MONTH",
                "DAY",
                "HOUR",
                "MINUTE",
                "SECOND",
            ):
                self.advance()
                return DataType(TypeRoot.INTERVAL_SECOND, 3)
            if start.upper == "TIMESTAMP":
                return self._point_in_time()
            if start.upper == "TIME":
                self.advance()
                precision = self._size("precision", 0, 9, 6)
                self.match("WITHOUT", "TIME", "ZONE")
                return DataType(TypeRoot.TIME, precision)
        return super()._base_type()

    def _point_in_time(self) -> DataType:
        """`timestamp [(p)] [with time zone | without time zone]`."""
        self.expect("TIMESTAMP")
        precision = self._size("precision", 0, 9, 6)
        if self.match("WITH", "TIME", "ZONE") or self.match("WITH", "LOCAL", "TIME", "ZONE"):
            return DataType(TypeRoot.TIMESTAMP_LTZ, precision)
        self.match("WITHOUT", "TIME", "ZONE")
        return DataType(TypeRoot.TIMESTAMP, precision)

    def _keyword_form(self, start: Token) -> exp.Expr | None:
        if start.upper == "CAST" and self.peek().upper == "(":
            self.advance()
            self.expect("(")
            value = self.expression()
            self.expect("AS")
            tree = self._cast(value, start)
            self.expect(")")
            return self.place(tree, start)
        if start.upper == "ARRAY" and self.peek().upper == "(":
            self.advance()
            return named(self.place(array_of_query(self.subquery()), start), "array")
        return super()._keyword_form(start)

    def _cast(self, value: exp.Expr, start: Token) -> exp.Expr:
        """The value as the type that stands here."""
        return self.cast_to(value, self.type_spec(), start)

    def cast_to(self, value: exp.Expr, spec: TypeSpec, start: Token) -> exp.Expr:
        target = spec.data_type
        name, weak = cast_name(value, spec)
        literal = isinstance(value, exp.Literal) and value.is_string
        if literal and target.is_interval:
            return named(self._interval_of(str(value.this), start), name, weak=weak)
        if literal and target.is_binary and _BYTES.fullmatch(str(value.this)):
            return named(exp.HexString(this=str(value.this)[2:].upper()), name, weak=weak)
        if target is NUMERIC:
            return named(self.place(operator_call("PG_NUMERIC", value), start), name, weak=weak)
        if target.root is TypeRoot.VARIANT:
            return named(self.place(operator_call("PG_JSONB", value), start), name, weak=weak)
        if target.root is TypeRoot.TIMESTAMP_LTZ:
            value = self.place(operator_call("PG_INSTANT", value), start)
        elif literal and target.root in (TypeRoot.TIMESTAMP, TypeRoot.TIME):
            value = self.place(operator_call("PG_TIME_TEXT", value), start)
        elif target.is_numeric and not literal:
            value = self.place(operator_call("PG_FITTING", value, exp.Cast(this=exp.Null(), to=spec.copy())), start)
        elif target.is_character and not target.is_uuid and not literal:
            value = self.place(operator_call("PG_TEXT", value), start)
        return named(exp.Cast(this=value, to=spec), name, weak=weak)

    def _interval_of(self, text: str, start: Token) -> IntervalLiteral:
        amount = amount_of(text)
        if amount is None:
            self.refuse(
                f"'{text}' is no interval here",
                start.span,
                "an interval has months or days, not both: '3 days 02:30', '1 year 6 mons'",
            )
        return IntervalLiteral(this=amount[0], unit=amount[1], negative=False)

    def literal(self) -> exp.Expr | None:
        token = self.token
        if token.kind is WORD and token.upper in ("TIME", "TIMESTAMP") and _MINUTES.fullmatch(self.peek().value):
            given = self.peek()
            if given.kind is STRING:
                self.tokens[self.index + 1] = Token(
                    STRING, given.text, f"{given.value.strip()}:00", "", given.start, given.end
                )
        if token.kind is WORD and token.upper in _OF_TYPE and self._text_of_type(token):
            plain = token.upper == "TIMESTAMP" and self.peek().kind is STRING and ":" in self.peek().value
            if not plain:
                spec_at = self.index
                while self.token.kind is not STRING:
                    self.advance()
                text = self.advance()
                end = self.index
                value = self.place(exp.Literal(this=text.value, is_string=True), text)
                self.back_to(spec_at)
                tree = self._cast(value, token)
                self.back_to(end)
                return self.place(tree, token)
        found = super().literal()
        if token.kind is NUMBER and found is not None and len(token.text) >= len(_BIGINT):
            return self._of_many_digits(found, token)
        return found

    def _of_many_digits(self, number: exp.Expr, token: Token) -> exp.Expr:
        """A number with more digits than bigint has is numeric."""
        whole, _, fraction = token.text.lower().partition(".")
        if "e" in fraction or "e" in whole or int(whole + fraction) <= int(_BIGINT):
            return number
        size = max(len((whole + fraction).lstrip("0")), len(fraction) + 1)
        text = self.place(exp.Literal(this=token.text, is_string=True), token)
        spec = TypeSpec(this=DataType(TypeRoot.DECIMAL, size, len(fraction)))
        return named(self.place(exp.Cast(this=text, to=spec), token), NO_NAME, weak=True) if size <= 38 else number

    def _text_of_type(self, token: Token) -> bool:
        """Whether a text in quotes follows the type that stands here."""
        index = self.index
        if self.peek().kind is STRING:
            return True
        if self.peek().upper not in ("(", "WITH", "WITHOUT"):
            return False
        try:
            self.type_spec()
            found = self.token.kind is STRING
        except SqlEngineError:
            found = False
        self.back_to(index)
        return found

    def parameter(self) -> exp.Expr | None:  # type: ignore[override]
        """`$1` or `:name`, of the type that PREPARE says; a question mark is an operator."""
        start, counts = self.token, self.previous.upper in ("LIMIT", "OFFSET", "FIRST", "NEXT")
        mark = None if self.at("?") else super().parameter()
        place = mark.args["this"] if mark is not None and self.parameter_types else None
        if not isinstance(place, int) or counts or not self.parameter_types or place > len(self.parameter_types):
            return mark
        type_ = self.parameter_types[place - 1]
        return self.place(exp.Cast(this=mark, to=TypeSpec(this=type_)), start)

    # Calls

    def call(self, name: exp.Identifier, qualifier: list[exp.Identifier], start: Token) -> exp.Expr:
        tree = super().call(name, qualifier, start)
        above: exp.Expr | None = None
        inner = tree
        while not isinstance(inner, FunctionCall) and isinstance(inner.this, exp.Expr):
            above, inner = inner, inner.this
        if not isinstance(inner, FunctionCall):
            return tree
        shown = output_name(inner) or NO_NAME
        over = isinstance(tree, exp.Window)
        if over and inner.name.upper() in ("FIRST_VALUE", "LAST_VALUE") and isinstance(above, exp.Window):
            above.set("this", self.place(exp.RespectNulls(this=inner), start))
            return tree
        if inner.name.upper() in _OF_ROWS and len(inner.expressions) == 1:
            inner.set("expressions", [_row_or_column(inner.expressions[0])])
        made = self._json_aggregate(tree, inner, start)
        if made is not None:
            return named(made, shown)
        meant = self.place(rows_of_array(inner) or meaning(inner), start)
        if above is None:
            return named(meant, shown)
        if meant is not inner:
            above.set("this", meant)
        return named(tree, shown)

    def _json_aggregate(self, tree: exp.Expr, inner: FunctionCall, start: Token) -> exp.Expr | None:
        """JSONB_AGG and JSONB_OBJECT_AGG: a value of jsonb made of an aggregate, with its FILTER and OVER."""
        name, given = inner.name.upper(), inner.expressions
        if name in ("JSONB_AGG", "JSON_AGG") and len(given) == 1:
            distinct = isinstance(given[0], exp.Distinct)
            value = given[0].expressions[0] if distinct else given[0]
            of = FunctionCall(this="PG_JSONB_OF", expressions=[value.copy()])
            inner.set("this", "ARRAY_AGG")
            inner.set("expressions", [exp.Distinct(expressions=[of]) if distinct else of])
            spec = TypeSpec(this=VARIANT)
            return self.place(exp.Cast(this=tree, to=spec), start)
        if name in ("JSONB_OBJECT_AGG", "JSON_OBJECT_AGG") and len(given) == 2:
            pair = [FunctionCall(this="PG_TEXT", expressions=[given[0].copy()]), given[1].copy()]
            made = self.place(JsonFunction(this="JSON_OBJECTAGG", expressions=pair), start)
            if tree is not inner:
                inner.replace(made)
            whole = made if tree is inner else tree
            repeats = exp.Boolean(this=True)
            return self.place(FunctionCall(this="PARSE_JSON", expressions=[whole, repeats]), start)
        return None

    # Queries

    def _select_item(self) -> exp.Expr:
        start = self.token
        item = super()._select_item()
        name = output_name(item)
        if name is None:
            return item
        alias = exp.Identifier(this=name, quoted=True)
        return self.place(exp.Alias(this=item, alias=alias), start)

    def _clauses(self, tree: exp.Select) -> None:
        super()._clauses(tree)
        group = tree.args.get("group")
        if group is not None:
            group.set("expressions", [self._grouped(item, tree.expressions) for item in group.expressions])

    def _grouped(self, item: exp.Expr, shown: list[exp.Expr]) -> exp.Expr:
        """A number in GROUP BY is the place of an output column; a name that is no column of FROM is an alias."""
        if isinstance(item, exp.Literal) and not item.is_string and str(item.this).isdecimal():
            place = int(str(item.this))
            if not 1 <= place <= len(shown):
                self.refuse(f"GROUP BY position {place} is not in the select list")
            chosen = shown[place - 1]
            return (chosen.this if isinstance(chosen, exp.Alias) else chosen).copy()
        if isinstance(item, exp.Column) and len(item.parts) == 1:
            meant = [e.this for e in shown if isinstance(e, exp.Alias) and e.alias == item.name]
            if meant and not isinstance(meant[0], exp.Column):
                column_or = FunctionCall(this="PG_COLUMN_OR", expressions=[item.copy(), meant[0].copy()])
                column_or.meta.update(item.meta)
                return column_or
        return item

    def _pattern(self) -> PatternText:
        """The variables of PATTERN are names: folded, or in back-ticks for the reader of patterns."""
        first = self.index
        tree = super()._pattern()
        text, at = "", self.tokens[first].start
        for token in self.tokens[first : self.index - 1]:
            name = token.text if token.upper == "PERMUTE" else token.value
            shown = name if token.kind is WORD else f"`{token.value}`" if token.kind is QUOTED else token.text
            text, at = text + self.text[at : token.start] + shown, token.end
        tree.set("this", text)
        return tree


def _row_or_column(value: exp.Expr) -> exp.Expr:
    """A name that may be that of a relation; whether that may lack a row is known at the end of the SELECT."""
    if not isinstance(value, exp.Column) or len(value.parts) != 1 or isinstance(value.this, exp.Star):
        return value
    made = FunctionCall(this="PG_ROW_OR", expressions=[value.copy(), exp.Boolean(this=False)])
    made.meta.update(value.meta)
    return made


def _written(tree: exp.Expr) -> str:
    return str(tree.sql(dialect="flink"))


def _without_order(query: exp.Expr) -> None:
    """ORDER BY without LIMIT says nothing of which rows there are."""
    while isinstance(query, exp.Subquery):
        query = query.this
    if not query.args.get("limit") and not query.args.get("offset"):
        query.set("order", None)
