"""The automaton of a pattern, as Flink builds it (NFACompiler).

A state has edges. TAKE maps the row to a variable and goes on to a state for the next row; PROCEED goes on to a state for
the same row. The row passes an edge if the conditions of the variables in `must` hold for it and none of those in
`must_not`: behind a greedy variable stands that its own condition does not hold, so it takes every row that it can and
gives none back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from runtime.kernels.match_walk import FINAL, Automaton
from runtime.plan.pattern import Pattern, PatternVariable

__all__ = ["automaton"]


@dataclass(slots=True)
class _Edge:
    target: int
    variable: int
    must: int = 0
    must_not: int = 0


def automaton(pattern: Pattern) -> Automaton:
    """The automaton of a pattern of at most 63 variables."""
    states: list[list[_Edge]] = [[]]
    sink = FINAL
    for number in reversed(range(len(pattern.variables))):
        sink = _states_of(pattern.variables[number], number, states, sink)
    edges = [edge for state in states for edge in state]
    return Automaton(
        sink,
        sink,
        np.cumsum([0, *(len(state) for state in states)], dtype=np.int64),
        np.array([e.target for e in edges], np.int64),
        np.array([e.variable for e in edges], np.int64),
        np.array([e.must for e in edges], np.uint64),
        np.array([e.must_not for e in edges], np.uint64),
        np.array([_reach(states, s) for s in range(len(states))], np.uint64),
    )


def _states_of(variable: PatternVariable, number: int, states: list[list[_Edge]], sink: int) -> int:
    """Adds the states of a variable before those of the variables that follow it; the first of them."""
    bit = 1 << number
    optional = variable.least == 0
    least, most = max(variable.least, 1), variable.most
    greedy = variable.greedy and not (optional and most == 1) and variable.least != most

    def state(after: int, proceed: int | None) -> int:
        states.append([_Edge(after, number, must=bit)])
        if proceed is not None:
            states[-1].append(_Edge(proceed, -1))
        return len(states) - 1

    if greedy and (most is None or least != most):
        for edge in states[sink]:
            edge.must_not |= bit
    last = sink
    if most is None:
        last = len(states)
        states.append([_Edge(sink, -1), _Edge(last, number, must=bit)])
    else:
        for _ in range(least, most):
            last = state(last, sink)
    for _ in range(least - 1):
        last = state(last, None)
    return state(last, sink if optional else None)


def _reach(states: list[list[_Edge]], state: int) -> int:
    """The bits that a row is asked for in a state: on the edges up to the next TAKE, and from there to the end."""
    found = 0
    waiting = [state]
    while waiting:
        for edge in states[waiting.pop()]:
            found |= edge.must | edge.must_not
            if edge.variable < 0:
                waiting.append(edge.target)
                continue
            behind = [edge.target]
            while behind:
                for further in states[behind.pop()]:
                    if further.variable < 0:
                        found |= further.must | further.must_not
                        behind.append(further.target)
    return found
