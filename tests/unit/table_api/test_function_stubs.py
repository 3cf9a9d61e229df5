"""`sqlengine.functions`: every function of SQL, documented, and known to editors."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqlengine
from sqlengine import TableEnvironment, col, functions
from sqlengine.expression.function_docs import function_docs
from sqlengine.parse import parse_expression
from sqlengine.table_api.stubs import stub_text

PACKAGE = Path(sqlengine.__file__).parent


def test_the_stub_file_is_what_the_declarations_say() -> None:
    assert (PACKAGE / "functions.pyi").read_text() == stub_text(), "python -m sqlengine.table_api.stubs writes it"
    assert (PACKAGE / "py.typed").exists()


def test_every_function_is_there_and_is_sql_that_parses() -> None:
    for name, doc in function_docs().items():
        made = getattr(functions, name)
        assert made.__doc__ is not None and made.__doc__.startswith(doc.text[:20])
        plain = [p for p in doc.parameters if not p.variadic]
        args = ["DAY" if p.name == "unit" else col("x") for p in plain]
        parse_expression(made(*args).code.sql)
        assert f"def {name}(" in stub_text()
    assert set(function_docs()) < set(dir(functions))


def test_functions_in_a_query() -> None:
    with TableEnvironment.create() as env:
        table = env.from_elements([("ab", 3)], ["s", "n"])
        made = table.select(
            functions.upper(col("s")),
            functions.if_(col("n") > 2, "big", "small"),
            functions.concat(col("s"), "-", col("s")),
            functions.timestampadd("DAY", 1, functions.to_timestamp("2024-01-01 00:00:00")).cast("STRING"),
            functions.json_object("k", col("n")),
            functions.extract("YEAR", functions.to_date("2024-01-01")),
        )
        assert [tuple(r) for r in made.execute()] == [
            ("AB", "big", "ab-ab", "2024-01-02 00:00:00.000", '{"k":3}', 2024)
        ]
        assert table.select(functions.count_star(), functions.sum(col("n"))).to_arrow().to_pylist()[-1] == {
            "EXPR$0": 1,
            "EXPR$1": 3,
        }


def test_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match='did you mean "upper"'):
        _ = functions.uper
