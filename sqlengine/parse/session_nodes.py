"""Statements about the session, jobs, plans, roles, models, connections and sequences.

See `statement_nodes` for what holds for all of them."""

from __future__ import annotations

from runtime.core.node import Node, node
from runtime.core.types import DataType
from sqlengine.parse.ddl_nodes import (
    AlterAction,
    ExpressionText,
    Name,
    ObjectName,
    Option,
    PartitionSpec,
    PhysicalColumn,
    RenameTo,
    Statement,
)

__all__ = [
    "AlterSequence",
    "CreateSequence",
    "DropSequence",
    "SequenceOption",
    "AlterConnection",
    "AlterModel",
    "CreateConnection",
    "CreateModel",
    "DropConnection",
    "DropModel",
    "UseCatalog",
    "UseDatabase",
    "UseModules",
    "LoadModule",
    "UnloadModule",
    "Set",
    "Reset",
    "StopJob",
    "CompilePlan",
    "Backup",
    "CreateSavepoint",
    "Restore",
    "ExecutePlan",
    "AnalyzeTable",
    "Deallocate",
    "ExecutePrepared",
    "Prepare",
    "Call",
    "CreateProcedure",
    "DropProcedure",
    "AddJar",
    "RemoveJar",
    "AlterRole",
    "CreateRole",
    "CreateSecret",
    "CreateToken",
    "DropRole",
    "DropSecret",
    "DropToken",
    "Grant",
    "GrantRole",
    "RoleOptions",
]


# Session


@node
class UseCatalog(Statement):
    """`USE CATALOG name`."""

    name: Name


@node
class UseDatabase(Statement):
    """`USE [catalog.]database`."""

    name: ObjectName


@node
class UseModules(Statement):
    """`USE MODULES a, b`."""

    names: tuple[Name, ...]


@node
class LoadModule(Statement):
    """`LOAD MODULE name [WITH (..)]`."""

    name: Name
    options: tuple[Option, ...] = ()


@node
class UnloadModule(Statement):
    """`UNLOAD MODULE name`."""

    name: Name


@node
class Set(Statement):
    """`SET 'key' = 'value'`, or `SET` alone (`option` None), which lists all."""

    option: Option | None = None


@node
class Reset(Statement):
    """`RESET 'key'`, or `RESET` alone (`key` None)."""

    key: Name | None = None


@node
class Prepare(Statement):
    """`PREPARE name AS statement`."""

    name: Name
    statement: Statement


@node
class ExecutePrepared(Statement):
    """`EXECUTE name [(value, ..)]`."""

    name: Name
    values: tuple[ExpressionText, ...] = ()


@node
class Deallocate(Statement):
    """`DEALLOCATE [PREPARE] {name | ALL}`; `name` None means all."""

    name: Name | None = None


# Jobs, plans, and the rest


@node
class StopJob(Statement):
    """`STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]`."""

    job: Name
    savepoint: bool = False
    drain: bool = False


@node
class CreateSavepoint(Statement):
    """`CREATE SAVEPOINT ['path'] FOR JOB 'id'`: write a savepoint of a running job, which goes on."""

    job: Name
    path: Name | None = None


@node
class Backup(Statement):
    """`BACKUP TO 'path'`: write all of a database in a folder to another folder."""

    path: Name


@node
class Restore(Statement):
    """`RESTORE FROM 'path'`: read all of a backup into a database that has nothing yet."""

    path: Name


@node
class CompilePlan(Statement):
    """`COMPILE [AND EXECUTE] PLAN ['path' [IF NOT EXISTS]] FOR statement`; without a path the plan is the result."""

    statement: Statement
    path: str | None = None
    if_not_exists: bool = False
    execute: bool = False


@node
class ExecutePlan(Statement):
    """`EXECUTE PLAN [IF EXISTS] 'path'`; `plan` is the text of the plan itself, where a program has it."""

    path: str
    if_exists: bool = False
    plan: str | None = None


@node
class AnalyzeTable(Statement):
    """`ANALYZE TABLE name [PARTITION (..)] COMPUTE STATISTICS [FOR {COLUMNS a, b|ALL COLUMNS}]`."""

    name: ObjectName
    partition: PartitionSpec | None = None
    columns: tuple[Name, ...] = ()
    all_columns: bool = False


@node
class Call(Statement):
    """`CALL procedure(arguments)`; named arguments are NamedArg."""

    procedure: ObjectName
    arguments: tuple[ExpressionText, ...] = ()


@node
class CreateProcedure(Statement):
    """`CREATE [TEMPORARY] PROCEDURE [IF NOT EXISTS] name AS 'package.module.name' LANGUAGE PYTHON`."""

    name: ObjectName
    identifier: Name
    language: str | None = None
    temporary: bool = False
    if_not_exists: bool = False


@node
class DropProcedure(Statement):
    """`DROP [TEMPORARY] PROCEDURE [IF EXISTS] name`."""

    name: ObjectName
    temporary: bool = False
    if_exists: bool = False


@node
class AddJar(Statement):
    """`ADD JAR 'path'`."""

    path: str


@node
class RemoveJar(Statement):
    """`REMOVE JAR 'path'`."""

    path: str


# Who may do what


@node
class RoleOptions(Node):
    """What CREATE ROLE and ALTER ROLE say of a role; None where they say nothing.

    `password`: the text behind PASSWORD, a password or a verifier in PostgreSQL's form; `no_password`: PASSWORD NULL.
    `valid_until`: up to when the password counts, as written. Of the limits -1 is any amount; `statement_limit` is a time,
    `memory_limit` and `state_limit` are sizes, as written.
    """

    login: bool | None = None
    superuser: bool | None = None
    create_role: bool | None = None
    password: Name | None = None
    no_password: bool = False
    connections: int | None = None
    row_limit: int | None = None
    statement_limit: Name | None = None
    memory_limit: Name | None = None
    state_limit: Name | None = None
    valid_until: Name | None = None


