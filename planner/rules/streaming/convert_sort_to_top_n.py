"""ORDER BY with LIMIT or OFFSET is a top-n over all rows.

    Sort a DESC limit 3 offset 2 X   →   TopN ROW_NUMBER 3..5 order a DESC X

Streaming: an updating table of the first rows; keeps the rows that may move up. Not applied to a sort without LIMIT
and OFFSET: that is about order only.
"""

from __future__ import annotations

from planner.logical.nodes import LogicalNode, RankFunction, Sort, TopN
from planner.rule import Rule, RuleContext

__all__ = ["RULE"]


def convert_sort_to_top_n(node: Sort, context: RuleContext) -> LogicalNode | None:
    if node.limit is None and not node.offset:
        return None
    end = None if node.limit is None else node.offset + node.limit
    return TopN(node.input, RankFunction.ROW_NUMBER, (), node.keys, node.offset + 1, end, None)


RULE = Rule("convert_sort_to_top_n", Sort, convert_sort_to_top_n, after=("remove_empty",), essential=True)
