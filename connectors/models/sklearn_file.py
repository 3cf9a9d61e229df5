"""The provider `sklearn`: an estimator of scikit-learn in a file of skops, or in a pickle.

A pickle runs whatever code it holds when it is read. So one is read only where the session's option
`sqlengine.models.allow-pickle` says so: the definition of a model cannot. A file of skops is data; classes in it that
are not scikit-learn's own are loaded only if `sqlengine.models.trusted-types` names them.
"""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.models.files import MODEL_PATH, library, loaded, model_file
from connectors.models.matrices import columns_of, output_columns
from connectors.models.options import ALLOW_PICKLE, TRUSTED_TYPES
from connectors.options import TableOptions
from runtime.core.errors import ConnectorError, OptionError
from runtime.core.options import text_option
from runtime.spi.model import ModelProvider, ModelRequest

__all__ = ["SKLEARN"]

METHOD = text_option(
    "method",
    "predict",
    "what is called: 'predict', 'predict_proba', 'decision_function', 'transform' or 'score_samples'",
    ("predict", "predict_proba", "decision_function", "transform", "score_samples"),
)
SHAPE = text_option(
    "input-shape",
    "table",
    "what the estimator takes: a 'table' of features, or the one 'column' (texts for a vectorizer)",
    ("table", "column"),
)
_OPTIONS = (MODEL_PATH, METHOD, SHAPE)


class EstimatorModel:
    """An estimator that is asked for all rows of a batch in one call."""

    def __init__(self, request: ModelRequest) -> None:
        options = _options(request)
        library("sklearn", "sklearn")
        place = model_file(options.required(MODEL_PATH))
        trusted = tuple(t.strip() for t in request.environment.get(TRUSTED_TYPES).split(",") if t.strip())
        pickles = request.environment.get(ALLOW_PICKLE)
        estimator = loaded(place, ("sklearn", trusted, pickles), lambda: _load(place, trusted, pickles))
        method = options.get(METHOD)
        call = getattr(estimator, method, None)
        if call is None:
            raise OptionError(
                f"{type(estimator).__name__} has no method '{method}'",
                code="E1500",
                hint="set 'method' to what the estimator has: "
                + ", ".join(m for m in METHOD.choices if hasattr(estimator, m)),
            )
        self._call: Callable[[Any], Any] = call
        self._single = options.get(SHAPE) == "column"
        if self._single and len(request.inputs) != 1:
            raise OptionError(
                "a model of 'input-shape' = 'column' has one INPUT",
                code="E1451",
                hint="leave the option out, or declare one",
            )
        self._outputs = request.outputs
        self._lock = threading.Lock()

    def predict(self, features: pa.RecordBatch) -> Sequence[pa.Array]:
        given: Any = features.column(0).to_numpy(zero_copy_only=False) if self._single else columns_of(features)
        with self._lock, warnings.catch_warnings():
            # Columns go by position: that they have no names is nothing to tell.
            warnings.simplefilter("ignore")
            result = self._call(given)
        return output_columns([result.toarray() if hasattr(result, "toarray") else np.asarray(result)], self._outputs)


def _load(place: str, trusted: Sequence[str], pickles: bool) -> Any:
    with open(place, "rb") as file:
        is_skops = file.read(2) == b"PK"
        if not is_skops:
            if not pickles:
                raise ConnectorError(
                    f"{place} is a pickle, which runs any code when it is read",
                    code="E3141",
                    hint="save the model with skops.io.dump; if you trust the file, SET 'sqlengine.models.allow-pickle' = 'true'",
                )
            file.seek(0)
            return pickle.load(file)
    skops = library("skops.io", "sklearn")
    unknown = [name for name in skops.get_untrusted_types(file=place) if name not in trusted]
    if unknown:
        raise ConnectorError(
            f"{place} holds classes that are not scikit-learn's: {', '.join(unknown)}",
            code="E3141",
            hint=f"if you trust them, SET 'sqlengine.models.trusted-types' = '{','.join([*trusted, *unknown])}'",
        )
    return skops.load(place, trusted=list(trusted))


def _options(request: ModelRequest) -> TableOptions:
    return TableOptions(request.options, "model provider 'sklearn'", _OPTIONS)


SKLEARN = ModelProvider(
    name="sklearn",
    document="an estimator of scikit-learn in a file that skops has written, or in a pickle",
    create=EstimatorModel,
    options=_OPTIONS,
    check=lambda request: _options(request).required(MODEL_PATH),
)
