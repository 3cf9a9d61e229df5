"""What all logical nodes are: frozen, with inputs and columns."""

from __future__ import annotations

from typing import Self

from runtime.core.node import Node
from runtime.expr.nodes import Column
from runtime.plan.nodes import JoinKind

__all__ = ["Binary", "LogicalNode", "Several", "Unary", "joined_columns", "with_nullable_columns"]


class LogicalNode(Node):
    """Base of all logical nodes."""

    __slots__ = ()

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return ()

    @property
    def columns(self) -> tuple[Column, ...]:
        raise NotImplementedError

    def with_inputs(self, *inputs: LogicalNode) -> Self:
        if inputs:
            raise TypeError(f"{type(self).__name__} has no inputs")
        return self


class Unary(LogicalNode):
    """A node with one input that passes the input's columns unless it says otherwise."""

    __slots__ = ()
    input: LogicalNode

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return (self.input,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    def with_inputs(self, *inputs: LogicalNode) -> Self:
        (source,) = inputs
        return self if source is self.input else self.with_(input=source)


class Binary(LogicalNode):
    """A node with a left and a right input."""

    __slots__ = ()
    left: LogicalNode
    right: LogicalNode

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return (self.left, self.right)

    def with_inputs(self, *inputs: LogicalNode) -> Self:
        left, right = inputs
        return self if left is self.left and right is self.right else self.with_(left=left, right=right)


class Several(LogicalNode):
    """A node with any number of inputs, whose columns are new."""

    __slots__ = ()
    parts: tuple[LogicalNode, ...]
    produced: tuple[Column, ...]

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return self.parts

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.produced

    def with_inputs(self, *inputs: LogicalNode) -> Self:
        return self if all(a is b for a, b in zip(inputs, self.parts, strict=True)) else self.with_(parts=inputs)


def with_nullable_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The same columns as they come out of the padded side of an outer join."""
    return tuple(c.with_type(c.type.with_nullable(True)) for c in columns)


def joined_columns(kind: JoinKind, left: tuple[Column, ...], right: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns of a join: those of a padded side become nullable; SEMI and ANTI give left columns."""
    if kind.left_only:
        return left
    return (with_nullable_columns(left) if kind.keeps_right else left) + (
        with_nullable_columns(right) if kind.keeps_left else right
    )
