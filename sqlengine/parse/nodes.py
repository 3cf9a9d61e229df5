"""What the parser hands to the binder: which class of tree comes out for each construct of the language.

Queries and expressions are sqlglot expression trees. The classes are sqlglot's own where one exists, and those of this
module otherwise. Statements are the frozen classes of `statement_nodes`. Nothing is rewritten: every tree says what was
written, and every node knows its place in the text (`spans.span_of`).

Names and literals

  written                               tree (`exp.` unless a class of this module)
  a, t.a, t.r.f, c.d.t.a                Column; `.parts` are the Identifiers, left to right (at most four). What is
                                        table and what is field is for the binder to find out
  a.b.c.d.e (five parts and more)       Dot(Dot(.., Identifier)) over a Column of four parts
  f(x).y, (row).y, a[1].y               Dot(this=expression, expression=Identifier)
  *, t.*, t.r.*, (row).*                Star; Column(this=Star, table=..) with `.parts`; Dot(this=.., expression=Star)
  `quoted`, plain                       Identifier(this=text as written, quoted=bool); case is kept in both
  'text', U&'..', E'..', $$..$$         Literal string, escapes already undone
  12, 1.50, 1e3                         Literal number; `.this` is the text as written
  X'0aff'                               HexString(this="0AFF")
  TRUE, FALSE, UNKNOWN, NULL            Boolean, Boolean, Null, Null (a bare UNKNOWN is a NULL truth value)
  DATE '..', TIME '..', TIMESTAMP '..'  TemporalLiteral(this=text, kind="DATE"|"TIME"|"TIMESTAMP"|"TIMESTAMP_LTZ")
  INTERVAL [-]'1 10:20' DAY(2) TO MINUTE IntervalLiteral(this=text, unit="DAY", to_unit="MINUTE", precision, fraction,
                                        negative); units are singular and upper case, `interval_value()` computes
  INTERVAL '1 day 02:30'                the same with unit="SECOND" or "MONTH"

Operators

  + - * / % || ^, unary - and +         Add Sub Mul Div Mod DPipe Pow, Neg, UnaryPlus
  x ~ p, x ~* p, x !~ p, x !~* p        RegexpLike, RegexpILike, inside Not when negated
  = <> != < <= > >=                     EQ NEQ LT LTE GT GTE
  AND OR NOT, ( x )                     And Or Not, Paren (binary: a AND b AND c is And(And(a, b), c))
  x IS [NOT] NULL / TRUE / FALSE        Is(this, expression=Null|Boolean), inside Not when negated
  x IS [NOT] UNKNOWN                    Is(this, expression=Var("UNKNOWN")), inside Not when negated
  x IS [NOT] DISTINCT FROM y            NullSafeNEQ, with NOT: NullSafeEQ
  x IS [NOT] JSON [VALUE|SCALAR|ARRAY|OBJECT] IsJson(this, kind="VALUE" if not given), inside Not when negated
  x [NOT] LIKE p [ESCAPE c], SIMILAR TO Like, ILike, SimilarTo, in Escape(this=Like, expression=c), inside Not when negated
  x [NOT] BETWEEN [SYMMETRIC] a AND b   Between(this, low, high, symmetric=bool), inside Not when negated
  x [NOT] IN (a, b)                     In(this, expressions=[..]), inside Not when negated
  x [NOT] IN (query)                    In(this, query=Subquery), inside Not when negated
  EXISTS (query), (query), x > ALL (query) Exists(this=query), Subquery(this=query), GT(x, All|Any(this=Subquery))
  x = ANY (array)                       EQ(x, All|Any(this=expression))
  UNNEST(array) in the select list      Anonymous("UNNEST")
  (a, b), ROW(a, b)                     Tuple(expressions), Anonymous("ROW")
  (a - b) DAY TO SECOND                 Difference(this=a, expression=b, unit="DAY", to_unit="SECOND"|None)
  (a, b) OVERLAPS (c, d)                Overlaps(this=Tuple, expression=Tuple); also over ROW(..)
  ARRAY[a, b], MAP[k, v, ..]            Array(expressions), MapConstructor(expressions=[k, v, ..])
  a[1], m['k']                          Bracket(this, expressions=[index]); the index as written, 1-based for arrays
  ?, $1, :name                          ParameterMark(this=1|'name', style='?'|'$'|':')
  CASE [x] WHEN c THEN r .. ELSE e END  Case(this=x|None, ifs=[If(this=c, true=r)], default=e|None)
  CAST(x AS t), x::t, TRY_CAST(x AS t)  Cast(this, to=TypeSpec), TryCast(this, to=TypeSpec); `to.data_type`

Functions: one shape, `FunctionCall`, a subclass of Anonymous: this=name as written, expressions=[arguments]

  f(a, b), cat.db.f(a)                  FunctionCall; `.qualifier` is the tuple of Identifiers before the name
  CURRENT_DATE, LOCALTIME, ..           FunctionCall without arguments
  COUNT(*), f(DISTINCT a, b)            expressions=[Star()]; expressions=[Distinct(expressions=[a, b])]; ALL is dropped
  f(x => 1, y => DEFAULT)               expressions=[NamedArg(this=Identifier, expression=..)], DefaultArg()
  EXTRACT(DAY FROM x)                   FunctionCall("EXTRACT", [Var("DAY"), x])
  FLOOR(x TO HOUR), CEIL(x TO HOUR)     FunctionCall("FLOOR", [x, Var("HOUR")])
  TIMESTAMPADD(HOUR, n, t), TIMESTAMPDIFF FunctionCall(.., [Var("HOUR"), n, t])
  TRIM([BOTH|LEADING|TRAILING] [c] FROM s) FunctionCall("TRIM", [Var("BOTH"), c|Literal ' ', s]); TRIM(s): one argument
  POSITION(a IN b [FROM n])             FunctionCall("POSITION", [a, b, n])
  SUBSTRING(s FROM a FOR b)             FunctionCall("SUBSTRING", [s, a, b])
  OVERLAY(s PLACING r FROM a FOR b)     FunctionCall("OVERLAY", [s, r, a, b])
  JSON_VALUE, JSON_QUERY, JSON_EXISTS,  JsonFunction(this=name, expressions, returning=TypeSpec, wrapper, on_null,
  JSON_OBJECT, JSON_ARRAY, JSON_OBJECTAGG, on_empty, on_error); JSON_OBJECT's expressions are [k1, v1, k2, v2, ..]
  JSON_ARRAYAGG
  agg(x) FILTER (WHERE c)               Filter(this=call, expression=Where(this=c))
  agg(x) WITHIN GROUP (ORDER BY ..)     WithinGroup(this=call, expression=Order), inside Filter
  f(x) IGNORE NULLS, RESPECT NULLS      IgnoreNulls(this=call), RespectNulls(this=call), inside Filter and Window
  f(x) OVER (w PARTITION BY .. ORDER BY ..) Window(this=call|Filter, alias=None, first=Identifier w|None,
                                        partition_by=[..], order=Order|None, spec=WindowSpec|None)
  f(x) OVER w                           Window(this=.., alias=Identifier)
  {ROWS|RANGE} [BETWEEN] a [AND b]      WindowSpec(kind, start, start_side, end, end_side): start and end are
                                        "UNBOUNDED", "CURRENT ROW" or an expression, sides "PRECEDING"|"FOLLOWING"|None;
                                        end is None without BETWEEN (it means CURRENT ROW)

Queries

  SELECT                                Select(hint, distinct=Distinct|None, expressions, from_=From(this=relation),
                                        joins=[Join], where=Where, group=Group, having=Having, windows=[Window(this=w,
                                        first, partition_by, order, spec)], qualify=Qualify, order=Order, limit=Limit,
                                        offset=Offset, with_=With); `expressions` hold Alias(this, alias=Identifier) too
  VALUES (1, 'a'), (2, 'b')             Values(expressions=[Tuple, ..]); also carries order, limit, offset
  a UNION [ALL] b, EXCEPT, INTERSECT    Union, Except, Intersect(this, expression, distinct=bool); carries with_, order,
                                        limit, offset; INTERSECT binds tighter
  (query) as operand or with ORDER BY   Subquery(this=query), which may carry order, limit, offset
  TABLE t                               Select(expressions=[Star], from_=From(Table)) as the standard defines it
  WITH [RECURSIVE] a (x) AS (query)     With(expressions=[CTE(this=query, alias=TableAlias(this, columns), search, cycle)],
                                        recursive)
  SEARCH DEPTH FIRST BY a SET s         SearchClause(kind="DEPTH"|"BREADTH", expressions=[Identifier], sequence=Identifier)
  CYCLE a SET m TO x DEFAULT y USING p  CycleClause(expressions=[Identifier], mark, value=x|None, default=y|None, path)
  GROUP BY a, (b, c), (), CUBE(..)      Group(expressions=[..]) in order: expressions, Tuple, Cube, Rollup, GroupingSets
                                        of expressions and Tuples (Tuple() is the empty set)
  GROUP BY ALL, GROUP BY DISTINCT       Group(all=True) without expressions; refused
  DISTINCT ON (a, b)                    Distinct(on=Tuple)
  * EXCLUDE (a, b), t.* EXCEPT (a)      Star(except_=[Identifier]), in a Column or Dot as any star
  ORDER BY a DESC NULLS LAST            Order(expressions=[Ordered(this, desc=bool, nulls_first=bool|None)])
  LIMIT n, FETCH FIRST n ROWS ONLY      Limit(expression); LIMIT ALL leaves none; FETCH FIRST ROW ONLY is 1
  OFFSET n [ROWS]                       Offset(expression)
  /*+ STATE_TTL('a'='1d'), BROADCAST(t) */ Hint(expressions=[HintCall(this=name, options=[..], expressions=[names])])

Relations (what stands in From.this and Join.this); `alias` is TableAlias(this=Identifier, columns=[Identifier]) or None

  c.d.t [/*+ OPTIONS(..) */] [AS a (x, y)] Table(this, db, catalog, alias, hints=[HintCall]); `.parts` are Identifiers
  t FOR SYSTEM_TIME AS OF e [AS a]      Table(.., version=Version(this="SYSTEM_TIME", kind="AS OF", expression=e)); with
                                        EPOCH n: kind="AS OF EPOCH", expression=n
  (query) a (x, y)                      Subquery(this=query, alias)
  LATERAL (query) a                     Lateral(this=Subquery without alias, alias)
  (a JOIN b ON ..)                      JoinTree(this=relation, joins=[Join])
  UNNEST(x) [WITH ORDINALITY] a (x, n)  Unnest(expressions=[x], offset=bool, alias with all columns)
  TABLE(f(..)), f(..), LATERAL f(..),   TableFunction(this=FunctionCall, lateral=bool, alias); arguments of the call:
  LATERAL TABLE(f(..))                  TableArg, Descriptor, ModelArg, NamedArg over any of them, or expressions
  VALUES .. or (VALUES ..) AS a (x, y)  Values(expressions, alias)
  relation MATCH_RECOGNIZE (..) AS a    MatchRecognize(this=relation, partition_by=[..], order=Order, measures=[Alias],
                                        rows="ONE ROW PER MATCH"|"ALL ROWS PER MATCH ..."|None, after=AfterMatch|None,
                                        pattern=PatternText, within=IntervalLiteral|None, subsets=[PatternSubset],
                                        define=[Alias], alias); RUNNING and FINAL: FunctionCall(.., side="RUNNING")
  join                                  Join(this=relation, side="LEFT"|"RIGHT"|"FULL"|None, kind="INNER"|"CROSS"|None,
                                        method="NATURAL"|"ASOF"|None, on=expression|None, using=[Identifier]|None,
                                        match_condition=expression|None); a comma is a Join with kind=None and neither
                                        on nor using
  f(DATA => TABLE t PARTITION BY k ORDER BY s)  TableArg(this=Table|Subquery, partition_by=[..], order=Order|None)
  DESCRIPTOR(a, b)                      Descriptor(expressions=[Identifier, ..]); MODEL m: ModelArg(this=Table)
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp

from runtime.core.types import DataType

__all__ = [
    "FILE_DATABASE",
    "AfterMatch",
    "CycleClause",
    "DefaultArg",
    "Descriptor",
    "Difference",
    "FunctionCall",
    "HintCall",
    "HintOption",
    "IntervalLiteral",
    "IsJson",
    "JoinTree",
    "JsonFunction",
    "MapConstructor",
    "MatchRecognize",
    "ModelArg",
    "NamedArg",
    "ParameterMark",
    "PatternSubset",
    "PatternText",
    "SearchClause",
    "StatementNode",
    "TableArg",
    "TableFunction",
    "TemporalLiteral",
    "TypeSpec",
    "UnaryPlus",
]

FILE_DATABASE = "$file"
"""The database of a Table that names a file in the place of a table, by its path: `FROM 'flights.csv'`."""


class FunctionCall(exp.Anonymous):
    """A call of any function: `this` is the name as written, `expressions` the arguments in order, `order` the Order
    behind them (of an aggregate), `side` the word before the name in MATCH_RECOGNIZE: "RUNNING" or "FINAL"."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": False,
        "qualifier": False,
        "order": False,
        "side": False,
    }

    @property
    def name(self) -> str:
        return self.args["this"]

    @property
    def qualifier(self) -> tuple[exp.Identifier, ...]:
        """The catalog and database written before the name, if any."""
        return tuple(self.args.get("qualifier") or ())


