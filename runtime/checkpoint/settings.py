"""What a node that goes on from saved state is set to now, and was then: settings that do not change what it computes, but
may have changed what became of the rows so far."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runtime.checkpoint.matching import SavedNode
from runtime.core.secrets import shown_facts
from runtime.plan.nodes import PhysicalNode, SinkExec, SourceExec, WatermarkExec
from runtime.plan.values import encode_fields, encode_value

__all__ = ["changed_setting", "reads_time_zone"]

_ZONED = (
    '"TypeRoot.TIMESTAMP_LTZ"',
    '"CURRENT_DATE"',
    '"LOCALTIME"',
    '"LOCALTIMESTAMP"',
    '"UNIX_TIMESTAMP"',
    '"FROM_UNIXTIME"',
)
"""What stands in the JSON of a node that reads the time zone of the session."""


def changed_setting(node: PhysicalNode, was: SavedNode) -> str | None:
    """Why a run from the start with the settings of now could have come to something else; None when it could not."""
    for name, now in node.times_to_live.items():
        before = was.fields.get(name, 0)
        if before and (not now or now > before):
            return f"what was not touched for {_duration(before)} is gone: so long it lived until now"
    if isinstance(node, SourceExec):
        return _changed_options(
            shown_facts(node.table.describe()), was.table, "rows before were read with other"
        ) or _late(node, was)
    if isinstance(node, SinkExec):
        if was.fields.get("not_null_enforcer", "ERROR") == "DROP" and node.not_null_enforcer != "DROP":
            return "rows with NULL were left out until now"
        return _changed_options(shown_facts(node.table.describe()), was.table, "rows before were written with other")
    if isinstance(node, WatermarkExec):
        handled = was.fields.get("null_handling", "FAIL")
        if handled not in ("FAIL", node.null_handling):
            return f"rows without a time were handled by {handled} until now"
    return None


def reads_time_zone(node: PhysicalNode) -> bool:
    """Whether what a node gives may depend on the time zone of the session."""
    fields = encode_fields(node, frozenset((*node.input_fields, *(("table",) if node.table_use else ()))))
    text = json.dumps([fields, *(encode_value(i.schema) for i in node.inputs)], default=str)
    return any(word in text for word in _ZONED)


def _changed_options(now: Mapping[str, Any], was: Mapping[str, Any], what: str) -> str | None:
    new, old = now.get("options", {}), was.get("options", {})
    changed = [
        k for k in sorted({*new, *old}) if new.get(k) != old.get(k) and not _forgiving(k, new.get(k), old.get(k))
    ]
    return f"{what} options: {', '.join(changed)}" if changed else None


def _forgiving(key: str, new: str | None, old: str | None) -> bool:
    """An option that accepts what would have failed the job so far."""
    if key.endswith(".ignore-parse-errors"):
        return str(new).lower() == "true"
    return key.endswith(".fail-on-missing-field") and str(old).lower() == "true"


def _late(node: SourceExec, was: SavedNode) -> str | None:
    """Other settings of watermarks, where rows may have been late by the old ones or would be by the new."""
    if not any(f.type.is_rowtime for f in node.schema):
        return None
    if node.splits_in_order != was.fields.get("splits_in_order", False):
        return "other rows may have been late: scan.watermark.splits-in-order"
    before = was.fields.get("idle_timeout", 0)
    if before and (not node.idle_timeout or node.idle_timeout > before):
        return f"rows may have been late that came after {_duration(before)} without any"
    return None


def _duration(milliseconds: int) -> str:
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds % length == 0:
            return f"{milliseconds // length} {unit}"
    return f"{milliseconds} ms"
