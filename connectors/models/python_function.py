"""The provider `python`: a function that the program has registered, or CREATE FUNCTION has named."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import text_option
from runtime.core.types import TypeRoot
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.expr.columns import as_array
from runtime.spi.model import ModelProvider, ModelRequest

__all__ = ["PYTHON"]

FUNCTION = text_option("function", "", "the name of a registered scalar function; a ROW that it gives is all outputs")


class FunctionModel:
    """The function over all rows of a batch, in one call if it takes whole columns."""

    def __init__(self, request: ModelRequest) -> None:
        call = request.call(_options(request).required(FUNCTION))
        count = len(request.outputs)
        self._rows = call.type.root is TypeRoot.ROW and not (
            count == 1 and request.outputs[0].type.root is TypeRoot.ROW
        )
        given = len(call.type.fields) if self._rows else 1
        if given != count:
            raise OptionError(
                f"the function gives {given} value{'' if given == 1 else 's'}, and {count} are declared as OUTPUT",
                code="E1451",
                hint=f"it gives {call.type.with_nullable(True)}: declare OUTPUT so, or have the function give a ROW",
            )
        self._type = call.type
        self._evaluator = Evaluator((call,), request.functions)
        self._time_zone = request.time_zone

    def predict(self, features: pa.RecordBatch) -> Sequence[pa.Array]:
        (value,) = self._evaluator.evaluate(features, BatchContext(features.num_rows, self._time_zone))
        array = as_array(value, features.num_rows, self._type.arrow)
        return array.flatten() if self._rows else [array]


def _options(request: ModelRequest) -> TableOptions:
    return TableOptions(request.options, "model provider 'python'", (FUNCTION,))


PYTHON = ModelProvider(
    name="python",
    document="a function in Python that is registered in the session",
    create=FunctionModel,
    options=(FUNCTION,),
    check=lambda request: _options(request).required(FUNCTION),
)