class JsonFunction(FunctionCall):
    """A JSON function with its clauses.

    `returning` is a TypeSpec; `wrapper` one of "WITHOUT", "CONDITIONAL", "UNCONDITIONAL"; `on_null` "NULL" or "ABSENT";
    `on_empty` and `on_error` a Var ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT", "TRUE", "FALSE", "UNKNOWN") or the
    expression after DEFAULT. What was not written is absent.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": False,
        "qualifier": False,
        "returning": False,
        "wrapper": False,
        "on_null": False,
        "on_empty": False,
        "on_error": False,
    }


class Assigned(exp.Expression, exp.Condition):
    """A value `this` on its way into the column named `column`, of the type `to`, in UPDATE."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "to": True, "column": True}


class NamedArg(exp.Expression):
    """`name => value`: `this` an Identifier, `expression` the value."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class DefaultArg(exp.Expression, exp.Condition):
    """The word DEFAULT in the place of an argument."""

    arg_types: ClassVar[dict[str, bool]] = {}


class TableArg(exp.Expression):
    """A relation as an argument: `this` a Table or Subquery, `partition_by` a list, `order` an Order or None."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "partition_by": False, "order": False}


class ModelArg(exp.Expression):
    """`MODEL m` as an argument: `this` a Table that holds the name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Descriptor(exp.Expression):
    """`DESCRIPTOR(a, b)`: `expressions` are Identifiers."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class TableFunction(exp.Expression, exp.UDTF):
    """A table function in FROM: `this` is the FunctionCall, `lateral` whether LATERAL was written."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "lateral": False, "alias": False}

    @property
    def call(self) -> FunctionCall:
        return self.args["this"]


class SearchClause(exp.Expression):
    """SEARCH of a recursive query: `kind` is "DEPTH" or "BREADTH", `sequence` the Identifier of the new column."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "expressions": True, "sequence": True}


