"""Questions to JSON texts as methods of expressions, with the names and the arguments of PyFlink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.core.types import STRING, DataType
from sqlengine.expression.method_parts import MethodParts
from sqlengine.expression.sql_words import (
    JsonExistsOnError,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
)
from sqlengine.values.code import type_sql

if TYPE_CHECKING:
    from sqlengine.expression.expression import Expression

__all__ = ["JsonMethods"]

_VALUE_NULL = JsonValueOnEmptyOrError.NULL
_QUERY_NULL = JsonQueryOnEmptyOrError.NULL


class JsonMethods(MethodParts):
    """IS JSON, JSON_EXISTS, JSON_VALUE, JSON_QUERY and their like."""

    __slots__ = ()

    def is_json(self, json_type: JsonType | str | None = None) -> Expression:
        """IS JSON: whether the text is JSON, or JSON of a kind: 'VALUE', 'SCALAR', 'ARRAY' or 'OBJECT'."""
        words = "IS JSON" if json_type is None else f"IS JSON {json_type.upper()}"
        shown = () if json_type is None else (str(json_type),)
        return self._form("is_json", [self, f" {words}"], *shown, level=4)

    def json_exists(self, path: Any, on_error: JsonExistsOnError | str | None = None) -> Expression:
        """JSON_EXISTS: whether a JSON text has something at a path."""
        at = self._of(path)
        clause = "" if on_error is None else f" {on_error.upper()} ON ERROR"
        return self._form("json_exists", ["JSON_EXISTS(", self, ", ", at, f"{clause})"], at, *_shown(on_error))

    def json_value(
        self,
        path: Any,
        returning_type: DataType | str = STRING,
        on_empty: JsonValueOnEmptyOrError | str = _VALUE_NULL,
        default_on_empty: Any = None,
        on_error: JsonValueOnEmptyOrError | str = _VALUE_NULL,
        default_on_error: Any = None,
    ) -> Expression:
        """JSON_VALUE: a scalar inside a JSON text, as a type; `on_empty` and `on_error` ('NULL', 'ERROR' or 'DEFAULT')
        say what comes where there is none."""
        at = self._of(path)
        spelled = returning_type if isinstance(returning_type, str) else type_sql(returning_type)
        parts: list[Any] = ["JSON_VALUE(", self, ", ", at, "" if spelled == "STRING" else f" RETURNING {spelled}"]
        shown: list[Any] = [at]
        for wanted, default, when in ((on_empty, default_on_empty, "EMPTY"), (on_error, default_on_error, "ERROR")):
            if wanted.upper() == "DEFAULT":
                value = self._of(default)
                parts += [" DEFAULT ", value, f" ON {when}"]
                shown.append(value)
            elif wanted.upper() != "NULL":
                parts.append(f" {wanted.upper()} ON {when}")
        return self._form("json_value", [*parts, ")"], *shown)

    def json_query(
        self,
        path: Any,
        wrapping_behavior: JsonQueryWrapper | str = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError | str = _QUERY_NULL,
        on_error: JsonQueryOnEmptyOrError | str = _QUERY_NULL,
    ) -> Expression:
        """JSON_QUERY: an array or object inside a JSON text; `wrapping_behavior` may put it into an array."""
        at = self._of(path)
        clauses = "" if wrapping_behavior == JsonQueryWrapper.WITHOUT_ARRAY else f" {wrapping_behavior.upper()}"
        for wanted, when in ((on_empty, "EMPTY"), (on_error, "ERROR")):
            clauses += "" if wanted.upper() == "NULL" else f" {wanted.upper().replace('_', ' ')} ON {when}"
        return self._form("json_query", ["JSON_QUERY(", self, ", ", at, f"{clauses})"], at)

    def json_quote(self) -> Expression:
        """JSON_QUOTE: the text as a JSON text, in quotes."""
        return self._call("JSON_QUOTE", self, method="json_quote")

    def json_unquote(self) -> Expression:
        """JSON_UNQUOTE: a JSON text in quotes as the text that it stands for."""
        return self._call("JSON_UNQUOTE", self, method="json_unquote")


def _shown(word: str | None) -> tuple[str, ...]:
    return () if word is None else (str(word),)
