"""What the parts of physical nodes keep that are no expressions: frames, windows, time zones, patterns."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from runtime.expr.nodes import Frame, FrameBound
from runtime.expr.zones import instant_to_local
from runtime.plan.decoding import Wrong
from runtime.plan.pattern import MOST_PLACES, AfterMatch, Pattern, PatternPart
from runtime.plan.windows import CumulateWindow, HopWindow, SessionWindow, TumbleWindow, WindowEmit, WindowSpec

__all__ = ["check_emit", "check_frame", "check_pattern", "check_window", "check_zone", "not_below", "placed", "within"]

_MOST_WINDOWS: Final = 100_000
_ZONE = re.compile(r"[A-Za-z0-9_+:/-]{1,64}")


def check_frame(frame: Frame | None) -> None:
    """Raise Wrong for a frame whose offsets do not fit its bounds."""
    if frame is None:
        return
    if frame.rows and frame.groups:
        raise placed(Wrong("a frame counts rows or groups"), "frame", "groups")
    for field, bound, offset in (
        ("lower_offset", frame.lower, frame.lower_offset),
        ("upper_offset", frame.upper, frame.upper_offset),
    ):
        if (bound in (FrameBound.PRECEDING, FrameBound.FOLLOWING)) != (offset is not None):
            raise placed(Wrong("PRECEDING and FOLLOWING have an offset, the others none"), "frame", field)
        if offset is not None and not 0 <= offset < math.inf:
            raise placed(Wrong("an offset is not below zero"), "frame", field)


def check_zone(zone: str | None) -> None:
    """Raise Wrong for a time zone that nobody knows."""
    if zone is None:
        return
    try:
        known = _ZONE.fullmatch(zone) is not None
        instant_to_local(np.zeros(int(known), np.int64), zone, "ms")
    except (pa.ArrowException, ValueError, OSError):
        known = False
    if not known:
        raise Wrong("there is no such time zone").within("zone")


def check_window(window: WindowSpec) -> None:
    """Raise Wrong for windows without length, or more for a row than can be."""
    match window:
        case TumbleWindow(size=size):
            lengths = [size]
        case HopWindow(slide=slide, size=size):
            lengths = [slide, size]
        case CumulateWindow(step=step, size=size):
            lengths = [step, size]
        case SessionWindow(gap=gap):
            lengths = [gap]
        case _:
            lengths = []
    if any(length < 1 for length in lengths):
        raise Wrong("lengths of windows are above zero").within("window")
    if any(longer // shorter > _MOST_WINDOWS for shorter, longer in pairwise(lengths)):
        raise Wrong(f"a row falls in at most {_MOST_WINDOWS:,} windows").within("window")


def check_emit(emit: WindowEmit, window: WindowSpec) -> None:
    """Raise Wrong for negative times, or a window that gives one result."""
    if not isinstance(window, TumbleWindow | HopWindow):
        raise Wrong("TUMBLE and HOP alone have early and late results").within("emit")
    if any(time is not None and time < 0 for time in (emit.early, emit.late, emit.lateness)):
        raise Wrong("times are not negative").within("emit")


def check_pattern(pattern: Pattern) -> None:
    """Raise Wrong for a pattern of no variables, or with numbers that are none of its variables."""
    if not pattern.variables:
        raise placed(Wrong("it has at least one variable"), "pattern", "variables")
    for index, variable in enumerate(pattern.variables):
        if variable.least < 0 or (variable.most is not None and variable.most < max(1, variable.least)):
            raise placed(Wrong("it is repeated so often as nothing can be"), "pattern", "variables", index)
    for index, subset in enumerate(pattern.subsets):
        for number in subset.variables:
            within(number, len(pattern.variables), "pattern", "subsets", index, "variables")
    if pattern.after in (AfterMatch.TO_FIRST, AfterMatch.TO_LAST):
        within(pattern.skip_to, len(pattern.variables) + len(pattern.subsets), "pattern", "skip_to")
    if pattern.within < 0:
        raise placed(Wrong("it is at least 0"), "pattern", "within")
    if pattern.shape is not None:
        _check_part(pattern.shape, len(pattern.variables), "pattern", "shape")
        if pattern.shape.places > MOST_PLACES:
            raise placed(Wrong(f"variables stand in it {MOST_PLACES:,} times at most"), "pattern", "shape")


def _check_part(part: PatternPart, variables: int, *place: str | int) -> None:
    if part.least < 0 or (part.most is not None and part.most < max(1, part.least)):
        raise placed(Wrong("it is repeated so often as nothing can be"), *place)
    if part.variable != -1:
        within(part.variable, variables, *place, "variable")
    if (part.variable != -1) + bool(part.parts) + (part.anchor is not None) != 1:
        raise placed(Wrong("it is a variable, has parts, or is an anchor"), *place)
    for index, inner in enumerate(part.parts):
        _check_part(inner, variables, *place, "parts", index)


def within(number: int, count: int, *place: str | int) -> None:
    """Raise Wrong for a position that is none of so many."""
    if not 0 <= number < count:
        raise placed(Wrong(f"there is no {number}: there are {count}"), *place)


def not_below(field: str, number: int, least: int) -> None:
    """Raise Wrong for a number that is too small."""
    if number < least:
        raise Wrong(f"it is at least {least}").within(field)


def placed(wrong: Wrong, *place: str | int) -> Wrong:
    """The same, within these steps."""
    for step in reversed(place):
        wrong.within(step)
    return wrong