class CycleClause(exp.Expression):
    """CYCLE of a recursive query: `mark` and `path` are the Identifiers of new columns; `value` and `default` what the mark
    is in a row that leads back and in others, TRUE and FALSE where they are not given."""

    arg_types: ClassVar[dict[str, bool]] = {
        "expressions": True,
        "mark": True,
        "value": False,
        "default": False,
        "path": True,
    }


class JoinTree(exp.Expression):
    """A join in parentheses that stands as one relation: `this` and `joins`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "joins": True}


class MatchRecognize(exp.Expression, exp.UDTF):
    """MATCH_RECOGNIZE over the relation `this`; see the table above for the arguments."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "partition_by": False,
        "order": False,
        "measures": False,
        "rows": False,
        "after": False,
        "pattern": True,
        "within": False,
        "subsets": False,
        "define": True,
        "alias": False,
    }


class AfterMatch(exp.Expression):
    """AFTER MATCH SKIP: `this` one of "PAST LAST ROW", "TO NEXT ROW", "TO FIRST", "TO LAST"; `expression` the variable.

    `SKIP TO v` is `SKIP TO LAST v`.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": False}


class PatternText(exp.Expression):
    """What stands between the parentheses of PATTERN, as written in `this`, with its place in the text."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class PatternSubset(exp.Expression):
    """`U = (A, B)` of SUBSET: `this` is the Identifier of the name, `expressions` those of the variables."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True}


class ParameterMark(exp.Expression, exp.Condition):
    """The place of a value that is given when the statement is carried out: `?`, `$1` or `:name`.

    `this` is the number (from 1) or the name; a `?` gets its number when the whole statement is read. `style` is the
    mark that was written: `?`, `$` or `:`.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": False, "style": True}

    @property
    def parameter(self) -> int | str:
        return self.args["this"]

    @property
    def style(self) -> str:
        return self.args["style"]


