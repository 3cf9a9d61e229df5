"""The events of Nexmark (https://github.com/nexmark/nexmark, after Apache Beam's generator), whole columns at a time.

An event has a number. Of every 50 events the first is a person, the next 3 are auctions, 46 are bids (the proportions
are options).
Ids follow from the number: people and auctions are numbered from 1000. Bids go to a hot auction, and come from a hot
bidder, with a ratio; the others go to any of the last auctions in flight and come from any of the last active people.
Texts are drawn from pools of some thousand, so that generating them costs a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.random_words import Numbers, RandomWords, text_pool

__all__ = [
    "ACTIVE_PEOPLE",
    "AUCTION",
    "AUCTIONS_IN_FLIGHT",
    "BID",
    "KINDS",
    "PERSON",
    "Columns",
    "EventTimes",
    "Nexmark",
]

PERSON, AUCTION, BID = 0, 1, 2
KINDS = ("person", "auction", "bid")
Columns = dict[str, pa.Array]

_FIRST_ID = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
ACTIVE_PEOPLE, AUCTIONS_IN_FLIGHT = 1000, 100
_PERSON_LEAD, _AUCTION_LEAD = 10, 10
_HOT_EVERY = 100
"""One auction, seller or bidder in so many is the hot one of its time."""
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000
_POOL = 4096


@dataclass(frozen=True, slots=True)
class EventTimes:
    """When events happen: from `base` (milliseconds since the epoch), at rates (events a second) that hold for `step`
    seconds each and then begin again."""

    base: int
    rates: tuple[int, ...]
    step: int

    def of(self, events: Numbers) -> Numbers:
        """Milliseconds since the epoch."""
        if len(set(self.rates)) == 1:
            return self.base + events * 1000 // self.rates[0]
        per_step = np.array([r * self.step for r in self.rates], dtype=np.int64)
        ends = np.cumsum(per_step)
        cycle, within = np.divmod(events, int(ends[-1]))
        at = np.searchsorted(ends, within, side="right")
        since = (within - (ends[at] - per_step[at])) * 1000 // np.array(self.rates, dtype=np.int64)[at]
        return self.base + (cycle * len(self.rates) + at) * self.step * 1000 + since


@dataclass(frozen=True)
class Nexmark:
    """The generator. Proportions and ratios as in the benchmark's configuration; sizes are average bytes of an
    event."""

    seed: int
    times: EventTimes
    proportions: tuple[int, int, int] = (1, 3, 46)
    hot_auctions: int = 2
    hot_bidders: int = 4
    hot_sellers: int = 4
    sizes: tuple[int, int, int] = (200, 500, 100)
    _random: RandomWords = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_random", RandomWords(self.seed))

    @property
    def period(self) -> int:
        """Events after which the kinds repeat."""
        return sum(self.proportions)

    def kinds(self, events: Numbers) -> Numbers:
        """0 person, 1 auction, 2 bid."""
        people, auctions, _ = self.proportions
        return np.searchsorted(np.array([people, people + auctions]), events % self.period, side="right")

    def count(self, kind: int, events: int) -> int:
        """How many of the first events are of a kind."""
        start = sum(self.proportions[:kind])
        whole, rest = divmod(events, self.period)
        return whole * self.proportions[kind] + min(max(rest - start, 0), self.proportions[kind])

    def events_of(self, kind: int, rows: Numbers) -> Numbers:
        """The event numbers of the rows (0, 1, ...) of a kind."""
        each = self.proportions[kind]
        whole, rest = np.divmod(rows, each)
        return whole * self.period + sum(self.proportions[:kind]) + rest

    def columns(self, kind: int, events: Numbers, wanted: Collection[str]) -> Columns:
        """The wanted fields of events of one kind."""
        fields = self._fields[kind]
        return {name: fields[name](events) for name in wanted}

    def field_names(self, kind: int) -> tuple[str, ...]:
        return tuple(self._fields[kind])

    def pool_size(self, kind: str, name: str) -> int | None:
        """How many texts a column is drawn from, None for one that is no draw of texts."""
        extra = f"extra {KINDS.index(kind)}"
        pool = {"itemName": "item", "url": "url", "extra": extra, "channel": "channel"}.get(name, name)
        return len(self._pools[pool]) if pool in self._pools else None

    # --- ids ---------------------------------------------------------------------------------------------------------------

    def _last_person(self, events: Numbers) -> Numbers:
        """The number, from 0, of the last person at an event."""
        people = self.proportions[PERSON]
        epoch, offset = np.divmod(events, self.period)
        return epoch * people + np.minimum(offset, people - 1)

    def _last_auction(self, events: Numbers) -> Numbers:
        people, auctions, _ = self.proportions
        epoch, offset = np.divmod(events, self.period)
        place = np.minimum(offset - people, auctions - 1)
        return np.where(offset < people, (epoch - 1) * auctions + auctions - 1, epoch * auctions + place)

    def _some_person(self, events: Numbers, stream: int) -> Numbers:
        """A recent person, or one of the next few."""
        people = self._last_person(events) + 1
        active = np.minimum(people, ACTIVE_PEOPLE)
        return people - active + self._random.below(events, stream, active + _PERSON_LEAD)

    def _some_auction(self, events: Numbers, stream: int) -> Numbers:
        last = self._last_auction(events)
        first = np.maximum(last - AUCTIONS_IN_FLIGHT, 0)
        return first + self._random.below(events, stream, np.maximum(last - first, -1) + 1 + _AUCTION_LEAD)

    def _hot(self, events: Numbers, stream: int, ratio: int) -> np.ndarray:
        return self._random.below(events, stream, ratio) > 0

    # --- values
    # ------------------------------------------------------------------------------------------------------------

    def _prices(self, events: Numbers, stream: int) -> Numbers:
        return np.rint(np.power(10.0, self._random.unit(events, stream) * 6.0) * 100.0).astype(np.int64)

    def _time(self, events: Numbers) -> pa.Array:
        return pa.array(self.times.of(events) * 1000).view(pa.timestamp("us"))

    def _pick(self, events: Numbers, stream: int, pool: pa.Array) -> pa.Array:
        return pool.take(pa.array(self._random.below(events, stream, len(pool)).astype(np.int32)))

    def _extra(self, kind: int, used: int) -> pa.Array:
        """Texts that fill an event up to its average size, a fifth more or less."""
        wanted = max(0, self.sizes[kind] - used)
        spread = round(wanted * 0.2)
        return text_pool(self.seed + 100 + kind, _POOL, wanted - spread, wanted + spread)

    @cached_property
    def _pools(self) -> dict[str, pa.Array]:
        words = text_pool(self.seed + 1, _POOL, 3, 7)
        names = [f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES]
        parts = [text_pool(self.seed + 2 + i, _CHANNELS + 4, 3, 5) for i in range(3)]
        base = pc.binary_join_element_wise(
            pa.scalar("https://www.nexmark.com"), *parts, pa.scalar("item.htm?query=1"), "/"
        )
        ids = np.random.Generator(np.random.PCG64(self.seed + 6)).integers(1, 1 << 31, _CHANNELS)
        with_id = pc.binary_join_element_wise(base.slice(0, _CHANNELS), pa.array(ids).cast(pa.string()), "&channel_id=")
        plain = np.arange(_CHANNELS) % 10 == 0
        numbers = pa.array(np.arange(_CHANNELS)).cast(pa.string())
        channels = pc.binary_join_element_wise(pa.scalar("channel-"), numbers, "")
        return {
            "name": pa.array(names),
            "city": pa.array(_CITIES),
            "state": pa.array(_STATES),
            "word": words,
            "digits": pc.utf8_lpad(pa.array(np.arange(10_000)).cast(pa.string()), 4, "0"),
            "item": text_pool(self.seed + 5, _POOL, 3, 20),
            "description": text_pool(self.seed + 7, _POOL, 3, 100),
            "channel": pa.concat_arrays([pa.array(_HOT_CHANNELS), channels]),
            "url": pa.concat_arrays(
                [base.slice(_CHANNELS), pc.if_else(pa.array(plain), base.slice(0, _CHANNELS), with_id)]
            ),
            "extra 0": self._extra(PERSON, 80),
            "extra 1": self._extra(AUCTION, 150),
            "extra 2": self._extra(BID, 32),
        }

    def _text(self, pool: str, stream: int) -> Callable[[Numbers], pa.Array]:
        return lambda events: self._pick(events, stream, self._pools[pool])

    def _email(self, events: Numbers) -> pa.Array:
        words = self._pools["word"]
        return pc.binary_join_element_wise(
            self._pick(events, 21, words), pa.scalar("@"), self._pick(events, 22, words), pa.scalar(".com"), ""
        )

    def _credit_card(self, events: Numbers) -> pa.Array:
        return pc.binary_join_element_wise(*(self._pick(events, 23 + i, self._pools["digits"]) for i in range(4)), " ")

    def _expires(self, events: Numbers) -> pa.Array:
        """An auction ends within about twice the time in which as many auctions begin as are in flight."""
        ahead = AUCTIONS_IN_FLIGHT * self.period // max(1, self.proportions[AUCTION])
        starts = self.times.of(events)
        horizon = np.maximum(2 * (self.times.of(events + ahead) - starts), 1)
        return pa.array((starts + 1 + self._random.below(events, 34, horizon)) * 1000).view(pa.timestamp("us"))

    def _seller(self, events: Numbers) -> pa.Array:
        hot = self._last_person(events) // _HOT_EVERY * _HOT_EVERY
        chosen = np.where(self._hot(events, 35, self.hot_sellers), hot, self._some_person(events, 36))
        return pa.array(chosen + _FIRST_ID)

    def _bid_auction(self, events: Numbers) -> pa.Array:
        hot = self._last_auction(events) // _HOT_EVERY * _HOT_EVERY
        chosen = np.where(self._hot(events, 40, self.hot_auctions), hot, self._some_auction(events, 41))
        return pa.array(chosen + _FIRST_ID)

    def _bidder(self, events: Numbers) -> pa.Array:
        hot = self._last_person(events) // _HOT_EVERY * _HOT_EVERY + 1
        chosen = np.where(self._hot(events, 42, self.hot_bidders), hot, self._some_person(events, 43))
        return pa.array(chosen + _FIRST_ID)

    def _of_channel(self, pool: str) -> Callable[[Numbers], pa.Array]:
        """Channel and address belong together: half of the bids come through one of four channels."""

        def column(events: Numbers) -> pa.Array:
            hot = self._hot(events, 45, 2)
            index = np.where(hot, self._random.below(events, 46, 4), 4 + self._random.below(events, 47, _CHANNELS))
            return self._pools[pool].take(pa.array(index.astype(np.int32)))

        return column

    @cached_property
    def _fields(self) -> tuple[dict[str, Callable[[Numbers], pa.Array]], ...]:
        person: dict[str, Callable[[Numbers], pa.Array]] = {
            "id": lambda e: pa.array(self._last_person(e) + _FIRST_ID),
            "name": self._text("name", 20),
            "emailAddress": self._email,
            "creditCard": self._credit_card,
            "city": self._text("city", 27),
            "state": self._text("state", 28),
            "dateTime": self._time,
            "extra": self._text("extra 0", 29),
        }
        auction: dict[str, Callable[[Numbers], pa.Array]] = {
            "id": lambda e: pa.array(self._last_auction(e) + _FIRST_ID),
            "itemName": self._text("item", 30),
            "description": self._text("description", 31),
            "initialBid": lambda e: pa.array(self._prices(e, 32)),
            "reserve": lambda e: pa.array(self._prices(e, 32) + self._prices(e, 33)),
            "dateTime": self._time,
            "expires": self._expires,
            "seller": self._seller,
            "category": lambda e: pa.array(_FIRST_CATEGORY + self._random.below(e, 37, _CATEGORIES)),
            "extra": self._text("extra 1", 38),
        }
        bid: dict[str, Callable[[Numbers], pa.Array]] = {
            "auction": self._bid_auction,
            "bidder": self._bidder,
            "price": lambda e: pa.array(self._prices(e, 44)),
            "channel": self._of_channel("channel"),
            "url": self._of_channel("url"),
            "dateTime": self._time,
            "extra": self._text("extra 2", 48),
        }
        return person, auction, bid
