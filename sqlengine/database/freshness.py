"""How old the answers of materialized views are.

A view whose inputs have nothing for it is as of now. One that is behind is as of the begin of its last epoch: rows may have
come since then that it does not contain. What statements have changed is taken before a view is read, so it makes no answer
older. A view over an older one is as old as that one.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.maintained_view import MaintainedView

__all__ = ["ages"]


def ages(views: Iterable[MaintainedView], now: float) -> dict[ObjectPath, float]:
    """Seconds for each view.

    Args:
        views: each behind those that it reads.
        now: by the clock of `time.monotonic`.
    """
    found: dict[ObjectPath, float] = {}
    for view in views:
        own = max(0.0, now - view.looked_at) if _is_behind(view) else 0.0
        found[view.path] = max(own, max((found.get(path, 0.0) for path in view.inputs), default=0.0))
    return found


def _is_behind(view: MaintainedView) -> bool:
    if view.failure is not None or view.rests:
        return True
    return view.outside and not view.waits and not view.ended