class TemporalLiteral(exp.Expression, exp.Condition):
    """`DATE '2024-01-01'` and its like: `this` is the text, `kind` the type's name. The text is not checked here."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}

    @property
    def text_value(self) -> str:
        return self.args["this"]

    @property
    def kind(self) -> str:
        return self.args["kind"]


class IntervalLiteral(exp.Expression, exp.Condition):
    """An INTERVAL literal. `this` is the text between the quotes, `unit` and `to_unit` are singular and upper case.

    `precision` is that of the leading field, `fraction` that of the seconds (None when not written), `negative` whether
    a minus stood before the quotes. `literals.interval_value` gives months or milliseconds.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "unit": True,
        "to_unit": False,
        "precision": False,
        "fraction": False,
        "negative": False,
    }


class Difference(exp.Expression, exp.Condition):
    """`(a - b) DAY TO SECOND`: the time between two points in time, as an interval of these units."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "unit": True, "to_unit": False}


class TypeSpec(exp.Expression):
    """A written type: `data_type` is ours, already complete."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}

    @property
    def data_type(self) -> DataType:
        return self.args["this"]


class IsJson(exp.Expression, exp.Predicate):
    """`x IS JSON kind`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class MapConstructor(exp.Expression, exp.Condition):
    """`MAP[k1, v1, k2, v2]`: `expressions` alternate keys and values."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": False}


class UnaryPlus(exp.Expression, exp.Condition):
    """`+ x`, which only numbers and intervals may carry."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class HintCall(exp.Expression):
    """One hint: `this` is its name in upper case, `options` its 'k'='v' pairs, `expressions` its names and values."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "options": False, "expressions": False}

    @property
    def name(self) -> str:
        return self.args["this"]

    @property
    def options(self) -> dict[str, str]:
        """The pairs; a key that is repeated keeps its last value."""
        return {option.args["this"]: option.args["value"] for option in self.args.get("options") or ()}


class HintOption(exp.Expression):
    """`'key'='value'` in a hint."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "value": True}


class StatementNode(exp.Expression):
    """A statement that is no query, for those who come through `sqlglot.parse(.., read="flink")`.

    `this` is the statement of `statement_nodes`; its text is kept and printed as it was written.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True}

    @property
    def statement(self) -> Any:
        return self.args["this"]
