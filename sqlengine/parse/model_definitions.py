"""CREATE MODEL: its columns have types, so it is read here and not by the grammar of `utility`."""

from __future__ import annotations

from sqlengine.parse.ddl_nodes import PhysicalColumn
from sqlengine.parse.session_nodes import CreateModel
from sqlengine.parse.table_definitions import TableGrammar

__all__ = ["read_create_model"]


def read_create_model(grammar: TableGrammar, *, temporary: bool) -> CreateModel:
    """From after the word MODEL on."""
    if_not_exists = grammar.match("IF", "NOT", "EXISTS")
    name = grammar.object_name("the name of the model")
    inputs = _columns(grammar) if grammar.match("INPUT") else ()
    outputs = _columns(grammar) if grammar.match("OUTPUT") else ()
    comment = grammar.comment()
    options = grammar.with_options()
    at = grammar.token
    if grammar.match("AS"):
        grammar.refuse(
            "a model is not made from a query",
            at,
            "train it outside, save it, and name its file: WITH ('provider' = 'onnx', 'path' = 'model.onnx')",
        )
    return CreateModel(name, inputs, outputs, comment, options, temporary, if_not_exists)


def _columns(grammar: TableGrammar) -> tuple[PhysicalColumn, ...]:
    """`(name type [COMMENT 'c'], ..)`."""
    grammar.expect("(")
    found = [_column(grammar)]
    while grammar.match(","):
        found.append(_column(grammar))
    grammar.expect(")")
    return tuple(found)


def _column(grammar: TableGrammar) -> PhysicalColumn:
    start = grammar.token
    name = grammar.name("a column name")
    at = grammar.token
    type_ = grammar.data_type()
    type_span = grammar.span_from(at)
    return PhysicalColumn(name, type_, type_span, comment=grammar.comment(), span=grammar.span_from(start))
