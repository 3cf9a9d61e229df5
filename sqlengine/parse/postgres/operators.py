"""PostgreSQL's operators by precedence: * / %, then + and -, then any other operator, then comparisons."""

from __future__ import annotations

from sqlglot import exp

from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.postgres.definitions import DefinitionGrammar
from sqlengine.parse.postgres.output_names import NO_NAME, named

__all__ = ["OperatorGrammar", "operator_call"]

_TERMS = {"+": "PG_ADD", "-": "PG_SUBTRACT"}
_FACTORS: dict[str, type[exp.Expr]] = {"*": exp.Mul, "%": exp.Mod}
_OTHERS = {
    "||": "PG_CONCAT",
    "->": "PG_JSONB_GET",
    "->>": "PG_JSONB_GET_TEXT",
    "#>": "PG_JSONB_PATH",
    "#>>": "PG_JSONB_PATH_TEXT",
    "#-": "PG_JSONB_WITHOUT_PATH",
    "@>": "PG_CONTAINS",
    "<@": "PG_CONTAINED",
    "@?": "PG_JSONB_PATH_FINDS",
    "@@": "PG_JSONB_PATH_IS",
    "^@": "STARTSWITH",
    "?": "PG_JSONB_HAS",
    "?|": "PG_JSONB_HAS_ANY",
    "?&": "PG_JSONB_HAS_ALL",
    "&": "PG_BIT_AND",
    "|": "PG_BIT_OR",
    "#": "PG_BIT_XOR",
    "<<": "PG_SHIFT_LEFT",
    "&&": "PG_OVERLAP",
}
"""PostgreSQL's "any other operator": tighter than comparisons, looser than + and -."""
_BEFORE = {"~": "PG_BIT_NOT", "@": "ABS", "|/": "SQRT", "||/": "PG_CBRT"}
"""The same before an operand."""


class OperatorGrammar(DefinitionGrammar):
    """Reads operators between values."""

    def additive(self) -> exp.Expr:
        start = self.token
        left = self._other_operand()
        while (name := self._other_operator()) is not None:
            left = self.place(operator_call(name, left, self._other_operand()), start)
        return left

    def _other_operator(self) -> str | None:
        """Steps over an operator. `>>` is two tokens, because it ends types as well."""
        if self.at(">", ">") and self.peek().start == self.token.end:
            self.advance()
            self.advance()
            return "PG_SHIFT_RIGHT"
        name = _OTHERS.get(self.token.upper)
        if name is not None:
            self.advance()
        return name

    def _other_operand(self) -> exp.Expr:
        start = self.token
        name = _BEFORE.get(start.upper)
        if name is None:
            return self._sum()
        self.advance()
        return self.place(operator_call(name, self._other_operand()), start)

    def _sum(self) -> exp.Expr:
        start = self.token
        left = self._multiplicative()
        while (name := _TERMS.get(self.token.upper)) is not None:
            self.advance()
            left = self.place(operator_call(name, left, self._multiplicative()), start)
        return left

    def _multiplicative(self) -> exp.Expr:
        start = self.token
        left = self._power()
        while self.at_any(*_FACTORS, "/"):
            word = self.advance().upper
            right = self._power()
            made = (
                operator_call("PG_DIVIDE", left, right) if word == "/" else _FACTORS[word](this=left, expression=right)
            )
            left = self.place(made, start)
        return left


def operator_call(name: str, *arguments: exp.Expr) -> FunctionCall:
    """A call in the place of an operator, whose column has no name."""
    made = FunctionCall(this=name, expressions=list(arguments))
    return named(made, NO_NAME, weak=True)  # type: ignore[return-value]
