"""The parts that statements are made of, and the statements that define and change tables and views.

See `statement_nodes` for the rest and for what holds for all of them.
"""

from __future__ import annotations

from dataclasses import field

from sqlglot import exp

from runtime.core.errors import Span
from runtime.core.node import Node, node
from runtime.core.types import DataType

_NOWHERE = Span(0, 0)


# Parts that several statements share


@node
class Name(Node):
    """One identifier: `text` as written, without the back-ticks."""

    text: str
    span: Span = field(default=_NOWHERE, compare=False)

    def __str__(self) -> str:
        return self.text


@node
class ObjectName(Node):
    """The name of a catalog object, one to three parts, outermost first: `cat.db.t` is ("cat", "db", "t")."""

    parts: tuple[str, ...]
    span: Span = field(default=_NOWHERE, compare=False)
    part_spans: tuple[Span, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return ".".join(self.parts)


@node
class Option(Node):
    """`'key' = 'value'` of a WITH, SET or hint."""

    key: str
    value: str
    span: Span = field(default=_NOWHERE, compare=False)
    key_span: Span = field(default=_NOWHERE, compare=False)
    value_span: Span = field(default=_NOWHERE, compare=False)


def options_dict(options: tuple[Option, ...]) -> dict[str, str]:
    """The options as a mapping; of a repeated key the last value counts."""
    return {option.key: option.value for option in options}


@node
class ExpressionText(Node):
    """An expression inside a statement, with the text it was written in."""

    expression: exp.Expr
    text: str
    span: Span = field(default=_NOWHERE, compare=False)


@node
class QueryText(Node):
    """A query inside a statement (Select, Values, Union, Except, Intersect, Subquery) and the text it came from."""

    query: exp.Expr
    text: str
    span: Span = field(default=_NOWHERE, compare=False)


@node
class Statement(Node):
    """Base of every statement."""

    span: Span = field(default=_NOWHERE, compare=False, kw_only=True)
    text: str = field(default="", compare=False, kw_only=True)


# Tables


@node
class ColumnDefinition(Node):
    """Base of the three kinds of column."""

    name: Name
    comment: str | None = field(default=None, kw_only=True)
    span: Span = field(default=_NOWHERE, compare=False, kw_only=True)


@node
class Identity(Node):
    """`GENERATED {ALWAYS | BY DEFAULT} AS IDENTITY [(START WITH n INCREMENT BY m)]`: rows are numbered."""

    always: bool = False
    start: int = 1
    step: int = 1


@node
class PhysicalColumn(ColumnDefinition):
    """`c type [NOT NULL] [DEFAULT expression] [PRIMARY KEY NOT ENFORCED]`; NOT NULL is in the type, a key in the table's
    `primary_key`."""

    type: DataType
    type_span: Span = field(default=_NOWHERE, compare=False)
    default: ExpressionText | None = None
    identity: Identity | None = None


@node
class MetadataColumn(ColumnDefinition):
    """`c type METADATA [FROM 'key'] [VIRTUAL]`; `key` is None when it is the column's name."""

    type: DataType
    key: str | None = None
    virtual: bool = False
    type_span: Span = field(default=_NOWHERE, compare=False)


@node
class ComputedColumn(ColumnDefinition):
    """`c AS expression`."""

    expression: ExpressionText


@node
class Watermark(Node):
    """`WATERMARK FOR column AS expression`; `column` has several parts for a nested field."""

    column: ObjectName
    expression: ExpressionText
    span: Span = field(default=_NOWHERE, compare=False)


@node
class PrimaryKey(Node):
    """`[CONSTRAINT name] PRIMARY KEY (columns) NOT ENFORCED`."""

    columns: tuple[Name, ...]
    name: Name | None = None
    span: Span = field(default=_NOWHERE, compare=False)


@node
class Constraint(Node):
    """`[CONSTRAINT name] CHECK (condition)`, or `UNIQUE [NULLS NOT DISTINCT] (columns)` without a condition."""

    name: Name | None = None
    columns: tuple[Name, ...] = ()
    condition: ExpressionText | None = None
    nulls_distinct: bool = True
    span: Span = field(default=_NOWHERE, compare=False)


@node
class Distribution(Node):
    """`DISTRIBUTED [BY [HASH|RANGE] (columns)] [INTO n BUCKETS]`; `kind` is "HASH", "RANGE" or None."""

    columns: tuple[Name, ...] = ()
    kind: str | None = None
    buckets: int | None = None
    span: Span = field(default=_NOWHERE, compare=False)


@node
class LikeOption(Node):
    """One cell of the merge matrix: `strategy` INCLUDING, EXCLUDING or OVERWRITING; `feature` ALL, CONSTRAINTS, ..."""

    strategy: str
    feature: str
    span: Span = field(default=_NOWHERE, compare=False)


@node
class LikeClause(Node):
    """`LIKE source [(strategy feature ...)]`; defaults are not filled in here, `like_strategy` does."""

    source: ObjectName
    options: tuple[LikeOption, ...] = ()
    span: Span = field(default=_NOWHERE, compare=False)

    def strategy(self, feature: str) -> str:
        """The strategy for a feature (CONSTRAINTS, DISTRIBUTION, PARTITIONS, GENERATED, METADATA, OPTIONS, WATERMARKS).

        What is not named follows ALL, and without ALL the default: INCLUDING, for OPTIONS OVERWRITING.
        """
        chosen = {option.feature: option.strategy for option in self.options}
        default = "OVERWRITING" if feature == "OPTIONS" else "INCLUDING"
        return chosen.get(feature) or chosen.get("ALL") or default


@node
class CreateTable(Statement):
    """CREATE TABLE, also LIKE, AS query, REPLACE TABLE AS and CREATE OR REPLACE TABLE AS.

    `column_order` holds the bare names of `CREATE TABLE t (a, b) AS query`; `columns` is then empty. `replace` is the
    word REPLACE: the table must exist unless `create` is set too (CREATE OR REPLACE). `follows`: of a sink, to which the
    query has to go on writing.
    """

    name: ObjectName
    columns: tuple[ColumnDefinition, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    primary_key: PrimaryKey | None = None
    constraints: tuple[Constraint, ...] = ()
    comment: str | None = None
    distribution: Distribution | None = None
    partitioned_by: tuple[Name, ...] = ()
    options: tuple[Option, ...] = ()
    like: LikeClause | None = None
    query: QueryText | None = None
    column_order: tuple[Name, ...] = ()
    temporary: bool = False
    if_not_exists: bool = False
    create: bool = True
    replace: bool = False
    follows: bool = False


@node
class ColumnPlace(Node):
    """A column of ALTER TABLE ADD or MODIFY, with FIRST or AFTER other."""

    column: ColumnDefinition
    first: bool = False
    after: Name | None = None
    if_not_exists: bool = False


@node
class AddParts(Node):
    """ALTER TABLE ADD: columns, watermark, primary key, distribution or constraints."""

    columns: tuple[ColumnPlace, ...] = ()
    watermark: Watermark | None = None
    primary_key: PrimaryKey | None = None
    distribution: Distribution | None = None
    constraints: tuple[Constraint, ...] = ()


@node
class ModifyParts(Node):
    """ALTER TABLE MODIFY: the same parts, replacing those there."""

    columns: tuple[ColumnPlace, ...] = ()
    watermark: Watermark | None = None
    primary_key: PrimaryKey | None = None
    distribution: Distribution | None = None


@node
class DropColumns(Node):
    """ALTER TABLE DROP [COLUMN [IF EXISTS]] c or (c, ...)."""

    columns: tuple[Name, ...]
    if_exists: bool = False


@node
class DropPart(Node):
    """ALTER TABLE DROP PRIMARY KEY, CONSTRAINT [IF EXISTS] name, WATERMARK or DISTRIBUTION; `part` is the words."""

    part: str
    name: Name | None = None
    if_exists: bool = False


@node
class PartitionSpec(Node):
    """`PARTITION (k = value, ...)`; a value is a literal expression, or None where only the column is named."""

    values: tuple[tuple[Name, ExpressionText | None], ...]
    span: Span = field(default=_NOWHERE, compare=False)


@node
class AddPartitions(Node):
    """ALTER TABLE ADD [IF NOT EXISTS] PARTITION (..) [WITH (..)] ..."""

    partitions: tuple[tuple[PartitionSpec, tuple[Option, ...]], ...]
    if_not_exists: bool = False


@node
class DropPartitions(Node):
    """ALTER TABLE DROP [IF EXISTS] PARTITION (..), ..."""

    partitions: tuple[PartitionSpec, ...]
    if_exists: bool = False


@node
class AlterColumn(Node):
    """ALTER TABLE ALTER [COLUMN] c: {SET | DROP} DEFAULT, {SET | DROP} NOT NULL or TYPE type; `what` is "DEFAULT",
    "NULL" or "TYPE"."""

    column: Name
    what: str
    default: ExpressionText | None = None
    nullable: bool = True
    type: DataType | None = None


@node
class RenameColumn(Node):
    """ALTER TABLE RENAME old TO new."""

    old: Name
    new: Name


@node
class RenameTo(Node):
    """ALTER .. RENAME TO name."""

    name: ObjectName


@node
class SetOptions(Node):
    """ALTER .. SET ('k' = 'v', ...)."""

    options: tuple[Option, ...]


@node
class ResetOptions(Node):
    """ALTER .. RESET ('k', ...)."""

    keys: tuple[Name, ...]


@node
class SetComment(Node):
    """ALTER CATALOG .. COMMENT 'text'."""

    comment: str


@node
class NewQuery(Node):
    """ALTER VIEW .. AS query."""

    query: QueryText


AlterAction = (
    AddParts
    | ModifyParts
    | DropColumns
    | DropPart
    | AddPartitions
    | DropPartitions
    | RenameColumn
    | AlterColumn
    | RenameTo
    | SetOptions
    | ResetOptions
    | SetComment
    | NewQuery
)


@node
class AlterTable(Statement):
    """ALTER TABLE [IF EXISTS] name action."""

    name: ObjectName
    action: AlterAction
    if_exists: bool = False


@node
class AlterView(Statement):
    """ALTER VIEW name RenameTo | NewQuery."""

    name: ObjectName
    action: AlterAction


@node
class AlterDatabase(Statement):
    """ALTER DATABASE name SetOptions."""

    name: ObjectName
    action: AlterAction


@node
class AlterCatalog(Statement):
    """ALTER CATALOG name SetOptions | ResetOptions | SetComment."""

    name: Name
    action: AlterAction


@node
class Suspend(Node):
    """`SUSPEND`."""


@node
class Resume(Node):
    """`RESUME [WITH (..)]`."""

    options: tuple[Option, ...] = ()


@node
class Refresh(Node):
    """`REFRESH [PARTITION (..)]`."""

    partition: PartitionSpec | None = None


@node
class AlterMaterializedTable(Statement):
    """`ALTER MATERIALIZED TABLE name SUSPEND`, `RESUME`, `REFRESH`, `SET (..)` or `RESET (..)`."""

    name: ObjectName
    action: Suspend | Resume | Refresh | SetOptions | ResetOptions


@node
class AlterMaterializedView(Statement):
    """`ALTER MATERIALIZED VIEW name SET (..)` or `RESET (..)`."""

    name: ObjectName
    action: SetOptions | ResetOptions
