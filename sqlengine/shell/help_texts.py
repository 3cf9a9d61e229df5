"""How statements are written, in a few lines each: what HELP shows. And the functions of windows, which no registry has."""

from __future__ import annotations

from runtime.core.errors import UnsupportedError, did_you_mean

__all__ = ["STATEMENTS", "TABLE_FUNCTIONS", "help_on"]

TABLE_FUNCTIONS = {
    "TUMBLE": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE): windows one after another",
    "HOP": "HOP(TABLE t, DESCRIPTOR(ts), slide, size): windows that overlap",
    "CUMULATE": "CUMULATE(TABLE t, DESCRIPTOR(ts), step, most): windows that grow",
    "SESSION": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), gap): windows that end when nothing comes",
}
"""Functions that stand in FROM TABLE(..): how each is called, and what it gives."""

STATEMENTS: dict[str, str] = {
    "SELECT": """\
[WITH name AS (query), ...]
SELECT [DISTINCT] item, ... FROM table [JOIN table ON condition] [WHERE condition]
[GROUP BY expression, ...] [HAVING condition] [QUALIFY condition]
[UNION [ALL] | INTERSECT | EXCEPT query] [ORDER BY expression [DESC], ...] [LIMIT n]
  windows:  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end""",
    "INSERT": """\
INSERT {INTO | OVERWRITE} table [(column, ...)] {query | VALUES (value, ...), ...}
  a job: done at once over tables in memory, else in the background (SHOW JOBS, STOP JOB)""",
    "UPDATE": "UPDATE table SET column = expression, ... [WHERE condition]      tables in memory",
    "DELETE": "DELETE FROM table [WHERE condition]      tables in memory",
    "TRUNCATE": "TRUNCATE TABLE table      tables in memory",
    "CREATE TABLE": """\
CREATE [TEMPORARY] TABLE [IF NOT EXISTS] name (
  column TYPE [NOT NULL] [COMMENT 'text'],
  column AS expression,
  column TYPE METADATA [FROM 'key'] [VIRTUAL],
  WATERMARK FOR column AS column - INTERVAL '5' SECOND,
  PRIMARY KEY (column, ...) NOT ENFORCED
) [COMMENT 'text'] [PARTITIONED BY (column, ...)] [WITH ('connector' = '...', ...)] [LIKE table | AS query]
  without a connector its rows are kept in memory""",
    "CREATE VIEW": "CREATE [TEMPORARY] VIEW [IF NOT EXISTS] name [(column [COMMENT 'text'], ...)] [COMMENT 'text'] AS query",
    "CREATE MATERIALIZED VIEW": """\
CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(column, ...)] [COMMENT 'text'] [WITH ('key' = 'value', ...)] AS query
  its answer is kept up to date; SUBSCRIBE TO name shows how it changes""",
    "CREATE MATERIALIZED TABLE": """\
CREATE [OR ALTER] MATERIALIZED TABLE [IF NOT EXISTS] name [(column, ...)] [COMMENT 'text'] [PARTITIONED BY (column, ...)]
  [FRESHNESS = INTERVAL 'n' {SECOND | MINUTE | HOUR | DAY}] [REFRESH_MODE = {CONTINUOUS | FULL}]
  [START_MODE = {FROM_BEGINNING | FROM_NOW [(INTERVAL 'n' unit)] | FROM_TIMESTAMP(TIMESTAMP '..')}] AS query
  its answer is as fresh as it says""",
    "CREATE CATALOG": """\
CREATE CATALOG [IF NOT EXISTS] name [COMMENT 'text'] WITH ('type' = '...', ...)
  'generic_in_memory'     forgotten at the end
  'file', 'path' = '...'  definitions are kept in a file of SQL""",
    "CREATE DATABASE": "CREATE DATABASE [IF NOT EXISTS] [catalog.]name [COMMENT 'text'] [WITH ('key' = 'value', ...)]",
    "CREATE PROCEDURE": "CREATE [TEMPORARY] PROCEDURE [IF NOT EXISTS] name AS 'package.module.name' LANGUAGE PYTHON",
    "ALTER TABLE": """\
ALTER TABLE name RENAME TO other | RENAME column TO other | SET ('key' = 'value', ...) | RESET ('key', ...)
ALTER TABLE name ADD (column TYPE [FIRST | AFTER column], ...) | MODIFY (column TYPE ...) | DROP (column, ...)""",
    "ALTER VIEW": "ALTER VIEW name RENAME TO other | AS query",
    "ALTER MATERIALIZED VIEW": """\
ALTER MATERIALIZED VIEW name AS query                                   views that read it go on with the new answer
ALTER MATERIALIZED VIEW name SET ('history.retention' = '1 d') | RESET ('history.retention')""",
    "ALTER MATERIALIZED TABLE": "ALTER MATERIALIZED TABLE name {SUSPEND | RESUME | REFRESH | AS query}",
    "DROP": "DROP [TEMPORARY] {TABLE | VIEW | MATERIALIZED {VIEW | TABLE} | DATABASE | CATALOG} [IF EXISTS] name",
    "USE": "USE [catalog.]database      USE CATALOG catalog",
    "SHOW": """\
SHOW {TABLES | VIEWS | MATERIALIZED {VIEWS | TABLES} | FUNCTIONS | PROCEDURES | DATABASES | CATALOGS | JOBS | MODULES} [LIKE 'pattern']
SHOW COLUMNS FROM table      SHOW CURRENT {CATALOG | DATABASE}
SHOW CREATE {TABLE | VIEW | MATERIALIZED {VIEW | TABLE} | DATABASE | CATALOG | FUNCTION} name""",
    "DESCRIBE": "DESCRIBE [EXTENDED] table      DESCRIBE {FUNCTION | PROCEDURE | CATALOG | DATABASE} name      DESCRIBE JOB 'id'",
    "EXPLAIN": "EXPLAIN [CHANGELOG_MODE, STATE, ESTIMATED_COST, JSON_EXECUTION_PLAN] {query | INSERT ...}",
    "EXECUTE STATEMENT SET": "EXECUTE STATEMENT SET BEGIN INSERT ...; INSERT ...; END;      one job, several tables",
    "PREPARE": "PREPARE name AS {query | INSERT ... | UPDATE ... | DELETE ...}      its parameters are ?, $1 or :name",
    "EXECUTE": "EXECUTE name [(value, ...)]      carries out a prepared statement with these values",
    "DEALLOCATE": "DEALLOCATE {name | ALL}",
    "SET": "SET      SET 'key' = 'value'      docs/options.md lists the keys; Tab after SET ' completes them",
    "RESET": "RESET ['key']",
    "SUBSCRIBE": "SUBSCRIBE TO view      its rows, then its changes as they come, until Ctrl-C",
    "FLUSH": "FLUSH      waits until materialized views have taken the input that is there",
    "BEGIN EPOCH": "BEGIN EPOCH; changes ...; END EPOCH;      all changes become visible together; ROLLBACK EPOCH forgets them",
    "ANALYZE": "ANALYZE TABLE table COMPUTE STATISTICS [FOR {COLUMNS column, ... | ALL COLUMNS}]",
    "CALL": "CALL [database.]procedure(value, name => value, ...)      SHOW PROCEDURES IN sys lists those of the engine",
    "STOP JOB": "STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]",
    "BACKUP": "BACKUP TO 'path'      all of a database in a folder, to another folder",
    "RESTORE": "RESTORE FROM 'path'      all of a backup, into a database that has nothing yet",
    "CREATE SAVEPOINT": "CREATE SAVEPOINT ['path'] FOR JOB 'id'",
}


def help_on(name: str) -> str:
    """How a statement is written. Raises UnsupportedError E1650 for a word that begins none."""
    wanted = " ".join(name.upper().rstrip(";").split())
    found = [key for key in STATEMENTS if key == wanted] or [key for key in STATEMENTS if key.startswith(wanted)]
    if not found:
        raise UnsupportedError(
            f"there is no help on {name}",
            code="E1650",
            hint=did_you_mean(wanted, STATEMENTS) or "HELP lists statements",
        )
    return "\n\n".join(STATEMENTS[key] for key in found)
