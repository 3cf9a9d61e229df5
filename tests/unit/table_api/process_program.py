"""Process table functions for tests and golden files."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine import ProcessTableFunction, Row, udptf

__all__ = [
    "Alerts",
    "Cheers",
    "Counted",
    "Early",
    "EpochEarly",
    "EpochCheers",
    "EpochGaps",
    "EpochGreeter",
    "EpochLetters",
    "EpochTimeout",
    "Failing",
    "FailingEpochs",
    "Gaps",
    "Greeter",
    "Kinds",
    "Letters",
    "Longest",
    "Running",
    "Timeout",
]


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


@udptf(
    func_type="arrow", result_types={"n": "BIGINT", "total": "BIGINT"}, state={"seen": "ROW<n BIGINT, total BIGINT>"}
)
class Running(ProcessTableFunction):
    """Counts and adds up, all rows of an epoch at once; a NULL adds nothing."""

    def eval(self, ctx, seen, input, step: int = 1):
        keys = ctx.keys()
        order = np.argsort(keys, kind="stable")
        values = input["v"].fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)[order]
        ends = np.cumsum(np.bincount(keys, minlength=ctx.key_count))
        starts = ends - np.diff(ends, prepend=0)
        before = seen.get()
        n0 = before["n"].fill_null(0).to_numpy(zero_copy_only=False)
        total0 = before["total"].fill_null(0).to_numpy(zero_copy_only=False)
        sums = np.cumsum(values)
        sums += (total0 - sums[starts] + values[starts])[keys[order]]
        counts = (np.arange(len(keys)) - starts[keys[order]] + 1) * step + n0[keys[order]]
        n, total = np.empty_like(counts), np.empty_like(sums)
        n[order], total[order] = counts, sums
        seen.put({"n": counts[ends - 1], "total": sums[ends - 1]})
        return {"n": n, "total": total}


@udptf(func_type="arrow", result_types={"what": "STRING"}, state={"seen": "ROW<n BIGINT>"})
class EpochTimeout(ProcessTableFunction):
    """`Timeout`, by epoch."""

    def eval(self, ctx, seen, input):
        keys = ctx.keys()
        n = seen.get()["n"].fill_null(0).to_numpy(zero_copy_only=False)
        seen.put({"n": n + np.bincount(keys, minlength=ctx.key_count)})
        last = np.zeros(ctx.key_count, np.int64)
        last[keys] = np.arange(len(keys))
        times = input["ts"].take(pa.array(last)).cast(pa.timestamp("ms")).cast(pa.int64())
        ctx.register_on_time("idle", pc.add(times, 10_000))

    def on_timer(self, ctx, timers, seen):
        n = seen.get()["n"]
        ctx.collect(
            pa.array([f"{a} until {b}" for a, b in zip(n.to_pylist(), timers["name"].to_pylist(), strict=True)])
        )
        ctx.clear_all()


@udptf(
    func_type="arrow",
    result_types={"first": "TIMESTAMP(3)", "texts": "ARRAY<STRING>"},
    state={"texts": "ARRAY<STRING>", "bounds": "ROW<first TIMESTAMP(3), last TIMESTAMP(3)>"},
)
class EpochGaps(ProcessTableFunction):
    """`Gaps`, by epoch; it goes through the rows."""

    def eval(self, ctx, texts, bounds, input):
        lists = [held or [] for held in texts.get().to_pylist()]
        first, last = (c.to_pylist() for c in bounds.get().columns)
        for key, row in zip(ctx.keys().tolist(), input.to_pylist(), strict=True):
            end = row["ts"] + dt.timedelta(seconds=row["gap"])
            first[key] = first[key] or row["ts"]
            last[key] = end if last[key] is None else max(last[key], end)
            lists[key].append(row["text"])
        texts.put(lists)
        bounds.put((first, last))
        ctx.clear_all_timers()
        ctx.register_on_time(pa.array(last, pa.timestamp("ms")))

    def on_timer(self, ctx, timers, texts, bounds):
        assert timers["time"].null_count == 0
        yield {"texts": texts.get(), "first": bounds.get()["first"]}
        ctx.clear_all()


@udptf(
    func_type="arrow",
    result_types={"greeting": "STRING"},
    tables={"visits": "SET_SEMANTIC_TABLE", "purchases": "SET_SEMANTIC_TABLE"},
    state={"last": "ROW<item STRING>"},
)
class EpochGreeter(ProcessTableFunction):
    """Greets the visits of an epoch with what was bought last in it or before."""

    def eval(self, ctx, last, visits, purchases):
        items = last.get()["item"].to_pylist()
        for key, item in zip(ctx.keys("purchases").tolist(), purchases["item"].to_pylist(), strict=True):
            items[key] = item
        last.put((items,))
        known = zip(visits["name"].to_pylist(), ctx.keys("visits").tolist(), strict=True)
        texts = [f"hello {name}, how is your {items[key]}" for name, key in known]
        ctx.collect({"greeting": pa.array(texts, pa.string())}, table="visits")


@udptf(
    func_type="arrow",
    result_types={"item": "STRING", "n": "BIGINT"},
    tables={"input": ["SET_SEMANTIC_TABLE", "OPTIONAL_PARTITION_BY"]},
    state={"counts": "MAP<STRING, BIGINT>"},
    changelog=True,
)
class EpochCheers(ProcessTableFunction):
    """`Cheers`, by epoch; it goes through the rows."""

    def eval(self, ctx, counts, input):
        held = [{e["key"]: e["value"] for e in entries or []} for entries in counts.get().to_pylist()]
        rows, items, numbers, kinds = [], [], [], []
        for at, (key, item) in enumerate(zip(ctx.keys().tolist(), input["item"].to_pylist(), strict=True)):
            before = held[key].get(item)
            held[key][item] = (before or 0) + 1
            for n, kind in [(1, "+I")] if before is None else [(before, "-U"), (before + 1, "+U")]:
                rows.append(at)
                items.append(item)
                numbers.append(n)
                kinds.append(kind)
        counts.put([[{"key": k, "value": v} for k, v in one.items()] for one in held])
        ctx.collect((items, numbers), rows, kinds=kinds)


@udptf(
    func_type="arrow",
    result_types={"letter": "STRING"},
    tables={"input": ["ROW_SEMANTIC_TABLE", "PASS_COLUMNS_THROUGH"]},
)
class EpochLetters(ProcessTableFunction):
    """`Letters`, by epoch."""

    def eval(self, ctx, input, most: int = 2):
        texts = [text[:most] for text in input["text"].to_pylist()]
        rows = np.repeat(np.arange(len(texts)), [len(t) for t in texts])
        ctx.collect((list("".join(texts)),), rows)


@udptf(func_type="arrow", result_types={"alert": "BIGINT"})
class Alerts(ProcessTableFunction):
    """Two timers for each row; each of them says how many were set with it."""

    def eval(self, ctx, input):
        last = np.zeros(ctx.key_count, np.int64)
        last[ctx.keys()] = np.arange(len(input))
        times = input["ts"].take(pa.array(last)).cast(pa.timestamp("ms")).cast(pa.int64())
        ctx.register_on_time(times)
        ctx.register_on_time(pc.add(times, 1000))

    def on_timer(self, ctx, timers):
        assert len(set(ctx.keys().tolist())) == len(timers)
        return {"alert": timers["time"].cast(pa.timestamp("ms")).cast(pa.int64())}


@udptf(func_type="arrow", result_types={"x": "INT"}, state={"seen": "ROW<n BIGINT>"})
class FailingEpochs(ProcessTableFunction):
    """Fails, or gives what it should not."""

    def eval(self, ctx, seen, input, how: str):
        match how:
            case "raises":
                raise ValueError("no")
            case "width":
                return pa.array([1]), pa.array([2])
            case "length":
                return pa.array([1, 2, 3])
            case "rows":
                ctx.collect(pa.array([1]), [7])
            case "type":
                return pa.array(["one"])
            case "kind":
                ctx.collect(pa.array([1]), [0], kinds=["-D"])
            case "field":
                seen.put({"m": [1]})
            case "twice":
                seen.put({"n": [1, 1]}, keys=[0, 0])
            case "table":
                ctx.keys("inputs")
            case _:
                ctx.register_on_time([0])
        return None


@udptf(result_types={"n": "BIGINT", "kind": "STRING"}, state={"seen": "ROW<n BIGINT>"})
class Early(ProcessTableFunction):
    """A count that is given ten seconds of the clock after its first row, and again while rows come; with `on_time` also
    when the watermark has passed the end of the minute."""

    def eval(self, ctx, seen, input):
        if seen.n is None:
            ctx.register_on_clock("early", dt.timedelta(seconds=10))
            if ctx.time() is not None:
                ctx.register_on_time("end", ctx.time().replace(second=59))
        seen.n = (seen.n or 0) + 1

    def on_clock(self, ctx, seen):
        yield seen.n, ctx.current_timer()
        ctx.register_on_clock("early", dt.timedelta(seconds=10))

    def on_timer(self, ctx, seen):
        yield seen.n, ctx.current_timer()
        ctx.clear_all()


@udptf(func_type="arrow", result_types={"n": "BIGINT", "kind": "STRING"}, state={"seen": "ROW<n BIGINT>"})
class EpochEarly(ProcessTableFunction):
    """The same by epoch."""

    def eval(self, ctx, seen, input, timed: bool = False):
        before = seen.get()["n"]
        fresh = np.flatnonzero(before.is_null().to_numpy(zero_copy_only=False))
        ctx.register_on_clock("early", dt.timedelta(seconds=10), keys=fresh)
        if timed:
            first = {}
            for key, at in zip(ctx.keys().tolist(), input["ts"].to_pylist(), strict=True):
                first.setdefault(key, at.replace(second=59))
            ctx.register_on_time("end", pa.array([first[k] for k in fresh.tolist()], pa.timestamp("ms")), keys=fresh)
        seen.put({"n": before.fill_null(0).to_numpy() + np.bincount(ctx.keys(), minlength=ctx.key_count)})

    def on_clock(self, ctx, timers, seen):
        ctx.collect({"n": seen.get()["n"].take(pa.array(ctx.keys())), "kind": timers["name"]})
        ctx.register_on_clock("early", dt.timedelta(seconds=10))

    def on_timer(self, ctx, timers, seen):
        ctx.collect({"n": seen.get()["n"].take(pa.array(ctx.keys())), "kind": timers["name"]})
        ctx.clear_all()
