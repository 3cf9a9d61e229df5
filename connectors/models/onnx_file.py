"""The provider `onnx`: a network in a file of the ONNX format, run by onnxruntime on the processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.models.files import MODEL_PATH, library, loaded, model_file
from connectors.models.matrices import columns_of, matrix_of, output_columns
from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import int_option
from runtime.spi.model import ModelProvider, ModelRequest

__all__ = ["ONNX"]

THREADS = int_option("threads", 1, "how many threads one call of the network may use")
_OPTIONS = (MODEL_PATH, THREADS)
_TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": object,
}


class NetworkModel:
    """A network that is run for all rows of a batch at once.

    It takes the declared inputs by their names if it has inputs of all of these; a network with one input takes all of
    them side by side.
    """

    def __init__(self, request: ModelRequest) -> None:
        options = _options(request)
        runtime = library("onnxruntime", "onnx")
        place = model_file(options.required(MODEL_PATH))
        threads = options.get(THREADS)
        self._session = loaded(place, ("onnx", threads), lambda: _open(runtime, place, threads))
        wanted = self._session.get_inputs()
        names = request.inputs.names
        self._by_name = {node.name for node in wanted} == set(names)
        if not self._by_name and len(wanted) != 1:
            raise OptionError(
                f"the network has the inputs {', '.join(n.name for n in wanted)}, and the model {', '.join(names)}",
                code="E1451",
                hint="name the columns of INPUT as the inputs of the network",
            )
        for node in wanted:
            if node.type not in _TYPES:
                raise OptionError(
                    f"the input {node.name} of the network is a {node.type}",
                    code="E1451",
                    hint="inputs are tensors of numbers or texts",
                )
        self._wanted = [(node.name, _TYPES[node.type], len(node.shape)) for node in wanted]
        given = [node.name for node in self._session.get_outputs()]
        declared = request.outputs.names
        self._results = list(declared) if set(declared) <= set(given) else given[: len(declared)]
        self._outputs = request.outputs

    def predict(self, features: pa.RecordBatch) -> Sequence[pa.Array]:
        if not features.num_rows:
            return [pa.nulls(0, f.type.arrow) for f in self._outputs]
        feed = {}
        for name, type_, rank in self._wanted:
            matrix = matrix_of(features.column(name)) if self._by_name else columns_of(features)
            tensor = np.ascontiguousarray(matrix.astype(type_, copy=False))
            feed[name] = tensor[:, 0] if rank == 1 else tensor
        return output_columns(self._session.run(self._results, feed), self._outputs)


def _open(runtime: Any, place: str, threads: int) -> Any:
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    return runtime.InferenceSession(place, settings, providers=["CPUExecutionProvider"])


def _options(request: ModelRequest) -> TableOptions:
    return TableOptions(request.options, "model provider 'onnx'", _OPTIONS)


ONNX = ModelProvider(
    name="onnx",
    document="a network in a file of the ONNX format",
    create=NetworkModel,
    options=_OPTIONS,
    check=lambda request: _options(request).required(MODEL_PATH),
)
