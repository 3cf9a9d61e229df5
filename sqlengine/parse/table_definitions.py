"""CREATE TABLE and ALTER TABLE: columns, watermarks, keys, distribution, options, LIKE, AS query.

Also holds the parts that other statements share: names, options, embedded queries and expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runtime.core import types
from runtime.core.errors import Span
from runtime.core.rooms import Room
from sqlengine.parse.ddl_nodes import (
    AddPartitions,
    AddParts,
    AlterTable,
    ColumnDefinition,
    ColumnPlace,
    ComputedColumn,
    Constraint,
    CreateTable,
    DropColumns,
    DropPart,
    DropPartitions,
    ExpressionText,
    MetadataColumn,
    ModifyParts,
    Name,
    ObjectName,
    Option,
    PartitionSpec,
    PhysicalColumn,
    PrimaryKey,
    QueryText,
    RenameColumn,
    RenameTo,
    ResetOptions,
    SetOptions,
    Watermark,
)
from sqlengine.parse.lexer import QUOTED, WORD, Token
from sqlengine.parse.queries import QueryGrammar
from sqlengine.parse.spans import span_of
from sqlengine.parse.statement_nodes import Insert

if TYPE_CHECKING:
    import sqlengine.parse.column_rules as _rules
    import sqlengine.parse.joined_changes as _joined
    import sqlengine.parse.table_clauses as _clauses
else:
    _joined = Room("sqlengine.parse.joined_changes")
    _rules = Room("sqlengine.parse.column_rules")
    _clauses = Room("sqlengine.parse.table_clauses")

__all__ = ["TableGrammar"]

_SERIALS = {
    **dict.fromkeys(("SERIAL", "SERIAL4"), types.INT),
    **dict.fromkeys(("BIGSERIAL", "SERIAL8"), types.BIGINT),
    **dict.fromkeys(("SMALLSERIAL", "SERIAL2"), types.SMALLINT),
}


class Elements:
    """What stands between the parentheses of CREATE TABLE, while it is read."""

    def __init__(self) -> None:
        self.columns: list[ColumnDefinition] = []
        self.order: list[Name] = []
        self.watermarks: list[Watermark] = []
        self.primary_key: PrimaryKey | None = None
        self.constraints: list[Constraint] = []
        self.key_end: int | None = None
        """Where NOT ENFORCED is missing, of a key that is to be one of a table without connector."""


class TableGrammar(QueryGrammar):
    """Reads definitions of tables."""

    # Parts

    def name(self, what: str = "a name") -> Name:
        token = self.token
        return Name(self.identifier(what).name, token.span)

    def object_name(self, what: str) -> ObjectName:
        """A name of one to three parts."""
        start = self.token
        parts = [self.identifier(what)]
        while self.match("."):
            parts.append(self.identifier(what, reserved=True))
        if len(parts) > 3:
            self.refuse("a name has at most three parts", start, "catalog.database.name")
        spans = tuple(span_of(part) or Span(0, 0) for part in parts)
        return ObjectName(tuple(part.name for part in parts), self.span_from(start), spans)

    def names(self, what: str) -> tuple[Name, ...]:
        """`(name, ..)`."""
        self.expect("(")
        found = [self.name(what)]
        while self.match(","):
            found.append(self.name(what))
        self.expect(")")
        return tuple(found)

    def option(self) -> Option:
        """`'key' = 'value'`."""
        key = self.string("a key in single quotes")
        self.expect("=")
        value = self.string("a value in single quotes")
        return Option(key.value, value.value, self.span_from(key), key.span, value.span)

    def options(self) -> tuple[Option, ...]:
        """`('key' = 'value', ..)`, which may be empty."""
        self.expect("(")
        found: list[Option] = []
        while not self.match(")"):
            if found:
                self.expect(",")
            found.append(self.option())
        return tuple(found)

    def with_options(self) -> tuple[Option, ...]:
        return self.options() if self.match("WITH") else ()

    def comment(self) -> str | None:
        return self.string().value if self.match("COMMENT") else None

    def query_text(self) -> QueryText:
        start = self.token
        tree = self.query()
        span = self.span_from(start)
        return QueryText(tree, self.slice(span), span)

    def returning(self) -> QueryText | None:
        """RETURNING and a list of values, if it stands here: as SELECT without FROM."""
        start = self.token
        if not self.match("RETURNING"):
            return None
        tree = self.place(exp.Select(expressions=self.select_items()), start)
        span = self.span_from(start)
        return QueryText(tree, self.slice(span), span)

    def expression_text(self) -> ExpressionText:
        start = self.token
        tree = self.expression()
        span = self.span_from(start)
        return ExpressionText(tree, self.slice(span), span)

    def argument_text(self) -> ExpressionText:
        """An argument of a procedure, which may be `name => value`."""
        start = self.token
        tree = self.argument()
        span = self.span_from(start)
        return ExpressionText(tree, self.slice(span), span)

    def partition_spec(self) -> PartitionSpec:
        """`PARTITION (k [= value], ..)`."""
        start = self.expect("PARTITION")
        self.expect("(")
        values: list[tuple[Name, ExpressionText | None]] = []
        while not values or self.match(","):
            name = self.name("a partition column")
            values.append((name, self.expression_text() if self.match("=") else None))
        self.expect(")")
        return PartitionSpec(tuple(values), self.span_from(start))

    # CREATE TABLE

    def create_table(self, *, temporary: bool, create: bool, replace: bool) -> CreateTable:
        """From after the word TABLE on."""
        if_not_exists = self.match("IF", "NOT", "EXISTS")
        name = self.object_name("the name of the table")
        elements = self._elements() if self.at("(") else Elements()
        fields: dict[str, Any] = {"comment": self.comment()}
        if self.at("DISTRIBUTED"):
            fields["distribution"] = _clauses.read_distribution(self, "DISTRIBUTED")
        if self.match("PARTITIONED"):
            self.expect("BY")
            fields["partitioned_by"] = self.names("a partition column")
        fields["options"] = self.with_options()
        if self.at("LIKE"):
            fields["like"] = _clauses.read_like(self)
        if elements.key_end is not None and (fields["options"] or "like" in fields):
            self.back_to(elements.key_end)
            self._not_enforced(None)
        if self.match("AS"):
            fields["query"] = self.query_text()
        elif elements.order:
            self.refuse("a column needs a type", elements.order[0].span, f"for example {elements.order[0]} STRING")
        elif replace and not create:
            self.fail("AS", hint="REPLACE TABLE takes the rows of a query")
        return CreateTable(
            name,
            tuple(elements.columns),
            tuple(elements.watermarks),
            elements.primary_key,
            tuple(elements.constraints),
            column_order=tuple(elements.order),
            temporary=temporary,
            if_not_exists=if_not_exists,
            create=create,
            replace=replace,
            **fields,
        )

    def _elements(self) -> Elements:
        self.expect("(")
        found = Elements()
        while not self.at(")"):
            self._element(found)
            if not self.match(","):
                break
        if not self.at(")"):
            self.fail(",", ")")
        self.advance()
        if found.order and found.columns:
            self.refuse(
                "either all columns have a type or none", found.order[0].span, f"for example {found.order[0]} STRING"
            )
        return found

    def _element(self, found: Elements) -> None:
        start = self.token
        if self.at("WATERMARK", "FOR"):
            found.watermarks.append(self._watermark())
            if len(found.watermarks) > 1:
                self.refuse("a table has one watermark", start, "keep the one of its event time")
        elif self._at_constraint():
            found.constraints.append(self._table_constraint())
        elif self.at("PRIMARY", "KEY") or self.at("CONSTRAINT"):
            self._keep_key(found, self._table_key(found), start)
        elif self.token.kind in (WORD, QUOTED) and self.peek().upper in (",", ")"):
            found.order.append(self.name("a column name"))
        else:
            column, key = self._column(found, found.constraints)
            if any(other.name.text == column.name.text for other in found.columns):
                self.refuse(f'the column "{column.name}" is there twice', column.name.span, "give it another name")
            found.columns.append(column)
            if key is not None:
                self._keep_key(found, key, start)

    def _keep_key(self, found: Elements, key: PrimaryKey, start: Token) -> None:
        if found.primary_key is not None:
            self.refuse(
                "a table has one primary key", key.span, "name all of its columns: PRIMARY KEY (a, b) NOT ENFORCED"
            )
        found.primary_key = key

    def _column(
        self, among: Elements | None = None, constraints: list[Constraint] | None = None
    ) -> tuple[ColumnDefinition, PrimaryKey | None]:
        """A column and, for `c INT PRIMARY KEY NOT ENFORCED`, the key it declares. `among`: those of CREATE TABLE;
        `constraints`: where those that it declares go."""
        start = self.token
        token = self.token
        name = Name(self.identifier("a column name", reserved=self.peek().kind is WORD).name, token.span)
        if self.match("AS"):
            expression = self.expression_text()
            comment = self.comment()
            return ComputedColumn(name, expression, comment=comment, span=self.span_from(start)), None
        type_start = self.token
        serial = self.at_serial()
        data_type = _SERIALS[self.advance().upper] if serial else self.data_type()
        type_span = self.span_from(type_start)
        if not serial and self.match("METADATA"):
            key = self.string().value if self.match("FROM") else None
            virtual = self.match("VIRTUAL")
            column = MetadataColumn(
                name, data_type, key, virtual, type_span, comment=self.comment(), span=self.span_from(start)
            )
            return column.with_(span=self.span_from(start)), None
        column = PhysicalColumn(name, data_type, type_span)
        primary: PrimaryKey | None = None
        while not self.at_any(",", ")"):
            at = self.token
            if self.at_any("CONSTRAINT", "PRIMARY", "CHECK", "UNIQUE"):
                constraint = self.name("the name of the constraint") if self.match("CONSTRAINT") else None
                if constraints is not None and self.at_any("CHECK", "UNIQUE"):
                    constraints.append(_clauses.read_constraint(self, constraint, name))
                    continue
                self.expect("PRIMARY", "KEY")
                self._not_enforced(among)
                primary = PrimaryKey((name,), constraint, self.span_from(at))
            elif self.at_any("DEFAULT", "GENERATED", "NOT", "NULL"):
                column = _rules.read_rule(self, column)
            else:
                break
        if serial:
            column = _rules.numbered(self, column)
        return column.with_(comment=self.comment(), span=self.span_from(start)), primary

    def at_serial(self) -> bool:
        """Whether `serial` or its like stands here: a type of integers whose values are numbers in a row."""
        return self.token.kind is WORD and self.token.upper in _SERIALS and self.peek().upper != "("

    def default_text(self) -> ExpressionText:
        """The expression of DEFAULT: what follows of a comparison or condition is a rule of the column."""
        start = self.token
        tree = self.additive()
        span = self.span_from(start)
        return ExpressionText(tree, self.slice(span), span)

    def _table_key(self, among: Elements | None = None) -> PrimaryKey:
        start = self.token
        constraint = self.name("the name of the constraint") if self.match("CONSTRAINT") else None
        self.expect("PRIMARY", "KEY")
        columns = self.names("a column name")
        self._not_enforced(among)
        return PrimaryKey(columns, constraint, self.span_from(start))

    def _at_constraint(self) -> bool:
        """Whether a CHECK or UNIQUE of the table stands here."""
        ahead = self.peek(2) if self.at("CONSTRAINT") else self.token
        behind = self.peek(3) if self.at("CONSTRAINT") else self.peek()
        return ahead.upper in ("CHECK", "UNIQUE") and behind.upper in ("(", "NULLS")

    def _table_constraint(self) -> Constraint:
        name = self.name("the name of the constraint") if self.match("CONSTRAINT") else None
        return _clauses.read_constraint(self, name)

    def condition_text(self) -> ExpressionText:
        """The condition of CHECK."""
        return self.expression_text()

    def _not_enforced(self, among: Elements | None) -> None:
        if self.match("NOT", "ENFORCED"):
            return
        if among is not None and self.at_any(",", ")"):
            among.key_end = self.index
        else:
            self.fail("NOT ENFORCED", hint="the rows belong to the system outside, so the key cannot be enforced")

    def _watermark(self) -> Watermark:
        start = self.expect("WATERMARK")
        self.expect("FOR")
        column = self.object_name("the column of the watermark")
        self.expect("AS")
        expression = self.expression_text()
        return Watermark(column, expression, self.span_from(start))

    # ALTER TABLE

    def alter_table(self) -> AlterTable:
        """From after the word TABLE on."""
        if_exists = self.match("IF", "EXISTS")
        name = self.object_name("the name of the table")
        word = self.expect_any("ADD", "MODIFY", "DROP", "RENAME", "SET", "RESET", "ALTER")
        match word:
            case "ADD":
                action = self._add_partitions() if self.at_any("PARTITION", "IF") else self._parts(AddParts)
            case "MODIFY":
                action = self._parts(ModifyParts)
            case "DROP":
                action = self._drop()
            case "RENAME" if self.match("TO"):
                action = RenameTo(self.object_name("the new name"))
            case "ALTER":
                action = _rules.read_alter_column(self)
            case "RENAME":
                self.match("COLUMN")
                old = self.name("a column name")
                self.expect("TO")
                action = RenameColumn(old, self.name("the new name"))
            case "SET":
                action = SetOptions(self.options())
            case _:
                action = self.reset_options()
        return AlterTable(name, action, if_exists)

    def reset_options(self) -> ResetOptions:
        """`('key', ..)`."""
        start = self.expect("(")
        keys: list[Name] = []
        while not self.match(")"):
            if keys:
                self.expect(",")
            token = self.string("a key in single quotes")
            keys.append(Name(token.value, token.span))
        if not keys:
            self.refuse("RESET needs at least one key", start)
        return ResetOptions(tuple(keys))

    def _parts(self, kind: type[AddParts] | type[ModifyParts]) -> AddParts | ModifyParts:
        columns: list[ColumnPlace] = []
        constraints: list[Constraint] = []
        watermark = primary_key = distribution = None
        several = self.match("(")
        while True:
            if self.at("WATERMARK", "FOR"):
                watermark = self._watermark()
            elif kind is AddParts and self._at_constraint():
                constraints.append(self._table_constraint())
            elif self.at("PRIMARY", "KEY") or self.at("CONSTRAINT"):
                primary_key = self._table_key()
            elif self.at("DISTRIBUTION"):
                distribution = _clauses.read_distribution(self, "DISTRIBUTION")
            else:
                self.match("COLUMN")
                again = self.match("IF", "NOT", "EXISTS")
                place, key = self._placed_column(constraints if kind is AddParts else None)
                place = place.with_(if_not_exists=again)
                columns.append(place)
                primary_key = key or primary_key
            if not several and self.at(",") and self.peek().upper == "ADD" and kind is AddParts:
                self.advance()
                self.advance()
            elif not several or not self.match(","):
                break
        if several:
            self.expect(")")
        if kind is AddParts:
            return AddParts(tuple(columns), watermark, primary_key, distribution, tuple(constraints))
        return kind(tuple(columns), watermark, primary_key, distribution)

    def _placed_column(self, constraints: list[Constraint] | None) -> tuple[ColumnPlace, PrimaryKey | None]:
        column, key = self._column(None, constraints)
        if self.match("FIRST"):
            return ColumnPlace(column, first=True), key
        after = self.name("a column name") if self.match("AFTER") else None
        return ColumnPlace(column, after=after), key

    def _add_partitions(self) -> AddPartitions:
        if_not_exists = self.match("IF", "NOT", "EXISTS")
        found = [(self.partition_spec(), self.with_options())]
        while self.at("PARTITION"):
            found.append((self.partition_spec(), self.with_options()))
        return AddPartitions(tuple(found), if_not_exists)

    def _drop(self) -> DropColumns | DropPart | DropPartitions:
        if self.match("PRIMARY", "KEY"):
            return DropPart("PRIMARY KEY")
        if self.at("CONSTRAINT") and self.peek().kind in (WORD, QUOTED):
            self.advance()
            lenient = self.match("IF", "EXISTS")
            part = DropPart("CONSTRAINT", self.name(), lenient)
            self.match_any("RESTRICT", "CASCADE")
            return part
        for part in ("WATERMARK", "DISTRIBUTION"):
            if self.match(part):
                return DropPart(part)
        if self.at("PARTITION", "(") or self.at("IF", "EXISTS"):
            if_exists = self.match("IF", "EXISTS")
            specs = [self.partition_spec()]
            while self.match(","):
                specs.append(self.partition_spec())
            return DropPartitions(tuple(specs), if_exists)
        if self.match("COLUMN"):
            lenient = self.match("IF", "EXISTS")
            return DropColumns((self.name("a column name"),), lenient)
        return DropColumns(self.names("a column name") if self.at("(") else (self.name("a column name"),))

    def assignments(self) -> tuple[tuple[Name, ExpressionText], ...]:
        """`column = expression, ..` of UPDATE."""
        found: list[tuple[Name, ExpressionText]] = []
        while not found or self.match(","):
            if self.at("("):
                found += _joined.read_assigned_row(self)
                continue
            name = self.name("a column name")
            self.expect("=")
            found.append((name, _rules.read_default(self) if self.at("DEFAULT") else self.expression_text()))
        return tuple(found)

    def on_conflict(self, insert: Insert) -> Insert:
        """The INSERT with `ON CONFLICT [(columns) | ON CONSTRAINT name] DO action`, if it stands here."""
        if not self.match("ON", "CONFLICT"):
            return insert
        if self.match("ON", "CONSTRAINT"):
            insert = insert.with_(conflict_constraint=self.name("the name of a constraint"))
        target = self.names("a column of the primary key") if self.at("(") else ()
        self.expect("DO")
        action = self.expect_any("NOTHING", "ERROR", "UPDATE", *(() if target else ("DEDUPLICATE",)))
        if action != "UPDATE":
            return insert.with_(on_conflict=action, conflict_target=target)
        self.expect("SET")
        assignments = self.assignments()
        where = self.expression_text() if self.match("WHERE") else None
        return insert.with_(on_conflict=action, conflict_target=target, assignments=assignments, where=where)

    def option_hints(self) -> tuple[Option, ...]:
        """The options of `/*+ OPTIONS(..) */` after the target of an INSERT."""
        found: list[Option] = []
        for hint in self.hints():
            span = span_of(hint) or Span(0, 0)
            if hint.name != "OPTIONS":
                self.refuse(f"the hint {hint.name} does not belong here", span, "only OPTIONS follows a table")
            pairs: list[exp.Expr] = hint.args.get("options") or []
            found += [Option(p.args["this"], p.args["value"], span_of(p) or span) for p in pairs]
        return tuple(found)
