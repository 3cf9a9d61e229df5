"""What the methods of expressions are made of: `Expression` gives these, the families of methods use them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlengine.expression.expression import Expression

__all__ = ["MethodParts", "given"]


class MethodParts:
    """Ways to write SQL around an expression, beside the Python that it is shown as."""

    __slots__ = ()

    @abstractmethod
    def _call(self, name: str, *args: Any, method: str) -> Expression:
        """`NAME(args)`, shown as `args[0].method(args[1:])`."""

    @abstractmethod
    def _property(self, name: str, method: str) -> Expression:
        """`NAME(this)`, shown as `this.method`."""

    @abstractmethod
    def _suffix(self, words: str, method: str) -> Expression:
        """`this words`, shown as `this.method`."""

    @abstractmethod
    def _form(self, method: str, parts: Sequence[Any], *shown: Any, level: int = 99) -> Expression:
        """SQL made of texts and expressions, shown as `this.method(shown)`."""

    @abstractmethod
    def _known(self, sql: str, shown: str, level: int = 99) -> Expression:
        """SQL of its own, shown as a property of this expression."""

    @abstractmethod
    def _of(self, value: Any) -> Expression:
        """An expression as it is, any other value as a literal."""

    @abstractmethod
    def _of_query(self, table: Any) -> Expression:
        """The query of a table."""

    @abstractmethod
    def _sql_text(self) -> str:
        """This expression as SQL."""

    @abstractmethod
    def cast(self, data_type: Any) -> Expression:
        """CAST."""


def given(value: Any) -> tuple[Any, ...]:
    """An optional argument: nothing for None."""
    return () if value is None else (value,)
