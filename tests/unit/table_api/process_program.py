"""Process table functions for tests and golden files."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlengine import ProcessTableFunction, Row, udptf

__all__ = ["Cheers", "Counted", "Failing", "Gaps", "Greeter", "Kinds", "Letters", "Longest", "Timeout"]


@udptf(result_types={"n": "BIGINT", "total": "BIGINT"}, state={"seen": "ROW<n BIGINT, total BIGINT>"})
class Counted(ProcessTableFunction):
    """Counts and adds up; a 0 begins anew."""

    def eval(self, ctx, seen, input, step: int = 1):
        if input.v == 0:
            ctx.clear_state("seen")
            return
        seen.n = (seen.n or 0) + step
        seen.total = (seen.total or 0) + input.v
        yield seen.n, seen.total


@udptf(result_types={"what": "STRING"}, state={"seen": "ROW<n BIGINT>"})
class Timeout(ProcessTableFunction):
    """So many rows until nothing came for 10 seconds."""

    def eval(self, ctx, seen, input):
        seen.n = (seen.n or 0) + 1
        ctx.time_context().register_on_time("idle", ctx.time() + dt.timedelta(seconds=10))

    def on_timer(self, ctx, seen):
        ctx.collect(f"{seen.n} until {ctx.current_timer()}")
        ctx.clear_all()


@udptf(
    result_types={"first": "TIMESTAMP(3)", "texts": "ARRAY<STRING>"},
    state={"texts": "ARRAY<STRING>", "bounds": "ROW<first TIMESTAMP(3), last TIMESTAMP(3)>"},
)
class Gaps(ProcessTableFunction):
    """Sessions with a gap that each row brings."""

    def eval(self, ctx, texts, bounds, input):
        bounds.first = bounds.first or ctx.time()
        end = ctx.time() + dt.timedelta(seconds=input.gap)
        bounds.last = end if bounds.last is None else max(bounds.last, end)
        texts.add(input.text)
        ctx.clear_all_timers()
        ctx.register_on_time(bounds.last)

    def on_timer(self, ctx, texts, bounds):
        yield bounds.first, list(texts)
        ctx.clear_all()


@udptf(
    result_types={"greeting": "STRING"},
    tables={"visits": "SET_SEMANTIC_TABLE", "purchases": "SET_SEMANTIC_TABLE"},
    state={"last": "ROW<item STRING>"},
)
class Greeter(ProcessTableFunction):
    """Greets each visit with what was bought last."""

    def eval(self, ctx, last, visits, purchases):
        if purchases is not None:
            last.item = purchases.item
        else:
            yield f"hello {visits.name}, how is your {last.item}"


@udptf(
    result_types={"kind": "STRING", "v": "INT"},
    tables={"input": ("SET_SEMANTIC_TABLE", "SUPPORT_UPDATES")},
)
class Kinds(ProcessTableFunction):
    """The kind of each change."""

    def eval(self, ctx, input):
        return input.kind, input.v


@udptf(
    result_types={"item": "STRING", "n": "BIGINT"},
    tables={"input": ["SET_SEMANTIC_TABLE", "OPTIONAL_PARTITION_BY"]},
    state={"counts": "MAP<STRING, BIGINT>"},
    changelog=True,
)
class Cheers(ProcessTableFunction):
    """A count by item, as changes."""

    def eval(self, ctx, counts, input):
        before = counts.get(input.item)
        counts.put(input.item, (before or 0) + 1)
        if before is None:
            ctx.collect(Row(input.item, 1))
        else:
            ctx.collect(Row.of((input.item, before), "-U"))
            ctx.collect(Row.of((input.item, before + 1), "+U"))


@udptf(
    result_types={"letter": "STRING"}, tables={"input": ["ROW_SEMANTIC_TABLE", "PASS_COLUMNS_THROUGH"]}, name="letters"
)
class Letters(ProcessTableFunction):
    """The letters of a text, beside the row."""

    def eval(self, ctx, input, most: int = 2):
        yield from input.text[:most]


class Longest(ProcessTableFunction):
    """Not decorated: attributes declare it. The longest text so far, forgotten after a minute without rows."""

    result_types = {"text": "STRING"}
    state = {"best": "ROW<text STRING>"}
    ttl = {"best": "1 min"}

    def __init__(self) -> None:
        self.opened = False

    def open(self, context: Any) -> None:
        self.opened = True

    def eval(self, ctx, best, input):
        assert self.opened
        if best.text is None or len(input.text) > len(best.text):
            best.text = input.text
            return best.text
        return None


@udptf(result_types={"x": "INT"}, tables={"input": "ROW_SEMANTIC_TABLE"})
class Failing(ProcessTableFunction):
    """Fails, or gives what it should not."""

    def eval(self, ctx, input, how: str):
        match how:
            case "raises":
                raise ValueError(f"no {input.v}")
            case "width":
                return 1, 2
            case "type":
                return "one"
            case "kind":
                return Row.of((1,), "-D")
            case _:
                ctx.register_on_time(0)
        return None
