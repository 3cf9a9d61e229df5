"""VARIANT for Python."""

from __future__ import annotations

import json
from typing import Any

from runtime.expr.given import JsonText

__all__ = ["Variant"]


class Variant(JsonText):
    """A value of VARIANT: its text of JSON, in the one form that equal values have."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """What `json.loads` gives: a dict, list, str, int, float, bool, or None for JSON's null."""
        return json.loads(self)
