"""Trees back to text: the SQL that reads back to an equal tree."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.generator import Generator

from sqlengine.parse import nodes
from sqlengine.parse.constant_rows import ComparedConstants, ConstantRows

__all__ = ["FlinkGenerator"]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class FlinkGenerator(Generator):
    """Writes trees as Flink SQL."""

    def functioncall_sql(self, tree: nodes.FunctionCall) -> str:
        return _call(self, tree, _arguments(self, tree))

    def select_sql(self, tree: exp.Select) -> str:
        text, emit = super().select_sql(tree), tree.args.get("emit")
        if emit is None:
            return text
        return f"{text} EMIT {'CHANGES' if emit.name == 'CHANGES' else 'ON WINDOW CLOSE'}"

    def jsonfunction_sql(self, tree: nodes.JsonFunction) -> str:
        return _call(self, tree, _json_arguments(self, tree))

    def parametermark_sql(self, tree: nodes.ParameterMark) -> str:
        return "?" if tree.style == "?" else f"{tree.style}{tree.parameter}"

    def namedarg_sql(self, tree: nodes.NamedArg) -> str:
        return f"{self.sql(tree, 'this')} => {self.sql(tree, 'expression')}"

    def defaultarg_sql(self, tree: nodes.DefaultArg) -> str:
        return "DEFAULT"

    def tablearg_sql(self, tree: nodes.TableArg) -> str:
        text = f"TABLE {self.sql(tree, 'this')}"
        keys = self.expressions(tree, key="partition_by", flat=True)
        if keys:
            text += f" PARTITION BY ({keys})"
        order = tree.args.get("order")
        if order is not None:
            text += f" ORDER BY ({self.expressions(order, flat=True)})"
        return text

    def modelarg_sql(self, tree: nodes.ModelArg) -> str:
        return f"MODEL {self.sql(tree, 'this')}"

    def descriptor_sql(self, tree: nodes.Descriptor) -> str:
        return f"DESCRIPTOR({self.expressions(tree, flat=True)})"

    def tablefunction_sql(self, tree: nodes.TableFunction) -> str:
        lateral = "LATERAL " if tree.args.get("lateral") else ""
        return f"{lateral}TABLE({self.sql(tree, 'this')}){_alias(self, tree)}"

    def unnest_sql(self, tree: exp.Unnest) -> str:
        ordinality = " WITH ORDINALITY" if tree.args.get("offset") else ""
        return f"UNNEST({self.expressions(tree, flat=True)}){ordinality}{_alias(self, tree)}"

    def values_sql(self, tree: exp.Values, values_as_table: bool = True) -> str:
        text = f"VALUES {self.expressions(tree, flat=True)}" + _limits(self, tree)
        parent = tree.parent
        in_from = isinstance(parent, (exp.From, exp.Join, nodes.JoinTree, nodes.MatchRecognize))
        return f"({text}){_alias(self, tree)}" if in_from else text

    def comparedconstants_sql(self, tree: ComparedConstants) -> str:
        word = " AND " if tree.negated else " OR "
        return word.join(self.sql(part) for part in tree.comparisons())

    def constantrows_sql(self, tree: ConstantRows) -> str:
        return tree.text_value[1:-1] if isinstance(tree.parent, exp.In) else tree.text_value

    def jointree_sql(self, tree: nodes.JoinTree) -> str:
        joins = "".join(self.sql(join) for join in tree.args["joins"])
        return f"({self.sql(tree, 'this')}{joins})"

    def version_sql(self, tree: exp.Version) -> str:
        return f"FOR SYSTEM_TIME {tree.args['kind']} {self.sql(tree, 'expression')}"

    def table_sql(self, tree: exp.Table, sep: str = " AS ") -> str:
        named = tree.db == nodes.FILE_DATABASE
        text = _quote(tree.name) if named else ".".join(self.sql(part) for part in tree.parts)
        hints = tree.args.get("hints")
        if hints:
            text += f" /*+ {', '.join(map(self.sql, hints))} */"
        if tree.args.get("version") is not None:
            text += f" {self.sql(tree, 'version')}"
        return text + _alias(self, tree)

    def hint_sql(self, tree: exp.Hint) -> str:
        return f" /*+ {', '.join(map(self.sql, tree.expressions))} */"

    def hintcall_sql(self, tree: nodes.HintCall) -> str:
        pairs = [f"{_quote(o.args['this'])} = {_quote(o.args['value'])}" for o in tree.args.get("options") or ()]
        inner = [*pairs, *map(self.sql, tree.expressions)]
        return f"{tree.name}({', '.join(inner)})" if inner else tree.name

    def temporalliteral_sql(self, tree: nodes.TemporalLiteral) -> str:
        kind = "TIMESTAMP WITH LOCAL TIME ZONE" if tree.kind == "TIMESTAMP_LTZ" else tree.kind
        return f"{kind} {_quote(tree.text_value)}"

    def intervalliteral_sql(self, tree: nodes.IntervalLiteral) -> str:
        args = tree.args
        sign = "-" if args.get("negative") else ""
        text = f"INTERVAL {sign}{_quote(args['this'])} {args['unit']}"
        precision, fraction, to_unit = args.get("precision"), args.get("fraction"), args.get("to_unit")
        if precision is not None:
            text += f"({precision})" if to_unit or fraction is None else f"({precision}, {fraction})"
        if to_unit:
            text += f" TO {to_unit}" + ("" if fraction is None else f"({fraction})")
        return text

    def difference_sql(self, tree: nodes.Difference) -> str:
        to_unit = tree.args.get("to_unit")
        text = f"({self.sql(tree, 'this')} - {self.sql(tree, 'expression')}) {tree.args['unit']}"
        return text + (f" TO {to_unit}" if to_unit else "")

    def windowspec_sql(self, tree: exp.WindowSpec) -> str:
        args = tree.args

        def bound(which: str) -> str:
            written, side = args[which], args.get(f"{which}_side")
            text = written if isinstance(written, str) else self.sql(written)
            return f"{text} {side}" if side else text

        text = f"BETWEEN {bound('start')} AND {bound('end')}" if args.get("end") is not None else bound("start")
        exclude = args.get("exclude")
        return f"{args['kind']} {text}" + (f" EXCLUDE {exclude}" if exclude else "")

    def typespec_sql(self, tree: nodes.TypeSpec) -> str:
        text = str(tree.data_type)
        return text.replace("INTERVAL SECOND(3)", "INTERVAL DAY TO SECOND(3)")

    def isjson_sql(self, tree: nodes.IsJson) -> str:
        return f"{self.sql(tree, 'this')} IS JSON {tree.args['kind']}"

    def mapconstructor_sql(self, tree: nodes.MapConstructor) -> str:
        return f"MAP[{self.expressions(tree, flat=True)}]"

    def array_sql(self, tree: exp.Array) -> str:
        return f"ARRAY[{self.expressions(tree, flat=True)}]"

    def bracket_sql(self, tree: exp.Bracket) -> str:
        return f"{self.sql(tree, 'this')}[{self.expressions(tree, flat=True)}]"

    def regexplike_sql(self, tree: exp.RegexpLike) -> str:
        return self.binary(tree, "~")

    def regexpilike_sql(self, tree: exp.RegexpILike) -> str:
        return self.binary(tree, "~*")

    def pow_sql(self, tree: exp.Pow) -> str:
        return self.binary(tree, "^")

    def any_sql(self, tree: exp.Any) -> str:
        return f"ANY {_in_parentheses(self, tree.this)}"

    def all_sql(self, tree: exp.All) -> str:
        return f"ALL {_in_parentheses(self, tree.this)}"

    def unaryplus_sql(self, tree: nodes.UnaryPlus) -> str:
        return f"+ {self.sql(tree, 'this')}"

    def hexstring_sql(self, tree: exp.HexString, binary_function_repr: str | None = None) -> str:
        return f"X'{tree.this}'"

    def between_sql(self, tree: exp.Between) -> str:
        symmetric = " SYMMETRIC" if tree.args.get("symmetric") else ""
        low, high = self.sql(tree, "low"), self.sql(tree, "high")
        return f"{self.sql(tree, 'this')} BETWEEN{symmetric} {low} AND {high}"

    def is_sql(self, tree: exp.Is) -> str:
        return self.binary(tree, "IS")

    def nullsafeneq_sql(self, tree: exp.NullSafeNEQ) -> str:
        return self.binary(tree, "IS DISTINCT FROM")

    def nullsafeeq_sql(self, tree: exp.NullSafeEQ) -> str:
        return self.binary(tree, "IS NOT DISTINCT FROM")

    def ordered_sql(self, tree: exp.Ordered) -> str:
        nulls = tree.args.get("nulls_first")
        direction = " DESC" if tree.args.get("desc") else ""
        return self.sql(tree, "this") + direction + ("" if nulls is None else f" NULLS {'FIRST' if nulls else 'LAST'}")

    def not_sql(self, tree: exp.Not) -> str:
        return f"NOT {self.sql(tree, 'this')}"

    def statementnode_sql(self, tree: nodes.StatementNode) -> str:
        return tree.statement.text


def _alias(generator: Generator, tree: exp.Expr) -> str:
    alias = tree.args.get("alias")
    return f" AS {generator.sql(alias)}" if alias is not None else ""


def _limits(generator: Generator, tree: exp.Expr) -> str:
    parts = [generator.sql(tree, key) for key in ("order", "limit", "offset")]
    return "".join(parts)


def _arguments(generator: Generator, tree: nodes.FunctionCall) -> str:
    values = [generator.sql(value) for value in tree.expressions]
    name = tree.name.upper()
    if name == "EXTRACT" and len(values) == 2:
        return f"{values[0]} FROM {values[1]}"
    if name == "TRIM" and len(values) == 3:
        return f"{values[0]} {values[1]} FROM {values[2]}"
    if name in ("FLOOR", "CEIL", "CEILING") and len(values) == 2 and isinstance(tree.expressions[1], exp.Var):
        return f"{values[0]} TO {values[1]}"
    return f"{', '.join(values)}{generator.sql(tree, 'order')}"


def _in_parentheses(generator: Generator, tree: exp.Expr) -> str:
    text = generator.sql(tree)
    return text if isinstance(tree, exp.Subquery) else f"({text})"


def _call(generator: Generator, tree: nodes.FunctionCall, arguments: str) -> str:
    own = tree.name if re.fullmatch(r"[^\W\d][\w$]*", tree.name) else f"`{tree.name.replace('`', '``')}`"
    name = ".".join([*map(generator.sql, tree.qualifier), own])
    side = tree.args.get("side")
    return f"{side + ' ' if side else ''}{name}({arguments})"


def _json_arguments(generator: Generator, tree: nodes.JsonFunction) -> str:
    args = tree.args
    values = [generator.sql(value) for value in tree.expressions]
    if tree.name.upper() in ("JSON_OBJECT", "JSON_OBJECTAGG"):
        values = [f"KEY {key} VALUE {value}" for key, value in zip(values[::2], values[1::2], strict=True)]
    text = ", ".join(values)
    if args.get("returning") is not None:
        text += f" RETURNING {generator.sql(tree, 'returning')}"
    wrapper = args.get("wrapper")
    if wrapper:
        text += f" {'WITHOUT' if wrapper == 'WITHOUT' else f'WITH {wrapper}'} ARRAY WRAPPER"
    for key, event in (("on_empty", "EMPTY"), ("on_error", "ERROR")):
        behaviour = args.get(key)
        if behaviour is not None:
            default = "" if isinstance(behaviour, exp.Var) else "DEFAULT "
            text += f" {default}{generator.sql(behaviour)} ON {event}"
    if args.get("on_null"):
        text += f" {args['on_null']} ON NULL"
    return text.strip()


def _match_recognize(generator: Generator, tree: nodes.MatchRecognize) -> str:
    args = tree.args
    parts: list[str] = []
    if args.get("partition_by"):
        parts.append(f"PARTITION BY {generator.expressions(tree, key='partition_by', flat=True)}")
    if args.get("order") is not None:
        parts.append(f"ORDER BY {generator.expressions(args['order'], flat=True)}")
    if args.get("measures"):
        parts.append(f"MEASURES {generator.expressions(tree, key='measures', flat=True)}")
    if args.get("rows"):
        parts.append(args["rows"])
    after = args.get("after")
    if after is not None:
        variable = after.args.get("expression")
        parts.append(f"AFTER MATCH SKIP {after.this}" + (f" {generator.sql(variable)}" if variable else ""))
    parts.append(f"PATTERN ({args['pattern'].this})")
    if args.get("within") is not None:
        parts.append(f"WITHIN {generator.sql(args['within'])}")
    subsets = ", ".join(
        f"{generator.sql(s, 'this')} = ({generator.expressions(s, flat=True)})" for s in args.get("subsets") or ()
    )
    if subsets:
        parts.append(f"SUBSET {subsets}")
    define = ", ".join(f"{generator.sql(d, 'alias')} AS {generator.sql(d, 'this')}" for d in args["define"])
    parts.append(f"DEFINE {define}")
    return f"{generator.sql(tree, 'this')} MATCH_RECOGNIZE ({' '.join(parts)}){_alias(generator, tree)}"


FlinkGenerator.TRANSFORMS = {
    **{kind: write for kind, write in Generator.TRANSFORMS.items() if f"{kind.key}_sql" not in vars(FlinkGenerator)},
    **{
        kind: getattr(FlinkGenerator, f"{kind.key}_sql")
        for kind in (getattr(nodes, name) for name in nodes.__all__)
        if isinstance(kind, type) and hasattr(FlinkGenerator, f"{kind.key}_sql") and kind is not nodes.MatchRecognize
    },
    nodes.MatchRecognize: _match_recognize,
    ComparedConstants: FlinkGenerator.comparedconstants_sql,
    ConstantRows: FlinkGenerator.constantrows_sql,
}
