"""Calls of functions: the ordinary shape, the functions with words between their arguments, and what may follow a call.

All calls come out as `FunctionCall` (see `nodes`): the words of `EXTRACT(DAY FROM x)` and its like are read here and
become plain arguments in a fixed order, so that nobody behind the parser sees two spellings of one call.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from sqlglot import exp

from sqlengine.parse.lexer import WORD, Token
from sqlengine.parse.literals import TIME_UNITS, LiteralGrammar
from sqlengine.parse.nodes import DefaultArg, Descriptor, FunctionCall, JsonFunction, ModelArg, NamedArg, TableArg

__all__ = ["FunctionGrammar"]

_JSON_BEHAVIOURS = ("NULL", "ERROR", "TRUE", "FALSE", "UNKNOWN")


class FunctionGrammar(LiteralGrammar):
    """Reads calls, from the opening parenthesis on."""

    @abstractmethod
    def expression(self) -> exp.Expr:
        """Any expression."""

    @abstractmethod
    def additive(self) -> exp.Expr:
        """An expression without comparisons and truth operators."""

    @abstractmethod
    def at_query(self) -> bool:
        """Whether a query starts here."""

    @abstractmethod
    def subquery(self) -> exp.Subquery:
        """A query in parentheses."""

    @abstractmethod
    def table_name(self) -> exp.Table:
        """The name of a table."""

    @abstractmethod
    def order_by(self) -> exp.Order | None:
        """An ORDER BY clause, if one stands here."""

    @abstractmethod
    def over(self, call: exp.Expr, start: Token) -> exp.Expr:
        """The window after OVER."""

    def call(self, name: exp.Identifier, qualifier: list[exp.Identifier], start: Token) -> exp.Expr:
        """A call whose name is read and whose parenthesis stands here, with FILTER, OVER and the like after it."""
        special = None if name.args["quoted"] or qualifier else _SPECIAL.get(name.name.upper())
        self.expect("(")
        tree = special(self, name.name) if special else self._plain_call(name.name)
        nulls = self.match_any("IGNORE", "RESPECT")
        if nulls:
            self.expect("NULLS")
        self.expect(")")
        if qualifier:
            tree.set("qualifier", qualifier)
        self.place(tree, start)
        if nulls:
            treatment = exp.IgnoreNulls if nulls == "IGNORE" else exp.RespectNulls
            return self._after_call(self.place(treatment(this=tree), start), start)
        return self._after_call(tree, start)

    def argument(self) -> exp.Expr:
        """One argument: `name => value`, a relation, a descriptor, a model, DEFAULT or an expression."""
        start = self.token
        if self.peek().upper == "=>":
            name = self.identifier(reserved=True)
            self.expect("=>")
            return self.place(NamedArg(this=name, expression=self.argument()), start)
        if start.upper == "TABLE":
            return self._table_argument()
        if start.upper == "*":
            self.advance()
            return self.place(exp.Star(), start)
        if start.upper == "DEFAULT" and self.peek().upper in (",", ")"):
            self.advance()
            return self.place(DefaultArg(), start)
        if self.at("DESCRIPTOR", "("):
            self.advance()
            self.advance()
            columns = self.comma_separated(lambda: self.identifier("a column name"))
            self.expect(")")
            return self.place(Descriptor(expressions=columns), start)
        if start.upper == "MODEL" and self.peek().kind is WORD:
            self.advance()
            return self.place(ModelArg(this=self.table_name()), start)
        value = self.expression()
        if isinstance(value, exp.Subquery) and self.at_any("PARTITION", "ORDER"):
            return self._partitioned(value, start)
        return value

    def comma_separated(self, read: Callable[[], exp.Expr]) -> list[exp.Expr]:
        """One or more of something, with commas between."""
        found = [read()]
        while self.match(","):
            found.append(read())
        return found

    def _plain_call(self, name: str) -> FunctionCall:
        tree = FunctionCall(this=name, expressions=self._arguments())
        order = self.order_by() if tree.expressions else None
        if order is not None:
            tree.set("order", order)
        return tree

    def _arguments(self) -> list[exp.Expr]:
        if self.at(")"):
            return []
        start = self.token
        distinct = self.match("DISTINCT")
        if not distinct:
            self.match("ALL")
        arguments = self.comma_separated(self.argument)
        return [self.place(exp.Distinct(expressions=arguments), start)] if distinct else arguments

    # Relations as arguments

    def _table_argument(self) -> exp.Expr:
        start = self.expect("TABLE")
        relation = self.subquery() if self.at("(") else self.table_name()
        return self._partitioned(relation, start)

    def _partitioned(self, relation: exp.Expr, start: Token) -> TableArg:
        keys: list[exp.Expr] = []
        if self.match("PARTITION", "BY"):
            if self.match("("):
                keys = self.comma_separated(self.expression)
                self.expect(")")
            else:
                keys = [self.expression()]
                while self.at(",") and self._plain_column_follows():
                    self.advance()
                    keys.append(self.expression())
        order = self._argument_order()
        return self.place(TableArg(this=relation, partition_by=keys, order=order), start)

    def _argument_order(self) -> exp.Order | None:
        """ORDER BY of a relation: one column, or several in parentheses."""
        if not self.at("ORDER", "BY"):
            return None
        if self.peek(2).upper != "(":
            start = self.expect("ORDER", "BY")
            return self.place(exp.Order(expressions=[self.sort_item()]), start)
        start = self.token
        self.expect("ORDER", "BY", "(")
        items = self.comma_separated(self.sort_item)
        self.expect(")")
        return self.place(exp.Order(expressions=items), start)

    def _plain_column_follows(self) -> bool:
        """Whether the comma here is followed by one more partition column rather than by the next argument."""
        return self.peek().kind is WORD and self.peek(2).upper in (",", ")", "ORDER")

    def sort_item(self) -> exp.Ordered:
        """`expression [ASC|DESC] [NULLS FIRST|LAST]`."""
        start = self.token
        this = self.expression()
        descending = self.match_any("ASC", "DESC") == "DESC"
        nulls_first = None
        if self.match("NULLS"):
            nulls_first = self.expect_any("FIRST", "LAST") == "FIRST"
        return self.place(exp.Ordered(this=this, desc=descending, nulls_first=nulls_first), start)

    # After the call

    def _after_call(self, tree: exp.Expr, start: Token) -> exp.Expr:
        if self.match("WITHIN", "GROUP"):
            self.expect("(")
            order = self.order_by()
            if order is None:
                self.fail("ORDER BY")
            self.expect(")")
            tree = self.place(exp.WithinGroup(this=tree, expression=order), start)
        tree = self._null_treatment(tree, start)
        if self.at("FILTER", "("):
            self.advance()
            self.advance()
            where = self.expect("WHERE")
            condition = self.place(exp.Where(this=self.expression()), where)
            self.expect(")")
            tree = self.place(exp.Filter(this=tree, expression=condition), start)
        tree = self._null_treatment(tree, start)
        return self.over(tree, start) if self.at("OVER") else tree

    def _null_treatment(self, tree: exp.Expr, start: Token) -> exp.Expr:
        if self.match("IGNORE", "NULLS"):
            return self.place(exp.IgnoreNulls(this=tree), start)
        if self.match("RESPECT", "NULLS"):
            return self.place(exp.RespectNulls(this=tree), start)
        return tree

    # Functions with words between their arguments

    def _unit(self) -> exp.Var:
        """A unit of time as a Var, singular and upper case."""
        token = self.token
        word = token.upper.removeprefix("SQL_TSI_")
        if word not in TIME_UNITS and word.removesuffix("S") in TIME_UNITS:
            word = word.removesuffix("S")
        if word not in TIME_UNITS:
            self.fail("a unit of time (YEAR, MONTH, DAY, HOUR, ...)")
        self.advance()
        return self.place(exp.Var(this=word), token)

    def _extract(self, name: str) -> FunctionCall:
        unit = self._unit()
        self.expect("FROM")
        return FunctionCall(this=name, expressions=[unit, self.expression()])

    def _round_to(self, name: str) -> FunctionCall:
        arguments = self._arguments()
        if len(arguments) == 1 and self.match("TO"):
            arguments.append(self._unit())
        return FunctionCall(this=name, expressions=arguments)

    def _unit_first(self, name: str) -> FunctionCall:
        arguments: list[exp.Expr] = [self._unit()]
        while self.match(","):
            arguments.append(self.expression())
        return FunctionCall(this=name, expressions=arguments)

    def _trim(self, name: str) -> FunctionCall:
        start = self.token
        side = self.match_any("BOTH", "LEADING", "TRAILING")
        which = self.place(exp.Var(this=side or "BOTH"), start, start.end if side else start.start)
        if side and self.match("FROM"):
            blank = self.place(exp.Literal(this=" ", is_string=True), start)
            return FunctionCall(this=name, expressions=[which, blank, self.expression()])
        first = self.argument()
        if self.match("FROM"):
            return FunctionCall(this=name, expressions=[which, first, self.expression()])
        if side:
            self.fail("FROM")
        arguments = [first]
        while self.match(","):
            arguments.append(self.argument())
        return FunctionCall(this=name, expressions=arguments)

    def _position(self, name: str) -> FunctionCall:
        first = self.additive()
        if not self.match("IN"):
            return FunctionCall(this=name, expressions=[first, *self._rest()])
        arguments = [first, self.additive()]
        if self.match("FROM"):
            arguments.append(self.expression())
        return FunctionCall(this=name, expressions=arguments)

    def _substring(self, name: str) -> FunctionCall:
        first = self.argument()
        if self.match("FOR"):
            one = exp.Literal(this="1", is_string=False)
            return FunctionCall(this=name, expressions=[first, one, self.expression()])
        if not self.match("FROM"):
            return FunctionCall(this=name, expressions=[first, *self._rest()])
        arguments = [first, self.expression()]
        if self.match("FOR"):
            arguments.append(self.expression())
        return FunctionCall(this=name, expressions=arguments)

    def _overlay(self, name: str) -> FunctionCall:
        first = self.argument()
        if not self.match("PLACING"):
            return FunctionCall(this=name, expressions=[first, *self._rest()])
        arguments = [first, self.expression()]
        self.expect("FROM")
        arguments.append(self.expression())
        if self.match("FOR"):
            arguments.append(self.expression())
        return FunctionCall(this=name, expressions=arguments)

    def _rest(self) -> list[exp.Expr]:
        return self.comma_separated(self.argument) if self.match(",") else []

    # JSON

    def _json_path(self, name: str) -> JsonFunction:
        """JSON_VALUE, JSON_QUERY and JSON_EXISTS."""
        arguments = [self.expression()]
        self.expect(",")
        arguments.append(self.expression())
        tree = JsonFunction(this=name, expressions=arguments)
        if self.match("RETURNING"):
            tree.set("returning", self.type_spec())
        wrapper = self.match_any("WITHOUT", "WITH")
        if wrapper:
            kind = self.match_any("CONDITIONAL", "UNCONDITIONAL") if wrapper == "WITH" else "WITHOUT"
            self.match("ARRAY")
            self.expect("WRAPPER")
            tree.set("wrapper", kind or "UNCONDITIONAL")
        while not self.at(")"):
            behaviour = self._json_behaviour()
            self.expect("ON")
            when = self.expect_any("EMPTY", "ERROR")
            key = "on_empty" if when == "EMPTY" else "on_error"
            if tree.args.get(key) is not None:
                self.refuse(f"ON {when} is there twice", self.previous)
            tree.set(key, behaviour)
        return tree

    def _json_behaviour(self) -> exp.Expr:
        start = self.token
        if self.match("DEFAULT"):
            return self.expression()
        if self.match("EMPTY"):
            kind = self.expect_any("ARRAY", "OBJECT")
            return self.place(exp.Var(this=f"EMPTY {kind}"), start)
        word = self.match_any(*_JSON_BEHAVIOURS)
        if word is None:
            self.fail("NULL", "ERROR", "DEFAULT", ")")
        return self.place(exp.Var(this=word), start)

    def _on_null(self, tree: JsonFunction) -> bool:
        """`{NULL|ABSENT} ON NULL`, if it stands here."""
        if not (self.at("NULL", "ON", "NULL") or self.at("ABSENT", "ON", "NULL")):
            return False
        tree.set("on_null", self.advance().upper)
        self.expect("ON", "NULL")
        return True

    def _json_object(self, name: str) -> JsonFunction:
        tree = JsonFunction(this=name, expressions=[])
        arguments: list[exp.Expr] = []
        while not self.at(")") and not self._on_null(tree):
            if arguments:
                self.expect(",")
            if self.at("KEY") and self.peek().upper not in ("VALUE", ".", "("):
                self.advance()
            arguments.append(self.expression())
            if not self.match(":"):
                self.expect("VALUE")
            arguments.append(self.expression())
        tree.set("expressions", arguments)
        return tree

    def _json_array(self, name: str) -> JsonFunction:
        tree = JsonFunction(this=name, expressions=[])
        arguments: list[exp.Expr] = []
        while not self.at(")") and not self._on_null(tree):
            if arguments:
                self.expect(",")
            arguments.append(self.expression())
        tree.set("expressions", arguments)
        return tree


_SPECIAL: dict[str, Callable[[FunctionGrammar, str], FunctionCall]] = {
    "EXTRACT": FunctionGrammar._extract,
    "FLOOR": FunctionGrammar._round_to,
    "CEIL": FunctionGrammar._round_to,
    "CEILING": FunctionGrammar._round_to,
    "TIMESTAMPADD": FunctionGrammar._unit_first,
    "TIMESTAMPDIFF": FunctionGrammar._unit_first,
    "TRIM": FunctionGrammar._trim,
    "POSITION": FunctionGrammar._position,
    "SUBSTRING": FunctionGrammar._substring,
    "OVERLAY": FunctionGrammar._overlay,
    "JSON_VALUE": FunctionGrammar._json_path,
    "JSON_QUERY": FunctionGrammar._json_path,
    "JSON_EXISTS": FunctionGrammar._json_path,
    "JSON_OBJECT": FunctionGrammar._json_object,
    "JSON_OBJECTAGG": FunctionGrammar._json_object,
    "JSON_ARRAY": FunctionGrammar._json_array,
    "JSON_ARRAYAGG": FunctionGrammar._json_array,
}
