"""Writes `sqlengine/functions.pyi`, which tells editors of the functions of SQL:

python -m sqlengine.table_api.stubs > sqlengine/functions.pyi
"""

from __future__ import annotations

from sqlengine.expression.function_docs import FunctionDoc, function_docs

__all__ = ["stub_text"]

_HEAD = '''"""The functions of SQL for expressions. Written by `python -m sqlengine.table_api.stubs`."""

from typing import Any

from sqlengine.expression.expression import Expression

Operand = Any
"""An expression, or a Python value that is a literal."""

def count_star() -> Expression:
    """COUNT(*): the number of rows."""

def json_object(*keys_and_values: Operand) -> Expression:
    """JSON_OBJECT: keys and values in turn as a JSON object."""

def json_objectagg(key: Operand, value: Operand) -> Expression:
    """JSON_OBJECTAGG: the keys and values of a group as a JSON object."""
'''


def stub_text() -> str:
    """The whole file."""
    return "\n".join([_HEAD, *(_stub(doc) for doc in function_docs().values())])


def _stub(doc: FunctionDoc) -> str:
    plain = [str(p) for p in doc.parameters if not p.variadic]
    rest = [str(p) for p in doc.parameters if p.variadic]
    parameters = ", ".join([*plain, *(["/"] if plain else []), *rest])
    body = doc.text.replace("\n", "\n    ").replace("    \n", "\n")
    return f'def {doc.python}({parameters}) -> Expression:\n    """{body}\n    """\n'


if __name__ == "__main__":
    print(stub_text(), end="")
