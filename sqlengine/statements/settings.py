"""SET and RESET."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from connectors.models.options import MODEL_OPTIONS
from planner.lower.calc import CDC_DUPLICATES, NULL_ROWTIME
from planner.lower.emit import EMIT_OPTIONS
from planner.lower.recursive import MOST_ROUNDS
from planner.lower.sink import NOT_NULL_ENFORCER, REQUIRE_ON_CONFLICT, UPSERT_MATERIALIZE
from planner.optimizer import DISABLED_RULES
from planner.rules.join.merge_joins import MULTI_JOIN
from planner.traits.context import DELTA_JOIN, STATE_TTL
from planner.traits.determinism import NON_DETERMINISTIC_UPDATE
from runtime.checkpoint.compatibility import RESTORE_OPTIONS
from runtime.core.errors import OptionError, did_you_mean, pointing_at
from runtime.core.memory import MEMORY_LIMIT
from runtime.core.options import Option
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.secrets import shown_value
from runtime.core.types import STRING
from runtime.local.checkpoints import CHECKPOINT_OPTIONS
from runtime.local.dataflow import PARALLELISM
from runtime.local.job_settings import BY_DUCKDB, EPOCH_MAX_ROWS, MAX_ROWS_PER_SECOND
from runtime.local.profile import PROFILE
from runtime.local.rejected import REJECTED_TABLE
from runtime.local.restart_strategy import RESTART_OPTIONS
from runtime.operators.operator import PIECE_MAX_ROWS
from runtime.plan.parts import ASYNC_LOOKUP_OPTIONS
from runtime.spark.options import CONTROL_PORT, MODE, RESIDENT, STATE_DIR
from runtime.state.backend import BACKEND_OPTIONS
from runtime.tasks.options import LOOK_UP_IN_TASKS, PROCESSES_DIR, READ_IN_TASKS, WRITE_IN_TASKS, WRITTEN_ROWS
from sqlengine.bind.hints import IGNORE_HINTS
from sqlengine.bind.session import MATCH_SEMANTICS
from sqlengine.database.recovery import RECOVERY_OPTIONS
from sqlengine.database.session import DYNAMIC_OPTIONS, RUNTIME_MODE, TIME_ZONE, Session
from sqlengine.options.client import CLIENT_OPTIONS
from sqlengine.options.database import AT_ONCE, DATABASE_OPTIONS, FOLLOW, MATERIALIZED_TABLE_OPTIONS, SCHEDULER_OPTIONS
from sqlengine.options.dialect import DIALECT
from sqlengine.options.flink import FLINK_OPTIONS, noted_option
from sqlengine.options.functions import FUNCTION_OPTIONS
from sqlengine.options.target import SPARK_MASTER, SPARK_PREFIX, TARGET
from sqlengine.options.time_zones import time_zone_name
from sqlengine.options.verify import EVERY, VERIFY
from sqlengine.parse import statement_nodes as st
from sqlengine.results.result import Result
from sqlengine.statements.queries import DML_SYNC, FORCE_RECOMPILE
from sqlengine.table_options.watermarks import IDLE_TIMEOUT

if TYPE_CHECKING:
    import sqlengine.statements.allowed as _allowed
else:
    _allowed = Room("sqlengine.statements.allowed")

__all__ = ["SESSION_OPTIONS", "TARGET_OPTIONS", "reset_option", "set_option", "set_value"]

TARGET_OPTIONS = (
    TARGET,
    SPARK_MASTER,
    MODE,
    STATE_DIR,
    RESIDENT,
    CONTROL_PORT,
    LOOK_UP_IN_TASKS,
    READ_IN_TASKS,
    WRITE_IN_TASKS,
    WRITTEN_ROWS,
    PROCESSES_DIR,
)

SESSION_OPTIONS: dict[str, Option[object]] = {
    option.key: option  # type: ignore[misc]
    for option in (
        *ASYNC_LOOKUP_OPTIONS,
        *CHECKPOINT_OPTIONS,
        *RECOVERY_OPTIONS,
        *RESTORE_OPTIONS,
        *RESTART_OPTIONS,
        *BACKEND_OPTIONS,
        *CLIENT_OPTIONS,
        *DATABASE_OPTIONS,
        *SCHEDULER_OPTIONS,
        *EMIT_OPTIONS,
        *MATERIALIZED_TABLE_OPTIONS,
        *FUNCTION_OPTIONS,
        *MODEL_OPTIONS,
        *TARGET_OPTIONS,
        CDC_DUPLICATES,
        DELTA_JOIN,
        DIALECT,
        DISABLED_RULES,
        DML_SYNC,
        DYNAMIC_OPTIONS,
        EVERY,
        BY_DUCKDB,
        EPOCH_MAX_ROWS,
        FOLLOW,
        FORCE_RECOMPILE,
        IDLE_TIMEOUT,
        MATCH_SEMANTICS,
        MAX_ROWS_PER_SECOND,
        MEMORY_LIMIT,
        IGNORE_HINTS,
        MULTI_JOIN,
        MOST_ROUNDS,
        PROFILE,
        NON_DETERMINISTIC_UPDATE,
        NOT_NULL_ENFORCER,
        NULL_ROWTIME,
        PARALLELISM,
        PIECE_MAX_ROWS,
        REJECTED_TABLE,
        REQUIRE_ON_CONFLICT,
        RUNTIME_MODE,
        STATE_TTL,
        TIME_ZONE,
        UPSERT_MATERIALIZE,
        VERIFY,
    )
}
"""All options that mean something to this engine. Their values are checked when they are set."""


def set_option(statement: st.Set, session: Session) -> Result:
    """`SET 'key' = 'value'`, or the list of what is set."""
    if statement.option is None:
        pairs = sorted(session.options.as_dict().items())
        return Result.table(
            Schema.of(("key", STRING), ("value", STRING)),
            [[k for k, _ in pairs], [shown_value(k, v) for k, v in pairs]],
        )
    option = statement.option
    with pointing_at(option.span):
        set_value(session, option.key, option.value)
    return Result.ok()


def _check_spelling(key: str) -> None:
    """Raises OptionError E1503 for a key that is nearly one that is known: a misspelt option would change nothing."""
    if key not in FLINK_OPTIONS and difflib.get_close_matches(key, [*SESSION_OPTIONS, *FLINK_OPTIONS], 1, 0.9):
        known = did_you_mean(key, [*SESSION_OPTIONS, *FLINK_OPTIONS])
        raise OptionError(f"unknown option '{key}'", code="E1503", hint=known)


def _near(key: str) -> str:
    """Options that look like a key, or have its letters inside: `timezone` for `table.local-time-zone`."""
    near = did_you_mean(key, [*SESSION_OPTIONS, *FLINK_OPTIONS])
    if near is not None:
        return near
    letters = re.sub(r"[._-]", "", key.lower())
    held = sorted(known for known in SESSION_OPTIONS if len(letters) > 3 and letters in re.sub(r"[._-]", "", known))
    if held:
        return "there is: " + ", ".join(f'"{known}"' for known in held[:4])
    groups = sorted({known.partition(".")[0] for known in SESSION_OPTIONS})
    return f"options begin with {', '.join(groups)}; docs/options.md lists all"


def set_value(session: Session, key: str, value: str) -> None:
    """Set an option; one of Flink that changes nothing here is noted, once.

    Raises OptionError for a value that it cannot have, E1513 for one that means something else in Flink, and E1503 for a
    key that is neither ours nor Flink's; AccessError for one that is not for everybody.
    """
    if session.authority is not None or session.database.outside is not None:
        _allowed.check_option(key, value, session)
    if key in SESSION_OPTIONS:
        SESSION_OPTIONS[key].read(value)
    elif not key.startswith(SPARK_PREFIX):
        note = noted_option(key, value)
        if note is None:
            raise OptionError(f"unknown option '{key}'", code="E1503", hint=_near(key))
        _check_spelling(key)
        if note and key not in session.noted_options:
            session.noted_options[key] = note
    if key == TIME_ZONE.key and time_zone_name(value) is None:
        raise OptionError(
            f"unknown time zone '{value}'", code="E1508", hint="use a name like 'UTC', 'Europe/Berlin' or '+02:00'"
        )
    session.options.set(key, value)
    if key == AT_ONCE.key:
        _schedule(session)


def _schedule(session: Session) -> None:
    """The scheduler is that of all sessions: it does what was said last."""
    session.database.scheduler.give_at_once(session.options.get(AT_ONCE))


def reset_option(statement: st.Reset, session: Session) -> Result:
    """`RESET 'key'`, or all of them. Raises OptionError E1503 for a misspelt key."""
    key = statement.key
    if key is not None and key.text not in SESSION_OPTIONS and key.text not in session.options:
        with pointing_at(key.span):
            _check_spelling(key.text)
    session.options.reset(key.text if key is not None else None)
    if key is None or key.text == AT_ONCE.key:
        _schedule(session)
    return Result.ok()
