"""What a provider of models implements, for ML_PREDICT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from runtime.core.options import Option, Options
from runtime.core.schema import Schema
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Expr

__all__ = ["Model", "ModelProvider", "ModelRequest"]


class Model(Protocol):
    """A model that is ready to be asked. It may be asked from any thread, by one at a time."""

    def predict(self, features: pa.RecordBatch) -> Sequence[pa.Array | pa.ChunkedArray]:
        """The outputs for some rows: a column for each declared output, of so many rows; values are converted to the
        declared types. The columns of `features` are the declared inputs, in order and of their types; none is NULL.

        Raises ConnectorError for a model that cannot be reached, ExpressionError for rows that it cannot take.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a provider is told of a model.

    `options` are those of WITH without `provider`; `environment` the session's. `call` is the call of a function that is
    registered in the session, by its name, over the inputs (`InputRef`); it raises BindError. `functions` evaluate it.
    """

    name: str
    inputs: Schema
    outputs: Schema
    options: Mapping[str, str] = field(repr=False)
    environment: Options
    call: Callable[[str], Expr]
    functions: FunctionRegistry
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProvider:
    """A provider: its name, one line about it, what makes its models, and the options that WITH takes. `check`: called with
    a model that is declared, raises what can be told without loading anything."""

    name: str
    document: str
    create: Callable[[ModelRequest], Model]
    options: tuple[Option[Any], ...] = ()
    check: Callable[[ModelRequest], object] | None = None
