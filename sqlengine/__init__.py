"""sqlengine: streaming SQL in a Python process.

from sqlengine import TableEnvironment
"""

from __future__ import annotations

import importlib.util
import pathlib
import signal
import sys

if pathlib.PurePath(sys.argv[0] if sys.argv else "").stem in ("-m", "sqlengine"):
    # The command line is loading: until it takes over, Ctrl-C ends it at once, without a stack trace.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

_HERE = pathlib.Path(__file__).resolve().parent.parent
for _package in ("planner", "runtime", "connectors"):
    _spec = importlib.util.find_spec(_package)
    _found = (
        pathlib.Path(_spec.origin).resolve().parent.parent if _spec is not None and _spec.origin is not None else None
    )
    if _found != _HERE:
        raise ImportError(
            f"sqlengine needs its own package '{_package}' in {_HERE}, but Python finds "
            + (f"another one in {_found}" if _found else "none")
            + "; rename or move what shadows it, or start Python elsewhere"
        )

from runtime.core.errors import SqlEngineError  # noqa: E402
from sqlengine.environment import TableEnvironment  # noqa: E402
from sqlengine.ipython_extension import load_ipython_extension  # noqa: E402, F401
from sqlengine.result import Result, SqlEngineWarning  # noqa: E402
from sqlengine.rows import Row  # noqa: E402
from sqlengine.table_api.constructors import (  # noqa: E402
    and_,
    array,
    call,
    call_sql,
    coalesce,
    col,
    if_then_else,
    lit,
    map_,
    not_,
    null_of,
    or_,
    row,
    unnest,
)
from sqlengine.table_api.data_types import DataTypes, TableSchema  # noqa: E402
from sqlengine.table_api.expression import Expression  # noqa: E402
from sqlengine.table_api.table import Table  # noqa: E402
from sqlengine.table_api.windows import (  # noqa: E402
    CURRENT_RANGE,
    CURRENT_ROW,
    UNBOUNDED_RANGE,
    UNBOUNDED_ROW,
    Cumulate,
    Over,
    Session,
    Slide,
    Tumble,
    row_interval,
)
from sqlengine.udf.declare import (  # noqa: E402
    AggregateFunction,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
    udaf,
    udf,
    udtaf,
    udtf,
)

__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "AggregateFunction",
    "Cumulate",
    "DataTypes",
    "Expression",
    "Over",
    "Result",
    "Row",
    "ScalarFunction",
    "Session",
    "Slide",
    "SqlEngineError",
    "SqlEngineWarning",
    "Table",
    "TableAggregateFunction",
    "TableEnvironment",
    "TableFunction",
    "TableSchema",
    "Tumble",
    "and_",
    "array",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "if_then_else",
    "lit",
    "map_",
    "not_",
    "null_of",
    "or_",
    "row",
    "row_interval",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
    "unnest",
]
__version__ = "0.1.0"
