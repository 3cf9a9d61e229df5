"""Changes of JSON as somebody who means harm, or a slip, would make them."""

from __future__ import annotations

import copy
import random
from typing import Any

_STRANGE = [None, True, -1, 0, 1, 7, 2**31, 2**63, -(2**63), 1.5, 1e308, "", "x", "INT", "CalcExec@1", "Call",
            [], [[]], {}, {"node": "Call"},
            {"$enum": "TypeRoot.INT"}, {"$enum": "JoinKind.SEMI"}, {"$decimal": "1e9999999"},
            {"$bytes": "?"}, {"$map": [[1]]}]  # fmt: skip


def mutated(plan: Any, chance: random.Random) -> Any:
    """A copy of a JSON value with one to three things changed."""
    changed = copy.deepcopy(plan)
    for _ in range(chance.randint(1, 3)):
        _change(changed, chance)
    return changed


def _change(plan: Any, chance: random.Random) -> None:
    places = list(_places(plan))
    holder, key = chance.choice(places)
    match chance.randrange(8):
        case 0 | 1 | 2:
            holder[key] = copy.deepcopy(chance.choice(_STRANGE))
        case 3 | 4:
            other, at = chance.choice(places)
            holder[key] = copy.deepcopy(other[at])
        case 5:
            del holder[key]
        case 6 if isinstance(holder, dict):
            holder[chance.choice(["colour", "ttl", "keys", "node", "span"])] = chance.choice(_STRANGE)
        case _ if isinstance(holder[key], int) and not isinstance(holder[key], bool):
            holder[key] += chance.choice([-1, 1, 2**40])
        case _ if isinstance(holder[key], list) and holder[key]:
            holder[key] = holder[key] + holder[key][-1:]
        case _:
            holder[key] = [holder[key]]


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)
