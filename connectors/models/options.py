"""Options of the session about models: what files of models may do."""

from __future__ import annotations

from runtime.core.options import bool_option, text_option

__all__ = ["ALLOW_PICKLE", "MODEL_OPTIONS", "TRUSTED_TYPES"]

ALLOW_PICKLE = bool_option(
    "sqlengine.models.allow-pickle",
    False,
    "models of scikit-learn may be pickles: files that run any code when they are read",
)
TRUSTED_TYPES = text_option(
    "sqlengine.models.trusted-types",
    "",
    "classes, with commas between, that files of skops may hold beside those of scikit-learn, numpy and scipy",
)
MODEL_OPTIONS = (ALLOW_PICKLE, TRUSTED_TYPES)
