"""A page of a result as the gateway's clients read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlengine.server.gateway.logical_types import logical_type
from sqlengine.server.gateway.rows import columns_text, row_texts
from sqlengine.server.http.operation import Page

__all__ = ["not_ready", "page_text"]


def not_ready(uri: str) -> str:
    """There is no page yet; `uri`: where to ask again."""
    return json.dumps({"resultType": "NOT_READY", "nextResultUri": uri})


def page_text(page: Page, form: str, time_zone: str, following: str) -> str:
    """A page as JSON. `form`: of its rows. `following`: where the next one is."""
    shape, batch = page.shape, page.batch
    columns: list[dict[str, Any]] = [
        {"name": f.name, "logicalType": logical_type(f.type), "comment": None} for f in shape.schema
    ]
    rows = [] if batch is None else row_texts(batch, shape.schema, form, time_zone)
    head: Mapping[str, Any] = {
        "resultType": "EOS" if batch is None else "PAYLOAD",
        "isQueryResult": shape.is_query,
        **({} if shape.job is None else {"jobID": shape.job}),
        "resultKind": shape.kind,
    }
    results = f'{{"columns":{columns_text(columns)},"rowFormat":"{form}","data":[{",".join(rows)}]}}'
    tail = "" if batch is None else f',"nextResultUri":{json.dumps(following)}'
    return f'{json.dumps(head)[:-1]},"results":{results}{tail}}}'
