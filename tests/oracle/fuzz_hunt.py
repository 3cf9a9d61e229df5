"""Random cases without end, each shrunk when it fails: `python -m tests.oracle.fuzz_hunt --seconds 60 --seed 1 [family
...]`.

The draws are plain random numbers, so that no two cases are alike (hypothesis likes to vary what it had). A failing
list of draws is shrunk by leaving out stretches and lowering numbers as long as the failure keeps its nature.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable

from tests.oracle.compare_case import check_case
from tests.oracle.compare_dml import check_dml_case
from tests.oracle.compare_windows import check_late_case, check_window_case
from tests.oracle.fuzz_report import write_slt
from tests.oracle.generate_cases import Case, draw_case
from tests.oracle.generate_choices import Choices
from tests.oracle.generate_dml import DmlCase, draw_dml_case
from tests.oracle.generate_late import LATE_TEMPLATES, LateCase, draw_late_case
from tests.oracle.generate_queries import FAMILIES
from tests.oracle.generate_windows import TEMPLATES, WindowCase, draw_window_case
from tests.oracle.outcomes import Broken, Skipped, nature
from tests.oracle.smaller_cases import smaller

LABELS = ("as written", "all in one epoch", "one change an epoch")

__all__ = ["ListedChoices", "hunt", "shrink"]


class ListedChoices(Choices):
    """Choices from a list of numbers, and from chance (or the lowest) where it ends. `taken` is what was used."""

    def __init__(self, numbers: list[int], chance: random.Random | None) -> None:
        super().__init__(lambda strategy: None)
        self._numbers = numbers
        self._chance = chance
        self.taken: list[int] = []

    def count(self, low: int, high: int) -> int:
        if low >= high:
            return low
        at = len(self.taken)
        if at < len(self._numbers):
            found = min(self._numbers[at], high - low)
        else:
            found = self._chance.randint(0, high - low) if self._chance is not None else 0
        self.taken.append(found)
        return low + found


AnyCase = Case | WindowCase | LateCase | DmlCase


def draw(choose: Choices, family: str) -> AnyCase:
    """A case of a family, or of a template for event time."""
    if family == "dml":
        return draw_dml_case(choose)
    if family in LATE_TEMPLATES:
        return draw_late_case(choose, family)
    return draw_window_case(choose, family) if family in TEMPLATES else draw_case(choose, family)


def check(case: AnyCase, only: str | None = None) -> None:
    """The law for any kind of case."""
    match case:
        case WindowCase():
            check_window_case(case)
        case LateCase():
            check_late_case(case)
        case DmlCase():
            check_dml_case(case)
        case _:
            check_case(case, only)


def problem(case: AnyCase, only: str | None = None) -> str | None:
    """What is broken, None when nothing is."""
    try:
        check(case, only)
    except Broken as broken:
        return str(broken)
    except Skipped:
        return None
    return None


def shrink(family: str, numbers: list[int], seconds: float, kind: str) -> tuple[AnyCase, str]:
    """The smallest failing case found in some seconds: first fewer and lower draws, then fewer changes and rules."""
    best = list(numbers)
    if not seconds:
        case = draw(ListedChoices(best, None), family)
        return case, problem(case) or "the failure does not repeat"
    deadline = time.monotonic() + seconds
    label = next((name for name in LABELS if kind.startswith(name)), None)

    def fails(case: AnyCase) -> bool:
        why = problem(case, label)
        return why is not None and nature(why) == kind

    def attempt(candidate: list[int]) -> bool:
        nonlocal best
        choose = ListedChoices(candidate, None)
        case = draw(choose, family)
        taken = list(choose.taken)
        while taken and taken[-1] == 0:
            taken.pop()
        if (len(case.sql.ours), len(taken), taken) >= (
            len(draw(ListedChoices(best, None), family).sql.ours),
            len(best),
            best,
        ) or not fails(case):
            return False
        best = taken
        return True

    moved = True
    while moved and time.monotonic() < deadline:
        moved = _pass(lambda: best, attempt, deadline)
    case = draw(ListedChoices(best, None), family)
    case = _fewer(case, fails)
    return case, problem(case, label) or "the failure does not repeat"


def _fewer(case: AnyCase, fails: Callable[[AnyCase], bool]) -> AnyCase:
    """Leave out parts one by one."""
    moved = True
    while moved:
        moved = False
        for candidate in smaller(case):
            if fails(candidate):
                case, moved = candidate, True
                break
    return case


def _pass(current: Callable[[], list[int]], attempt: Callable[[list[int]], bool], deadline: float) -> bool:
    moved = False
    size = max(1, len(current()) // 2)
    while size:
        at = len(current()) - size
        while at >= 0 and time.monotonic() < deadline:
            now = current()
            if attempt(now[:at] + now[at + size :]) or attempt(now[:at] + [0] * size + now[at + size :]):
                moved = True
            at -= max(1, size // 2)
        size //= 2
    for at in range(len(current()) - 1, -1, -1):
        if time.monotonic() >= deadline:
            break
        now = current()
        if at < len(now) and now[at] > 0:
            moved = (
                attempt([*now[:at], now[at] // 2, *now[at + 1 :]])
                or attempt([*now[:at], now[at] - 1, *now[at + 1 :]])
                or moved
            )
    return moved


def hunt(families: list[str], seconds: float, seed: int, shrinking: float) -> Counter[str]:
    """Run cases; print one small case per nature of failure. Gives how often each was met."""
    met: Counter[str] = Counter()
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        family = families[number % len(families)]
        choose = ListedChoices([], random.Random(f"{seed}/{number}"))
        number += 1
        case = draw(choose, family)
        why = None
        try:
            check(case)
            met["equal"] += 1
        except Skipped as skipped:
            met["skipped: " + nature(str(skipped))] += 1
        except Broken as broken:
            why = str(broken)
        if why is not None:
            kind = nature(why)
            met[kind] += 1
            if met[kind] == 1:
                small, reason = shrink(family, choose.taken, shrinking, kind)
                where = write_slt(small, reason) if isinstance(small, Case | DmlCase) else small
                print(f"=== {family} seed {seed}/{number - 1}\n{where}\n{reason[:1500]}\n{small.sql.ours}", flush=True)
    return met


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--shrink", type=float, default=15)
    parser.add_argument("--windows", action="store_true", help="the templates for event time")
    parser.add_argument("families", nargs="*")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    for kind, times in hunt(
        arguments.families or ([*TEMPLATES, *LATE_TEMPLATES] if arguments.windows else [*FAMILIES, "dml"]),
        arguments.seconds,
        seed,
        arguments.shrink,
    ).most_common():
        print(f"{times:6}  {kind}")


if __name__ == "__main__":
    main()
