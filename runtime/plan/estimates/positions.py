"""Values as points on a line, for estimates of how much of a range a condition leaves."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

__all__ = ["position_of"]


def position_of(value: Any) -> float | None:
    """A value as a point on a line, so that parts of a range can be measured; None for what has no such place."""
    match value:
        case bool():
            return None
        case int() | float() | Decimal():
            return float(value) if math.isfinite(value) else None
        case datetime():
            return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()
        case date():
            return float(value.toordinal())
        case time():
            return value.hour * 3600.0 + value.minute * 60 + value.second + value.microsecond / 1e6
        case _:
            return None