@node
class CreateRole(Statement):
    """`CREATE {ROLE|USER} [IF NOT EXISTS] name [WITH] options`; a USER may log in."""

    name: Name
    options: RoleOptions
    if_not_exists: bool = False


@node
class AlterRole(Statement):
    """`ALTER {ROLE|USER} name [WITH] options`, or `RENAME TO rename`."""

    name: Name
    options: RoleOptions
    rename: Name | None = None


@node
class DropRole(Statement):
    """`DROP {ROLE|USER} [IF EXISTS] name, ..`."""

    names: tuple[Name, ...]
    if_exists: bool = False


@node
class CreateToken(Statement):
    """`CREATE TOKEN name [FOR role] [VALID UNTIL 'timestamp'] [HASH 'hexadecimal']`; HASH is that of a token that was made
    before."""

    name: Name
    role: Name | None = None
    valid_until: Name | None = None
    hash: Name | None = None


@node
class DropToken(Statement):
    """`DROP TOKEN [IF EXISTS] name`."""

    name: Name
    if_exists: bool = False


@node
class Grant(Statement):
    """`GRANT privilege, .. ON [kind] object, .. TO role, ..`, or (`revokes`) `REVOKE .. FROM ..`.

    `privileges`: in upper case; none for ALL. `kind`: see `roles.privileges`; `tables in database` stands for the tables
    that are there. A path, and the system, which has no name, are one object.
    """

    privileges: tuple[Name, ...]
    kind: str
    objects: tuple[ObjectName, ...]
    roles: tuple[Name, ...]
    revokes: bool = False


@node
class GrantRole(Statement):
    """`GRANT role, .. TO role, ..`, or (`revokes`) `REVOKE .. FROM ..`."""

    groups: tuple[Name, ...]
    members: tuple[Name, ...]
    revokes: bool = False


@node
class CommentOn(Statement):
    """`COMMENT ON {TABLE|VIEW|MATERIALIZED VIEW} name IS 'text'`, `COMMENT ON COLUMN name.column IS 'text'`; NULL takes it
    away."""

    name: ObjectName
    column: Name | None = None
    comment: str | None = None


@node
class CreateSecret(Statement):
    """`CREATE SECRET [IF NOT EXISTS] name AS 'value'`, or (`alters`) `ALTER SECRET name AS 'value'`."""

    name: Name
    value: Name
    if_not_exists: bool = False
    alters: bool = False


@node
class DropSecret(Statement):
    """`DROP SECRET [IF EXISTS] name`."""

    name: Name
    if_exists: bool = False


# Models and connections


@node
class CreateModel(Statement):
    """`CREATE [TEMPORARY] MODEL [IF NOT EXISTS] name INPUT (..) OUTPUT (..) [COMMENT 'c'] WITH (..)`."""

    name: ObjectName
    inputs: tuple[PhysicalColumn, ...] = ()
    outputs: tuple[PhysicalColumn, ...] = ()
    comment: str | None = None
    options: tuple[Option, ...] = ()
    temporary: bool = False
    if_not_exists: bool = False


@node
class AlterModel(Statement):
    """`ALTER MODEL [IF EXISTS] name {SET (..)|RESET (..)|RENAME TO name}`."""

    name: ObjectName
    action: AlterAction
    if_exists: bool = False


@node
class DropModel(Statement):
    """`DROP [TEMPORARY] MODEL [IF EXISTS] name`."""

    name: ObjectName
    temporary: bool = False
    if_exists: bool = False


@node
class CreateConnection(Statement):
    """`CREATE [TEMPORARY] CONNECTION [IF NOT EXISTS] name [COMMENT 'c'] WITH (..)`."""

    name: ObjectName
    comment: str | None = None
    options: tuple[Option, ...] = ()
    temporary: bool = False
    if_not_exists: bool = False


@node
class AlterConnection(Statement):
    """`ALTER CONNECTION [IF EXISTS] name {SET (..)|RESET (..)|RENAME TO name}`."""

    name: ObjectName
    action: AlterAction
    if_exists: bool = False


@node
class DropConnection(Statement):
    """`DROP [TEMPORARY] CONNECTION [IF EXISTS] name`."""

    name: ObjectName
    temporary: bool = False
    if_exists: bool = False


# Sequences


@node
class SequenceOption(Node):
    """One clause. `word` is AS, START, INCREMENT, MINVALUE, MAXVALUE, CACHE, CYCLE, OWNED BY or RESTART; `value` what it
    says: a type, a number, whether (CYCLE), a column; None for NO MINVALUE, NO MAXVALUE, OWNED BY NONE and a plain RESTART."""

    word: str
    value: DataType | int | bool | ObjectName | None


@node
class CreateSequence(Statement):
    """`CREATE SEQUENCE [IF NOT EXISTS] name [options]`."""

    name: ObjectName
    options: tuple[SequenceOption, ...] = ()
    if_not_exists: bool = False


@node
class AlterSequence(Statement):
    """`ALTER SEQUENCE [IF EXISTS] name {options|RENAME TO name}`."""

    name: ObjectName
    action: tuple[SequenceOption, ...] | RenameTo
    if_exists: bool = False


@node
class DropSequence(Statement):
    """`DROP SEQUENCE [IF EXISTS] name [, ..] [CASCADE|RESTRICT]`."""

    names: tuple[ObjectName, ...]
    if_exists: bool = False
    cascade: bool = False
