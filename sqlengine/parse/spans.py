"""Where in the text a tree was read from."""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import Span

__all__ = ["identifiers", "placed_at", "span_of"]


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


def placed_at(tree: exp.Expr, span: Span | None) -> exp.Expr:
    """A copy of a tree that was read from another text (the definition of a view), as if all of it stood at one place of
    this text; the tree itself when that place is not known."""
    if span is None:
        return tree
    moved = tree.copy()
    for part in moved.walk():
        if part.meta_get("start") is not None:
            part.meta.update(start=span.start, end=span.end - 1)
    return moved


def identifiers(tree: exp.Expr) -> frozenset[str]:
    """All names that an expression mentions: columns, tables and fields alike."""
    return frozenset(identifier.name for identifier in tree.find_all(exp.Identifier))
