"""CREATE SOURCE, TABLE and SINK as RisingWave and Materialize write them.

CREATE SOURCE s (id int, ts timestamp, WATERMARK FOR ts AS ts - interval '5 second') INCLUDE timestamp AS at
  WITH (connector = 'kafka', ..) FORMAT PLAIN ENCODE JSON
    →  CREATE TABLE s (.., at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL) WITH ('connector' = 'kafka', ..)
CREATE SINK k FROM v WITH (connector = 'kafka', .., primary_key = 'id') FORMAT ..
    →  CREATE TABLE k (PRIMARY KEY (id) NOT ENFORCED) WITH (..) AS SELECT * FROM v
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from runtime.core.types import BYTES
from sqlengine.parse.ddl_nodes import (
    ColumnDefinition,
    ComputedColumn,
    Constraint,
    CreateTable,
    ExpressionText,
    LikeClause,
    LikeOption,
    MetadataColumn,
    Name,
    ObjectName,
    Option,
    PhysicalColumn,
    PrimaryKey,
    QueryText,
    Statement,
)
from sqlengine.parse.lexer import NUMBER, QUOTED, STRING, WORD, Token
from sqlengine.parse.nodes import DefaultArg, FunctionCall, ParameterMark, TypeSpec
from sqlengine.parse.postgres.connectors import ENCODES, FORMATS, INCLUDED, Encoding, Refusal, mapped
from sqlengine.parse.statement_nodes import Insert
from sqlengine.parse.statements import StatementGrammar
from sqlengine.parse.table_definitions import Elements

__all__ = ["DefinitionGrammar"]

_CONSTRAINTS = {
    "REFERENCES": "references to other tables",
    "FOREIGN": "references to other tables",
    "EXCLUDE": "rows that exclude each other (EXCLUDE)",
}
"""Constraints that are refused."""
_COPIED = {
    "ALL": ("ALL",), "CONSTRAINTS": ("CONSTRAINTS",), "INDEXES": ("CONSTRAINTS",), "GENERATED": ("GENERATED",),
    "DEFAULTS": ("GENERATED",), "IDENTITY": ("GENERATED",), "COMMENTS": (), "STORAGE": (), "STATISTICS": (), "COMPRESSION": (),
}  # fmt: skip
"""What `LIKE t INCLUDING ..` names, as features of LIKE."""


class DefinitionGrammar(StatementGrammar):
    """Reads definitions of tables, sources and sinks."""

    def __init__(self, text: str, tokens: list[Token] | None = None, index: int = 0) -> None:
        super().__init__(text, tokens, index)
        self._included: list[ColumnDefinition] = []
        self._defines = False
        """Whether the options that are read are those of a table."""
        self._given: dict[str, Option] = {}
        self._alias: Name | None = None
        self._copied: LikeClause | None = None
        self.parameter_types = []

    def _create(self) -> Statement:
        index = self.index
        self.match("CREATE")
        if self.match("SOURCE"):
            made = self.create_table(temporary=False, create=True, replace=False)
            if "connector" not in self._given:
                self.refuse(
                    "a source has a connector",
                    made.name.span,
                    "WITH (connector = 'kafka', ..); CREATE TABLE keeps rows here",
                )
            return made
        if self.match("SINK"):
            return self._create_sink()
        self.back_to(index)
        return super()._create()

    def _statement(self) -> Statement:
        """DROP SOURCE and DROP SINK drop the table that it is."""
        word = self.peek()
        if self.at("TRUNCATE") and word.upper != "TABLE" and word.kind in (WORD, QUOTED):
            self.tokens.insert(self.index + 1, Token(WORD, "TABLE", "table", "TABLE", word.start, word.start))
            return super()._statement()
        if self.at("DROP") and word.upper in ("SOURCE", "SINK"):
            self.tokens[self.index + 1] = Token(WORD, "TABLE", "table", "TABLE", word.start, word.end)
        return super()._statement()

    def _insert(self) -> Insert:
        """Texts among the values become what their columns are. `INSERT INTO t AS x` is the alias of ON CONFLICT."""
        self._alias = None
        return super()._insert().with_(assigns=True, alias=self._alias)

    def option_hints(self) -> tuple[Option, ...]:
        """What follows the target of an INSERT."""
        if self.match("AS"):
            self._alias = self.name("an alias")
        return super().option_hints()

    def assignments(self) -> tuple[tuple[Name, ExpressionText], ...]:
        """Texts and parameters become what their columns are."""
        return tuple((name, _assigned(value)) for name, value in super().assignments())

    def create_table(self, *, temporary: bool, create: bool, replace: bool) -> CreateTable:
        self._included, self._defines, self._given, self._copied = [], True, {}, None
        made = super().create_table(temporary=temporary, create=create, replace=replace)
        self._defines = False
        if self._copied is not None:
            made = made.with_(like=self._copied)
        timed = {mark.column.parts[0] for mark in made.watermarks}
        columns = tuple(_in_milliseconds(c) if c.name.text in timed else c for c in (*made.columns, *self._included))
        return made.with_(columns=columns)

    def _element(self, found: Elements) -> None:
        """Also `LIKE table [INCLUDING what ..]`: its columns without anything else that is not asked for."""
        if self.at("FOREIGN", "KEY") or self.at("EXCLUDE", "USING") or self.at("EXCLUDE", "("):
            self._refuse_constraint()
        if not self.at("LIKE"):
            super()._element(found)
            return
        start = self.expect("LIKE")
        if self._copied is not None or found.columns:
            self.refuse("LIKE stands before all other columns, and once", start, "CREATE TABLE t (LIKE s, c int)")
        source = self.object_name("the name of a table")
        wanted = {LikeOption("EXCLUDING", "ALL", start.span)}
        while (strategy := self.match_any("INCLUDING", "EXCLUDING")) is not None:
            at = self.token
            for feature in _COPIED[self.expect_any(*_COPIED)]:
                wanted = {option for option in wanted if option.feature != feature}
                if strategy == "INCLUDING" or feature == "ALL":
                    wanted.add(LikeOption(strategy, feature, at.span))
        options = tuple(sorted(wanted, key=lambda option: option.feature))
        self._copied = LikeClause(source, options, self.span_from(start))

    def _table_key(self, among: Elements | None = None) -> PrimaryKey:
        if self.at("CONSTRAINT") and self.peek(2).upper in _CONSTRAINTS:
            self.advance()
            self.advance()
            self._refuse_constraint()
        return super()._table_key(among)

    def _refuse_constraint(self) -> NoReturn:
        """What is promised of rows would have to hold."""
        word = self.token.upper
        self.refuse(
            f"{_CONSTRAINTS[word]} are not kept: only NOT NULL, PRIMARY KEY, CHECK and UNIQUE are",
            self.token,
            "leave it out; a view over a LEFT JOIN with WHERE .. IS NULL tells the rows without a partner"
            if word != "EXCLUDE"
            else "leave it out",
        )

    def _create_sink(self) -> Statement:
        if_not_exists = self.match("IF", "NOT", "EXISTS")
        name = self.object_name("the name of the sink")
        start = self.token
        if self.match("FROM"):
            table = self.object_name("the name of a table or view")
            span = self.span_from(start)
            tree = self.place(_all_of(table), start)
            query = QueryText(tree, str(tree.sql(dialect="flink")), span)
        elif self.match("AS"):
            query = self.query_text()
        else:
            self.fail("FROM", "AS")
        self._defines, self._given = True, {}
        options = self.with_options()
        self._defines = False
        if "connector" not in self._given:
            self.refuse(
                "a sink has a connector",
                name.span,
                "WITH (connector = 'kafka', ..); CREATE MATERIALIZED VIEW keeps rows here",
            )
        return CreateTable(
            name, options=options, query=query, primary_key=self._sink_key(), if_not_exists=if_not_exists, follows=True
        )

    def _sink_key(self) -> PrimaryKey | None:
        given = self._given.get("primary_key")
        if given is None:
            return None
        names = tuple(Name(part.strip(), given.value_span) for part in given.value.split(",") if part.strip())
        return PrimaryKey(names, None, given.span)

    # Parts

    def with_options(self) -> tuple[Option, ...]:
        if not self._defines:
            return super().with_options()
        options = list[Option]()
        while self.at("INCLUDE") or self.at("APPEND", "ONLY"):
            start = self.token
            if self.match("APPEND", "ONLY"):
                options.append(Option("appendonly", "true", start.span, start.span, start.span))
            else:
                options += self._include()
        options += super().with_options()
        self._given = {option.key.lower(): option for option in options}
        encoding = self._encoding() if self.match("FORMAT") else None
        try:
            return mapped(options, encoding)
        except Refusal as refusal:
            where = refusal.option.span if refusal.option is not None else self.previous.span
            self.refuse(refusal.message, where, refusal.hint)

    def default_text(self) -> ExpressionText:
        found = super().default_text()
        return ExpressionText(found.expression, str(found.expression.sql(dialect="flink")), found.span)

    def condition_text(self) -> ExpressionText:
        found = super().condition_text()
        return ExpressionText(found.expression, str(found.expression.sql(dialect="flink")), found.span)

    def option(self) -> Option:
        """`'key' = 'value'`, `a.b = 'value'`, also with a number, TRUE or FALSE."""
        start = self.token
        if start.kind not in (WORD, QUOTED):
            return super().option()
        key = self.advance().text.strip('"')
        while self.match("."):
            key += f".{self.advance().text}"
        key_span = self.span_from(start)
        self.expect("=")
        value = self.token
        if value.kind not in (STRING, NUMBER) and value.upper not in ("TRUE", "FALSE"):
            self.fail("a value in single quotes")
        self.advance()
        text = value.value if value.kind is STRING else value.text
        return Option(key, text, self.span_from(start), key_span, value.span)

    def _include(self) -> list[Option]:
        """`INCLUDE what [type] [AS name]`: a column, and for the key of a message its options."""
        start = self.expect("INCLUDE")
        what = self.expect_any("KEY", *INCLUDED)
        name, key, type_ = ("_rw_key", "", BYTES) if what == "KEY" else INCLUDED[what]
        type_start = self.token
        if self.token.kind is WORD and not self.at_any("AS", "INCLUDE", "WITH", "FORMAT", "APPEND"):
            type_ = self.data_type()
        type_span = self.span_from(type_start)
        if self.match("AS"):
            name = self.name("the name of the column").text
        named, span = Name(name, start.span), self.span_from(start)
        if key:
            self._included.append(MetadataColumn(named, type_, key, True, type_span, span=span))
            return []
        self._included.append(PhysicalColumn(named, type_, type_span, span=span))
        options = {"key.format": "raw", "key.fields": name, "value.fields-include": "EXCEPT_KEY"}
        return [Option(k, v, span, span, span) for k, v in options.items()]

    def _encoding(self) -> Encoding:
        form = self.expect_any(*FORMATS)
        self.expect("ENCODE")
        encode = self.expect_any(*ENCODES)
        return Encoding(form, encode, self.options() if self.at("(") else ())

    def _not_enforced(self, among: Elements | None) -> None:
        """A key is one without saying so."""
        self.match("NOT", "ENFORCED")

    def _column(
        self, among: Elements | None = None, constraints: list[Constraint] | None = None
    ) -> tuple[ColumnDefinition, PrimaryKey | None]:
        """Also `c type AS expression`, which is computed."""
        index, start = self.index, self.token
        name = Name(self.identifier("a column name", reserved=self.peek().kind is WORD).name, start.span)
        if self.token.kind is WORD and not self.at("AS") and not self.at_serial():
            data_type = self.data_type()
            if self.match("AS"):
                text = self.expression_text()
                cast = exp.Cast(this=text.expression, to=TypeSpec(this=data_type))
                cast.meta.update(text.expression.meta)
                return ComputedColumn(
                    name, ExpressionText(cast, str(cast.sql(dialect="flink")), text.span), span=self.span_from(start)
                ), None
        self.back_to(index)
        found = super()._column(among, constraints)
        if self.token.upper in _CONSTRAINTS:
            self._refuse_constraint()
        return found


def _assigned(value: ExpressionText) -> ExpressionText:
    """A new value of a column: a text in quotes is read as its type, a number or text may become a narrower one."""
    tree = value.expression
    if isinstance(tree, DefaultArg | exp.Connector):
        return value
    untyped = (isinstance(tree, exp.Literal) and tree.is_string) or isinstance(tree, ParameterMark)
    made = FunctionCall(this="PG_UNTYPED" if untyped else "PG_ASSIGNED", expressions=[tree])
    made.meta.update(tree.meta)
    return ExpressionText(made, value.text, value.span)


def _in_milliseconds(column: ColumnDefinition) -> ColumnDefinition:
    """The column of a watermark: event time has three digits of a second."""
    if isinstance(column, PhysicalColumn | MetadataColumn) and column.type.is_timestamp:
        return column.with_(type=column.type.with_(precision=min(column.type.precision, 3)))
    return column


def _all_of(table: ObjectName) -> exp.Select:
    """`SELECT * FROM table`."""
    parts = [exp.Identifier(this=part, quoted=True) for part in reversed(table.parts)]
    named = exp.Table(**dict(zip(("this", "db", "catalog"), parts, strict=False)))
    named.meta["span"] = table.span
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=named))
