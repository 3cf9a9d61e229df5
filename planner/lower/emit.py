"""When windows of GROUP BY give results besides the one at their end: the options `table.exec.emit.*` of Flink."""

from __future__ import annotations

from planner.traits.context import STATE_TTL
from runtime.core.errors import OptionError, Span, UnsupportedError
from runtime.core.options import Option, Options, bool_option, duration_option
from runtime.plan.windows import SessionWindow, WindowEmit, WindowSpec

__all__ = ["EMIT_OPTIONS", "emits_between", "window_emit"]

_NOT_SET = -1
_EARLY = bool_option(
    "table.exec.emit.early-fire.enabled",
    False,
    "whether TUMBLE and HOP in GROUP BY give results before their window ends",
)
_EARLY_DELAY = duration_option(
    "table.exec.emit.early-fire.delay",
    _NOT_SET,
    "how long after a change such a result comes, in processing time; with 0 every epoch gives it",
)
_LATE = bool_option(
    "table.exec.emit.late-fire.enabled",
    False,
    "whether TUMBLE and HOP in GROUP BY give another result when rows come after the end of their window",
)
_LATE_DELAY = duration_option(
    "table.exec.emit.late-fire.delay",
    _NOT_SET,
    "how long after such a row that result comes, in processing time; with 0 the epoch of the row gives it",
)
_LATENESS = duration_option(
    "table.exec.emit.allow-lateness",
    _NOT_SET,
    "for how long after its end, of event time, a window takes rows, where early or late results are enabled",
)
EMIT_OPTIONS: tuple[Option[bool] | Option[int], ...] = (_EARLY, _EARLY_DELAY, _LATE, _LATE_DELAY, _LATENESS)


def emits_between(options: Options) -> bool:
    """Whether the options ask for early or late results."""
    return options.get(_EARLY) or options.get(_LATE)


def window_emit(options: Options, window: WindowSpec, proctime: bool, span: Span | None) -> WindowEmit | None:
    """What the options say of a window in GROUP BY of a streaming query; None where it gives one result.

    `allow-lateness` that is not set is `table.exec.state.ttl`, and without early or late results it means nothing, as
    in Flink.

    Raises:
        UnsupportedError: E1600 for SESSION, as in Flink.
        OptionError: E1513 for options that do not go together.
    """
    if not emits_between(options):
        return None
    if isinstance(window, SessionWindow):
        raise UnsupportedError(
            "SESSION has no early and late results",
            code="E1600",
            span=span,
            hint="RESET 'table.exec.emit.early-fire.enabled' and 'table.exec.emit.late-fire.enabled'",
        )
    early = _delay(options, _EARLY, _EARLY_DELAY)
    late = _delay(options, _LATE, _LATE_DELAY)
    if proctime:
        # Nothing is late there.
        return None if early is None else WindowEmit(early, None, 0)
    lateness = options.get(_LATENESS)
    if lateness == _NOT_SET:
        lateness = options.get(STATE_TTL)
    if late is not None and lateness == 0:
        raise OptionError(
            f"option '{_LATE.key}' needs a time for which windows take late rows",
            code="E1513",
            hint=f"SET '{_LATENESS.key}' = '1 min'",
        )
    return WindowEmit(early, late, lateness)


def _delay(options: Options, enabled: Option[bool], delay: Option[int]) -> int | None:
    if not options.get(enabled):
        return None
    found = options.get(delay)
    if found == _NOT_SET:
        raise OptionError(
            f"option '{enabled.key}' needs a delay", code="E1513", hint=f"SET '{delay.key}' = '0 s', or '10 s'"
        )
    return found
