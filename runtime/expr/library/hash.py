"""Digests of texts in lower-case hexadecimal digits: MD5, SHA1, SHA2. Constants and columns by DuckDB where it has
them."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.types import char, varchar
from runtime.expr.distinct import map_distinct
from runtime.expr.function import EvalContext, Value
from runtime.expr.library.declare import CHARACTER, WHOLE_, Family

__all__ = ["FAMILY"]

FAMILY = Family("hash")

FAMILY.sql_scalar("MD5", [CHARACTER], char(32), "md5({0})", "The MD5 digest.")
FAMILY.sql_scalar("SHA1", [CHARACTER], char(40), "sha1({0})", "The SHA-1 digest.")
FAMILY.sql_scalar("SHA256", [CHARACTER], char(64), "sha256({0})", "The SHA-256 digest.")


def _declare(name: str, digits: int) -> None:
    @FAMILY.scalar(name, [CHARACTER], char(digits), f"The SHA-{digits * 4} digest.")
    def evaluate(context: EvalContext, text: Value) -> Value:
        return map_distinct(
            lambda t: hashlib.new(name.lower(), t.encode()).hexdigest(), [text], pa.string(), context.num_rows
        )


_declare("SHA224", 56)
_declare("SHA384", 96)
_declare("SHA512", 128)


@FAMILY.scalar(
    "SHA2", [CHARACTER, WHOLE_], varchar(128), "The SHA-2 digest of 224, 256, 384 or 512 bits.", can_fail=True
)
def sha2(context: EvalContext, text: Value, bits: Value) -> Value:
    def digest(given: str, size: int) -> str:
        if size not in (224, 256, 384, 512):
            raise ExpressionError(f"SHA2 has no digest of {size} bits", code="E2002", hint="224, 256, 384 or 512")
        return hashlib.new(f"sha{size}", given.encode()).hexdigest()

    return map_distinct(digest, [text, bits], pa.string(), context.num_rows)
