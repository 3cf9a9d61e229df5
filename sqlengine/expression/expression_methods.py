"""All methods of expressions, by family, with the names and the arguments of PyFlink.

Functions without a method here are in `sqlengine.functions`, or `call("NAME", ...)`.
"""

from __future__ import annotations

from sqlengine.expression.collection_methods import CollectionMethods
from sqlengine.expression.expression_forms import ExpressionForms
from sqlengine.expression.json_methods import JsonMethods
from sqlengine.expression.number_methods import NumberMethods
from sqlengine.expression.text_methods import TextMethods

__all__ = ["ExpressionMethods"]


class ExpressionMethods(NumberMethods, TextMethods, CollectionMethods, JsonMethods, ExpressionForms):
    """One SQL function or form a method."""

    __slots__ = ()
