"""Where in the text a tree was read from."""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import Span

__all__ = ["span_of"]


def span_of(tree: exp.Expr | None) -> Span | None:
    """The place of a tree in the whole script, or None for a tree that was not read from text.

    Every tree of the parser knows its place; one that was built later is as wide as the parts of it that were read.
    """
    if tree is None:
        return None
    start, end = tree.meta_get("start"), tree.meta_get("end")
    if start is not None and end is not None:
        return Span(start, end + 1)
    parts = [span for span in map(span_of, tree.iter_expressions()) if span is not None]
    if not parts:
        return None
    return Span(min(p.start for p in parts), max(p.end for p in parts))


def identifiers(tree: exp.Expr) -> frozenset[str]:
    """All names that an expression mentions: columns, tables and fields alike."""
    return frozenset(identifier.name for identifier in tree.find_all(exp.Identifier))
