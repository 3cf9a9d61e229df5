"""PostgreSQL's names of types, and the types that they are here.

Source: PostgreSQL's documentation, "Data Types". `numeric` without digits has any number of them there; here it is
DECIMAL(38, 18), but a CAST to it keeps the digits of its argument (`PG_NUMERIC`).
"""

from __future__ import annotations

from runtime.core import types
from runtime.core.types import DataType

__all__ = ["NUMERIC", "PLAIN", "REFUSED"]

NUMERIC = types.decimal(38, 18)
PLAIN: dict[str, DataType] = {
    "BPCHAR": types.STRING,
    "NAME": types.STRING,
    "REGCLASS": types.STRING,
    "JSON": types.VARIANT,
    "JSONB": types.VARIANT,
}
REFUSED = {
    "MONEY": "use numeric(12, 2)",
    "INET": "use text",
    "CIDR": "use text",
    "XML": "use text",
    "BIT": "use bytea",
    "TSVECTOR": "use text",
    "POINT": "use two columns of double precision",
    "INT4RANGE": "use two columns",
    "TSRANGE": "use two columns",
    "DATERANGE": "use two columns",
    "OID": "use bigint",
}
"""Types that are not there, and what to use."""
