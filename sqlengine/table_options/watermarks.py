"""Options of a table about its watermark: `scan.watermark.*` in WITH (..) or in an OPTIONS hint.

Source: Flink 2.3, "Watermark options"; `splits-in-order` is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.core.errors import OptionError, did_you_mean
from runtime.core.options import Options, bool_option, duration_option, text_option
from runtime.plan.parts import Alignment
from sqlengine.catalog.objects import CatalogTable

__all__ = ["IDLE_TIMEOUT", "WATERMARK_OPTIONS", "WatermarkOptions", "is_for_connector", "is_watermark_option"]

IDLE_TIMEOUT = duration_option(
    "table.exec.source.idle-timeout", 0, "how long a source without rows holds back the watermark; 0 means for ever"
)

_PREFIX = "scan.watermark."
_IDLE = duration_option(_PREFIX + "idle-timeout", 0, IDLE_TIMEOUT.description)
_GROUP = text_option(_PREFIX + "alignment.group", "", "the group of tables that are kept aligned in event time")
_DRIFT = duration_option(
    _PREFIX + "alignment.max-drift", 0, "how far a source may be ahead of the slowest of its group, such as '1 min'"
)
_INTERVAL = duration_option(
    _PREFIX + "alignment.update-interval", 1000, "accepted for compatibility; sources are compared after every epoch"
)
_STRATEGY = text_option(
    _PREFIX + "emit.strategy",
    "on-periodic",
    "when watermarks are sent: 'on-periodic' is at the end of every epoch; 'on-event' is not supported",
    ("on-periodic", "on-event"),
)
_GAP = text_option(_PREFIX + "emit.on-event.gap", "1", "belongs to 'on-event', which is not supported")
_IN_ORDER = bool_option(
    _PREFIX + "splits-in-order",
    False,
    "whether the files, by name, are in order of time: then files that are not yet started do not hold back the watermark",
)
WATERMARK_OPTIONS = (_IDLE, _GROUP, _DRIFT, _INTERVAL, _STRATEGY, _GAP, _IN_ORDER)
_KNOWN = {o.key: o for o in WATERMARK_OPTIONS}


def is_watermark_option(key: str) -> bool:
    return key.startswith(_PREFIX)


_OF_THE_ENGINE = (
    "scan.watermark.",
    "lookup.cache",
    "lookup.partial-cache.",
    "lookup.full-cache.",
    "lookup.max-retries",
)


def is_for_connector(key: str) -> bool:
    """Whether a connector is told of an option of a table: not of its own name, and not of what the engine reads itself, about
    watermarks, rates and lookups."""
    return key not in ("connector", "scan.rate-limit") and not key.startswith(_OF_THE_ENGINE)


@dataclass(frozen=True, slots=True)
class WatermarkOptions:
    """How the watermark of a table is made besides its expression; `idle_timeout` in milliseconds, 0 is never."""

    idle_timeout: int
    alignment: Alignment | None = None
    splits_in_order: bool = False

    @staticmethod
    def read(table: CatalogTable, hints: Mapping[str, str], session: Options) -> WatermarkOptions:
        """The options of a table, those of a hint before its own.

        Raises:
            OptionError: E1503 for an option that is not known, E1504 for half of an alignment, E1500 for a wrong value
                and for what is not done here.
        """
        given = Options({k: v for k, v in {**table.options, **hints}.items() if is_watermark_option(k)})
        for key in given:
            if key not in _KNOWN:
                raise OptionError(f"a table has no option '{key}'", code="E1503", hint=did_you_mean(key, _KNOWN))
        if given.get(_STRATEGY) == "on-event":
            raise OptionError(
                f"option '{_STRATEGY.key}' cannot be 'on-event': a watermark comes at the end of every epoch",
                hint="leave it out, and SET 'sqlengine.epoch.max-rows' to have shorter epochs",
            )
        if _GAP.key in given:
            raise OptionError(f"option '{_GAP.key}' belongs to the strategy 'on-event'", hint="leave it out")
        given.get(_INTERVAL)
        idle = given.get(_IDLE) if _IDLE.key in given else session.get(IDLE_TIMEOUT)
        return WatermarkOptions(idle, _alignment(table, given), given.get(_IN_ORDER))


def _alignment(table: CatalogTable, given: Options) -> Alignment | None:
    group, drift = _GROUP.key in given, _DRIFT.key in given
    if group != drift:
        missing = _DRIFT if group else _GROUP
        raise OptionError(
            f"the alignment of {table.path.name} lacks its option '{missing.key}'",
            code="E1504",
            hint=missing.description,
        )
    if not group:
        return None
    if table.connector is None:
        raise OptionError(
            f"{table.path.name} is a table in memory, which cannot be aligned",
            hint=f"leave out '{_GROUP.key}'",
        )
    if table.watermark is None:
        raise OptionError(
            f"{table.path.name} cannot be aligned: it has no watermark",
            hint=f"declare WATERMARK FOR a column, or leave out '{_GROUP.key}'",
        )
    return Alignment(given.get(_GROUP), given.get(_DRIFT))
