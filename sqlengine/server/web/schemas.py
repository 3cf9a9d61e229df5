"""What bodies and answers of the API look like, in JSON Schema. An answer has all that its schema names, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["SCHEMAS"]

Schema = Mapping[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_SHARE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_FLAG: Schema = {"type": "boolean"}
_MOMENT: Schema = {"type": ["integer", "null"], "description": "milliseconds since 1970"}
_NO_TEXT: Schema = {"type": ["string", "null"]}
_NO_NUMBER: Schema = {"type": ["number", "null"]}
_NO_COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _maybe(of: Schema) -> Schema:
    return {"oneOf": [of, {"type": "null"}]}


def _answer(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _body(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


_FIGURES = {
    "epochs": _COUNT,
    "restarts": _COUNT,
    "rows_in": _COUNT,
    "rows_out": _COUNT,
    "rows_rejected": _COUNT,
    "state_rows": _COUNT,
    "state_bytes": _COUNT,
    "backlog_rows": _COUNT,
    "rows_in_per_second": _NO_NUMBER,
    "rows_out_per_second": _NO_NUMBER,
    "busy_share": _SHARE,
    "watermark": _MOMENT,
    "watermark_lag_seconds": _NO_NUMBER,
    "checkpoint": _maybe(_ref("Checkpoint")),
}
_JOB = {
    "job": _TEXT,
    "kind": {"enum": ["job", "query"]},
    "statement": _TEXT,
    "status": _TEXT,
    "kept": {"type": "boolean", "description": "whether it goes on when the database is opened again"},
    "weight": _NO_COUNT,
    "error": _maybe(_ref("Failure")),
    **_FIGURES,
}
_VIEW = {
    "view": _TEXT,
    "path": _list(_TEXT),
    "job": _TEXT,
    "status": {"enum": ["RUNNING", "RESTING", "FINISHED", "FAILED"]},
    "reads": _list(_TEXT),
    "rows": _COUNT,
    "bytes": _COUNT,
    "freshness_seconds": {"type": "number", "minimum": 0, "description": "how old the answer is"},
    "latency_seconds": {"type": "number", "minimum": 0, "description": "how long the last epoch has taken"},
    "from_connectors": _FLAG,
    "error": _maybe(_ref("Failure")),
    **_FIGURES,
}
_BRIEF = {
    "name": _TEXT,
    "path": _list(_TEXT),
    "kind": {"enum": ["table", "view", "materialized view", "materialized table"]},
    "connector": _NO_TEXT,
    "in_memory": _FLAG,
    "comment": _NO_TEXT,
}
_COLUMN = _answer(name=_TEXT, type=_TEXT)
_KINDS = {"type": ["array", "null"], "items": {"enum": ["+I", "-U", "+U", "-D"]}}
_ROWS = _list(_list(_NO_TEXT))

SCHEMAS: Mapping[str, Schema] = {
    "Problem": {
        "type": "object",
        "description": "RFC 9457; with the code of the engine, the place in the text, and what to do",
        "properties": {
            "status": {"type": "integer"},
            "title": _TEXT,
            "detail": _TEXT,
            "code": _TEXT,
            "hint": _TEXT,
            "position": _answer(line=_COUNT, column=_COUNT, start=_COUNT, end=_COUNT),
        },
        "required": ["status", "title", "detail"],
        "additionalProperties": False,
    },
    "Health": _answer(status={"enum": ["ok", "ready"]}),
    "Done": _answer(done={"const": True}),
    "Server": _answer(
        product=_TEXT, version=_TEXT, database=_NO_TEXT, epoch=_COUNT, up_seconds=_NUMBER, jobs=_COUNT, jobs_failed=_COUNT,
        views=_COUNT, views_failed=_COUNT, rows_rejected=_COUNT,
        replication=_maybe(_answer(leader=_TEXT, state=_TEXT, epoch=_NO_COUNT, behind_seconds=_NUMBER)),
        replicas=_list(_answer(number=_COUNT, client=_TEXT, epoch=_COUNT)),
    ),
    "Failure": _answer(code=_TEXT, detail=_TEXT, at=_MOMENT),
    "Checkpoint": _answer(
        id=_COUNT, kind=_TEXT, epoch=_COUNT, at=_MOMENT, bytes=_COUNT, total_bytes=_COUNT, milliseconds=_COUNT,
        status=_TEXT, path=_TEXT,
    ),
    "Checkpoints": _answer(checkpoints=_list(_ref("Checkpoint"))),
    "Operator": _answer(
        number=_COUNT, operator=_TEXT, kind=_TEXT, about=_TEXT, table=_NO_TEXT, inputs=_list(_COUNT), tasks=_COUNT,
        rows_in=_COUNT, rows_out=_COUNT, rows_rejected=_COUNT, state_rows=_COUNT, state_bytes=_COUNT,
        busy_seconds=_NUMBER, rows_in_per_second=_NO_NUMBER, rows_out_per_second=_NO_NUMBER, busy_share=_SHARE,
        waiting_share=_SHARE, watermark=_MOMENT, idle=_FLAG,
    ),
    "JobSummary": _answer(**_JOB),
    "Job": _answer(**_JOB, operators=_list(_ref("Operator"))),
    "Jobs": _answer(jobs=_list(_ref("JobSummary"))),
    "ViewSummary": _answer(**_VIEW),
    "View": _answer(**_VIEW, operators=_list(_ref("Operator"))),
    "Views": _answer(views=_list(_ref("ViewSummary"))),
    "Rejected": _answer(
        counts=_list(_answer(job=_TEXT, operator=_TEXT, reason=_TEXT, rows=_COUNT)),
        rows=_list(
            _answer(
                job=_TEXT, operator=_TEXT, reason=_TEXT, event_time=_NO_TEXT, watermark=_NO_TEXT, row=_NO_TEXT, error=_NO_TEXT
            )
        ),
    ),
    "Logs": _answer(
        records=_list(
            _answer(number=_COUNT, at=_COUNT, level=_TEXT, logger=_TEXT, message=_TEXT, facts={"type": "object"})
        )
    ),
    "Catalog": _answer(
        catalogs=_list(
            _answer(name=_TEXT, databases=_list(_answer(name=_TEXT, objects=_list(_answer(**_BRIEF)))))
        )
    ),
    "Object": _answer(
        **_BRIEF,
        columns=_list(_answer(name=_TEXT, type=_TEXT, kind={"enum": ["stored", "computed", "metadata"]}, comment=_NO_TEXT)),
        primary_key=_list(_TEXT), definition=_TEXT, rows=_NO_COUNT, bytes=_NO_COUNT, reads=_list(_TEXT),
        read_by=_list(_TEXT),
    ),
    "Lineage": _answer(
        nodes=_list(
            _answer(id=_TEXT, path=_list(_TEXT), kind=_BRIEF["kind"], columns=_list(_TEXT), connector=_NO_TEXT)
        ),
        edges=_list(
            _answer(**{"from": _TEXT, "to": _TEXT}, job=_NO_TEXT, columns=_list(_answer(**{"from": _TEXT, "to": _TEXT})))
        ),
    ),
    "Submission": _body(
        ("sql",),
        sql=_TEXT,
        savepoint={"type": "string", "minLength": 1, "description": "from where its INSERTs go on"},
        settings={"type": "object", "additionalProperties": _TEXT, "description": "as in SET"},
    ),
    "Submitted": _answer(
        jobs=_list(_TEXT), statements=_list(_answer(summary=_NO_TEXT, warnings=_list(_TEXT), job=_NO_TEXT))
    ),
    "Stop": _body(savepoint=_FLAG, drain=_FLAG, folder={"type": "string", "minLength": 1}),
    "Savepoint": _body(folder={"type": "string", "minLength": 1, "description": "where savepoints go"}),
    "Rescale": _body(
        ("tasks",), tasks={"type": "integer", "minimum": 1, "maximum": 1024}, folder={"type": "string", "minLength": 1}
    ),
    "Restore": _body(("savepoint",), savepoint={"type": "string", "minLength": 1}),
    "Stopped": _answer(job=_TEXT, savepoint=_NO_TEXT),
    "Session": _answer(session=_TEXT),
    "NewStatement": _body(("sql",), sql=_TEXT, live=_FLAG, seconds={"type": "number", "minimum": 0, "maximum": 86400}),
    "Statement": _answer(statement=_TEXT),
    "Page": {
        "type": "object",
        "properties": {
            "ready": _FLAG,
            "last": _FLAG,
            "next": _NO_COUNT,
            "columns": _list(_COLUMN),
            "rows": {**_ROWS, "description": "the text of each cell, null for NULL"},
            "kinds": {**_KINDS, "description": "of the rows; null where all are insertions"},
            "is_query": _FLAG,
            "job": _NO_TEXT,
            "summary": _NO_TEXT,
            "warnings": _list(_TEXT),
            "seconds": _NO_NUMBER,
        },
        "required": ["ready", "last", "next", "columns", "rows", "kinds", "seconds"],
        "additionalProperties": False,
    },
    "Place": _body(("sql", "position"), sql=_TEXT, position=_COUNT),
    "Completions": _answer(
        completions=_list(_answer(text=_TEXT, replaces=_COUNT, kind=_TEXT, about=_TEXT, shown=_TEXT))
    ),
    "Text": _body(("sql",), sql=_TEXT),
    "Spans": _answer(statements=_list(_answer(start=_COUNT, end=_COUNT))),
    "Description": {"type": "object", "description": "this description"},
}  # fmt: skip
