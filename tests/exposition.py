"""Reads the text format of Prometheus, strictly: for tests of what writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Family", "parse"]

Labels = tuple[tuple[str, str], ...]

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? ([-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf)|NaN)")
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


@dataclass
class Family:
    """A metric with its samples by name and labels."""

    kind: str
    help: str
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Family]:
    """The metrics of a text by name. Raises ValueError for what the format forbids: a metric in two places, a sample
    twice or without a type, labels that are not quoted, buckets that are not cumulative or have no +Inf."""
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no end")
    found: dict[str, Family] = {}
    at, helped = "", ("", "")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            helped = name, words
        elif line.startswith("# TYPE "):
            at, kind = line[7:].split(" ")
            if at in found or helped[0] != at or kind not in _SUFFIXES:
                raise ValueError(line)
            found[at] = Family(kind, helped[1])
        else:
            match = _SAMPLE.fullmatch(line)
            if match is None or not at or match[1] not in [at + suffix for suffix in _SUFFIXES[found[at].kind]]:
                raise ValueError(line)
            key = match[1], _labels(match[2] or "", line)
            if key in found[at].samples:
                raise ValueError(f"twice: {line}")
            found[at].samples[key] = float(match[3])
    for name, family in found.items():
        if family.kind == "histogram":
            _check_buckets(name, family)
    return found


def _labels(text: str, line: str) -> Labels:
    labels, position = [], 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None:
            raise ValueError(line)
        value = re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), match[2])
        labels.append((match[1], value))
        position = match.end()
    if len({name for name, _ in labels}) < len(labels):
        raise ValueError(f"a label twice: {line}")
    return tuple(labels)


def _check_buckets(name: str, family: Family) -> None:
    series: dict[Labels, list[tuple[float, float]]] = {}
    for (of, labels), value in family.samples.items():
        if of == f"{name}_bucket":
            bound = dict(labels)["le"]
            rest = tuple(label for label in labels if label[0] != "le")
            series.setdefault(rest, []).append((float(bound.replace("+Inf", "inf")), value))
    for rest, buckets in series.items():
        counts = [count for _, count in buckets]
        if buckets != sorted(buckets) or counts != sorted(counts) or buckets[-1][0] != float("inf"):
            raise ValueError(f"buckets of {name}{rest}")
        if family.samples[f"{name}_count", rest] != counts[-1] or (f"{name}_sum", rest) not in family.samples:
            raise ValueError(f"count of {name}{rest}")
