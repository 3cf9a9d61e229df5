"""The statements of the language, as the parser hands them to those who carry them out.

One frozen class for each statement. `span` is the place of the whole statement in the script (without the semicolon),
`text` the statement as written. Names, options, queries and expressions carry spans of their own, so that an error
about a part of a statement points at that part; spans take no part in equality. All count from the start of the script.

This module names all of them; those about tables and views, and the parts they share, come from `ddl_nodes`.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from runtime.core.errors import Span
from runtime.core.node import Node, node
from sqlengine.parse.ddl_nodes import (
    AddPartitions,
    AddParts,
    AlterAction,
    AlterCatalog,
    AlterDatabase,
    AlterTable,
    AlterView,
    ColumnDefinition,
    ColumnPlace,
    ComputedColumn,
    CreateTable,
    Distribution,
    DropColumns,
    DropPart,
    DropPartitions,
    ExpressionText,
    LikeClause,
    LikeOption,
    MetadataColumn,
    ModifyParts,
    Name,
    NewQuery,
    ObjectName,
    Option,
    PartitionSpec,
    PhysicalColumn,
    PrimaryKey,
    QueryText,
    RenameColumn,
    RenameTo,
    ResetOptions,
    SetComment,
    SetOptions,
    Statement,
    Watermark,
    options_dict,
)
from sqlengine.parse.session_nodes import (
    AddJar,
    AlterConnection,
    AlterModel,
    AlterRole,
    AnalyzeTable,
    Backup,
    Call,
    CommentOn,
    CompilePlan,
    CreateConnection,
    CreateModel,
    CreateProcedure,
    CreateRole,
    CreateSavepoint,
    CreateSecret,
    CreateToken,
    Deallocate,
    DropConnection,
    DropModel,
    DropProcedure,
    DropRole,
    DropSecret,
    DropToken,
    ExecutePlan,
    ExecutePrepared,
    Grant,
    GrantRole,
    LoadModule,
    Prepare,
    RemoveJar,
    Reset,
    Restore,
    Set,
    StopJob,
    UnloadModule,
    UseCatalog,
    UseDatabase,
    UseModules,
)

if TYPE_CHECKING:
    from sqlengine.parse.refresh_nodes import TableRefresh

__all__ = [
    "AddJar",
    "AddPartitions",
    "AddParts",
    "AlterAction",
    "AlterCatalog",
    "AlterConnection",
    "AlterDatabase",
    "AlterFunction",
    "AlterModel",
    "AlterRole",
    "AlterTable",
    "AlterView",
    "AnalyzeTable",
    "BeginEpoch",
    "Call",
    "CommentOn",
    "ColumnDefinition",
    "ColumnPlace",
    "CompilePlan",
    "Backup",
    "CreateSavepoint",
    "Restore",
    "ComputedColumn",
    "CreateCatalog",
    "CreateConnection",
    "CreateDatabase",
    "CreateFunction",
    "CreateMaterializedView",
    "CreateModel",
    "CreateProcedure",
    "CreateRole",
    "CreateSecret",
    "CreateTable",
    "CreateToken",
    "CreateView",
    "Delete",
    "Describe",
    "Distribution",
    "DropCatalog",
    "DropColumns",
    "DropConnection",
    "DropDatabase",
    "DropFunction",
    "DropMaterializedView",
    "DropModel",
    "DropPart",
    "DropPartitions",
    "DropProcedure",
    "DropRole",
    "DropSecret",
    "DropTable",
    "DropToken",
    "DropView",
    "EndEpoch",
    "RollbackEpoch",
    "ExecutePlan",
    "ExecutePrepared",
    "Deallocate",
    "Prepare",
    "Explain",
    "ExpressionText",
    "Flush",
    "Grant",
    "GrantRole",
    "Insert",
    "LikeClause",
    "LikeOption",
    "LikePattern",
    "LoadModule",
    "MetadataColumn",
    "ModifyParts",
    "Name",
    "NewQuery",
    "ObjectName",
    "Option",
    "PartitionSpec",
    "PhysicalColumn",
    "PrimaryKey",
    "QueryStatement",
    "QueryText",
    "RemoveJar",
    "RenameColumn",
    "RenameTo",
    "Reset",
    "ResetOptions",
    "Set",
    "SetComment",
    "SetOptions",
    "Show",
    "Statement",
    "StatementSet",
    "StopJob",
    "Subscribe",
    "Truncate",
    "UnloadModule",
    "Update",
    "UseCatalog",
    "UseDatabase",
    "UseModules",
    "ViewColumn",
    "Watermark",
    "options_dict",
]


@node
class QueryStatement(Statement):
    """A query on its own; `EXECUTE SELECT ..` is the same."""

    query: QueryText


@node
class Insert(Statement):
    """`[EXECUTE] INSERT {INTO|OVERWRITE} table [PARTITION (..)] [(columns)] query [ON CONFLICT [(columns)] DO action]`.

    `on_conflict` is "NOTHING", "ERROR", "DEDUPLICATE", "UPDATE" or None, `conflict_target` the columns after CONFLICT;
    `assignments` and `where` belong to DO UPDATE. `hints`: the options of an OPTIONS hint after the name.
    `returning`: SELECT without FROM, of what RETURNING says, as in UPDATE and DELETE. `replaces`: it overwrites all rows,
    of all partitions (REPLACE TABLE AS over the same files). `assigns`: texts among VALUES become what their columns are.
    `alias`: what DO UPDATE calls the table. `defaults`: DEFAULT VALUES, one row of default values. `overriding`: OVERRIDING SYSTEM VALUE.
    """

    table: ObjectName
    query: QueryText
    columns: tuple[Name, ...] = ()
    partition: PartitionSpec | None = None
    overwrite: bool = False
    on_conflict: str | None = None
    hints: tuple[Option, ...] = ()
    returning: QueryText | None = None
    conflict_target: tuple[Name, ...] = ()
    conflict_constraint: Name | None = None
    assignments: tuple[tuple[Name, ExpressionText], ...] = ()
    where: ExpressionText | None = None
    replaces: bool = False
    assigns: bool = False
    alias: Name | None = None
    defaults: bool = False
    overriding: bool = False


@node
class StatementSet(Statement):
    """`EXECUTE STATEMENT SET BEGIN insert; .. END` and `BEGIN STATEMENT SET; insert; .. END`."""

    statements: tuple[Statement, ...]


@node
class Update(Statement):
    """`UPDATE table SET column = expression, .. [FROM relation, ..] [WHERE condition] [RETURNING ..]`. `relations`: SELECT
    with nothing but FROM."""

    table: ObjectName
    assignments: tuple[tuple[Name, ExpressionText], ...]
    where: ExpressionText | None = None
    alias: Name | None = None
    returning: QueryText | None = None
    relations: QueryText | None = None


@node
class Delete(Statement):
    """`DELETE FROM table [USING relation, ..] [WHERE condition] [RETURNING ..]`."""

    table: ObjectName
    where: ExpressionText | None = None
    alias: Name | None = None
    returning: QueryText | None = None
    relations: QueryText | None = None


@node
class Truncate(Statement):
    """`TRUNCATE TABLE table`."""

    table: ObjectName


@node
class BeginEpoch(Statement):
    """`BEGIN EPOCH`: the changes up to END EPOCH are one step."""


@node
class EndEpoch(Statement):
    """`END EPOCH`."""


@node
class RollbackEpoch(Statement):
    """`ROLLBACK EPOCH`: the changes since BEGIN EPOCH are forgotten."""


@node
class Flush(Statement):
    """`FLUSH`: wait until every view has taken the input that is there now."""


@node
class Subscribe(Statement):
    """`SUBSCRIBE TO view`: follow the changes of a view or table."""

    name: ObjectName


# Definitions other than tables


@node
class ViewColumn(Node):
    """A column name of a view, with its comment."""

    name: Name
    comment: str | None = None


@node
class CreateView(Statement):
    """`CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] name [(columns)] [COMMENT 'c'] AS query`."""

    name: ObjectName
    query: QueryText
    columns: tuple[ViewColumn, ...] = ()
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False
    or_replace: bool = False


@node
class CreateMaterializedView(Statement):
    """`CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [COMMENT ..] [WITH (..)] AS query`; with
    `alters` `ALTER MATERIALIZED VIEW name AS query`, which replaces one that is there; with `table` a materialized
    table."""

    name: ObjectName
    query: QueryText
    columns: tuple[ViewColumn, ...] = ()
    comment: str | None = None
    options: tuple[Option, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    alters: bool = False
    table: TableRefresh | None = None


@node
class CreateDatabase(Statement):
    """`CREATE DATABASE [IF NOT EXISTS] [catalog.]name [COMMENT 'c'] [WITH (..)]`."""

    name: ObjectName
    comment: str | None = None
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False


@node
class CreateCatalog(Statement):
    """`CREATE CATALOG [IF NOT EXISTS] name [COMMENT 'c'] [WITH (..)]`."""

    name: Name
    comment: str | None = None
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False


@node
class CreateFunction(Statement):
    """`CREATE [TEMPORARY [SYSTEM]] FUNCTION [IF NOT EXISTS] name AS 'id' [LANGUAGE l] [USING JAR 'path', ..]`."""

    name: ObjectName
    identifier: str
    language: str | None = None
    resources: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False
    identifier_span: Span = field(default_factory=lambda: Span(0, 0), compare=False)


@node
class AlterFunction(Statement):
    """`ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name AS 'identifier' [LANGUAGE l]`."""

    name: ObjectName
    identifier: str
    language: str | None = None
    temporary: bool = False
    system: bool = False
    if_exists: bool = False


@node
class DropTable(Statement):
    """`DROP [TEMPORARY] TABLE [IF EXISTS] name`."""

    name: ObjectName
    temporary: bool = False
    if_exists: bool = False


@node
class DropView(Statement):
    """`DROP [TEMPORARY] VIEW [IF EXISTS] name`."""

    name: ObjectName
    temporary: bool = False
    if_exists: bool = False


@node
class DropMaterializedView(Statement):
    """`DROP MATERIALIZED VIEW [IF EXISTS] name`, or (`table`) `DROP MATERIALIZED TABLE`."""

    name: ObjectName
    if_exists: bool = False
    table: bool = False


@node
class DropDatabase(Statement):
    """`DROP DATABASE [IF EXISTS] name [RESTRICT|CASCADE]`."""

    name: ObjectName
    if_exists: bool = False
    cascade: bool = False


@node
class DropCatalog(Statement):
    """`DROP CATALOG [IF EXISTS] name`."""

    name: Name
    if_exists: bool = False


@node
class DropFunction(Statement):
    """`DROP [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name`."""

    name: ObjectName
    temporary: bool = False
    system: bool = False
    if_exists: bool = False


# Looking around


@node
class LikePattern(Node):
    """`[NOT] {LIKE|ILIKE} 'pattern'` of SHOW: `%`, `_` and backslash as in MySQL."""

    pattern: str
    negated: bool = False
    ignore_case: bool = False


@node
class Show(Statement):
    """Every SHOW. `kind` is the words after SHOW, in upper case, without those of the other fields:

    CATALOGS, CURRENT CATALOG, CREATE CATALOG, DATABASES, CURRENT DATABASE, TABLES, CREATE TABLE, COLUMNS, PARTITIONS,
    PROCEDURES, VIEWS, CREATE VIEW, MATERIALIZED VIEWS, CREATE MATERIALIZED VIEW, the same of TABLE, FUNCTIONS, MODULES, JARS, JOBS,
    MODELS, CREATE MODEL, CONNECTIONS, CREATE CONNECTION, ROLES, USERS (the roles that may log in), TOKENS, GRANTS, SECRETS.

    `name` is what stands after FROM or IN, or the object itself (CREATE .., COLUMNS, PARTITIONS); `user` is the word of
    SHOW USER FUNCTIONS, `full` that of SHOW FULL MODULES.
    """

    kind: str
    name: ObjectName | None = None
    like: LikePattern | None = None
    partition: PartitionSpec | None = None
    user: bool = False
    full: bool = False


@node
class Describe(Statement):
    """`{DESCRIBE|DESC} [kind] [EXTENDED] name`; `kind`: TABLE (also views), CATALOG, DATABASE, FUNCTION, PROCEDURE,
    MODEL, CONNECTION, JOB."""

    kind: str
    name: ObjectName
    extended: bool = False


@node
class Explain(Statement):
    """`EXPLAIN [detail, ..|PLAN FOR] statement`.

    `details` are upper case and among ESTIMATED_COST, CHANGELOG_MODE, PLAN_ADVICE, JSON_EXECUTION_PLAN, STATE, RESTORE,
    ANALYZE; both `EXPLAIN STATE, CHANGELOG_MODE SELECT ..` and `EXPLAIN (STATE) SELECT ..` are accepted.
    """

    statement: Statement
    details: tuple[str, ...] = ()
