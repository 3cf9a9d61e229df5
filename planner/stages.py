"""The order of the optimizer: which rules, together with which, after which, and why.

Subqueries must be joins before anything else can look at the plan as a tree of relations. Then conditions sink to
where they cost least, which makes joins inner, gives them keys and shows which ones are bounded in time; then
streaming forms are recognised, bottom up, because a window join stands on window aggregates; and last, columns and
sources are narrowed to what the final forms read.
"""

from __future__ import annotations

from planner.rule import Direction, Stage
from planner.rules.join import (
    convert_outer_to_inner,
    merge_joins,
    pull_common_conditions,
    pull_time_condition,
    push_filter_across_join,
    push_semi_join_into_join,
    reorder_cross_joins,
    reorder_joins,
)
from planner.rules.prune import prune_columns
from planner.rules.pushdown import (
    push_aggregate_into_scan,
    push_condition_into_join,
    push_filter_into_aggregate,
    push_filter_into_join,
    push_filter_into_over,
    push_filter_into_project,
    push_filter_into_scan,
    push_filter_into_set_operation,
    push_filter_into_sort,
    push_filter_into_unnest,
    push_filter_into_window_table,
    push_limit_into_project,
    push_limit_into_scan,
    push_limit_into_union,
)
from planner.rules.simplify import (
    fold_constants,
    merge_filters,
    merge_limit_into_sort,
    merge_projects,
    merge_unions,
    remove_distinct,
    remove_empty,
    remove_identity_project,
    remove_sort,
    remove_trivial_filter,
    remove_trivial_join,
    remove_unused_join,
    simplify_boolean,
    simplify_case,
    simplify_cast,
    simplify_comparison,
)
from planner.rules.streaming import (
    check_sort,
    check_temporal_join,
    check_time_conditions,
    check_window_time,
    convert_aggregate_to_window_aggregate,
    convert_join_to_interval_join,
    convert_join_to_window_join,
    convert_over_to_top_n,
    convert_sort_to_top_n,
    convert_temporal_to_lookup_join,
    convert_top_n_to_deduplicate,
    convert_top_n_to_window_top_n,
    materialize_time_attributes,
    remember_values,
)
from planner.rules.subquery import (
    check_decorrelated,
    convert_dependent_to_join,
    convert_filter_subquery_to_join,
    convert_subquery_to_join,
    decorrelate_by_domain,
    decorrelate_by_predicate,
    decorrelate_projection,
    decorrelate_scalar_aggregate,
    pull_subquery_from_join,
)

__all__ = ["STAGES"]

_EXPRESSIONS = (
    fold_constants.RULE,
    simplify_boolean.RULE,
    simplify_case.RULE,
    simplify_cast.RULE,
    simplify_comparison.RULE,
)
_TIDYING = (
    merge_filters.RULE,
    remove_trivial_filter.RULE,
    merge_projects.RULE,
    remove_identity_project.RULE,
    merge_unions.RULE,
    remove_empty.RULE,
    remove_trivial_join.RULE,
    remove_unused_join.RULE,
)
_FILTERS = (
    push_filter_into_project.RULE,
    push_filter_into_join.RULE,
    push_condition_into_join.RULE,
    pull_time_condition.RULE,
    push_filter_into_aggregate.RULE,
    push_filter_into_window_table.RULE,
    push_filter_into_over.RULE,
    push_filter_into_set_operation.RULE,
    push_filter_into_unnest.RULE,
    push_filter_into_sort.RULE,
    convert_outer_to_inner.RULE,
    pull_common_conditions.RULE,
    simplify_comparison.RULE,
    simplify_cast.RULE,
    merge_filters.RULE,
    remove_trivial_filter.RULE,
)

STAGES = (
    Stage(
        "joins for subqueries",
        (pull_subquery_from_join.RULE, convert_filter_subquery_to_join.RULE, convert_subquery_to_join.RULE),
        Direction.TOP_DOWN,
        "Later rules take expressions for values of one row; a subquery inside one would be moved or copied with it.",
    ),
    Stage(
        "decorrelate",
        (
            convert_dependent_to_join.RULE,
            decorrelate_scalar_aggregate.RULE,
            decorrelate_projection.RULE,
            decorrelate_by_predicate.RULE,
            decorrelate_by_domain.RULE,
        ),
        Direction.BOTTOM_UP,
        "Innermost first: an outer query's references then pass joins, not dependent joins. The general form comes last: "
        "it keeps most.",
    ),
    Stage(
        "check subqueries",
        (check_decorrelated.RULE,),
        Direction.TOP_DOWN,
        "What is left has no join: better to say so here than to fail later.",
        fixpoint=False,
    ),
    Stage(
        "simplify",
        (*_EXPRESSIONS, *_TIDYING, merge_limit_into_sort.RULE, remove_sort.RULE, push_limit_into_project.RULE),
        Direction.BOTTOM_UP,
        "The rules that follow recognise simple conditions: constants on the right, no casts around columns.",
    ),
    Stage(
        "push filters",
        _FILTERS,
        Direction.TOP_DOWN,
        "Conditions reach joins (as keys and time bounds) and sources. An outer join that becomes inner lets more of them "
        "pass, so both together.",
    ),
    Stage(
        "infer filters",
        (push_filter_across_join.RULE,),
        Direction.BOTTOM_UP,
        "Once, with all filters at their place: what it adds moves on, and a fixpoint would infer it again for ever.",
        fixpoint=False,
    ),
    Stage(
        "push inferred filters",
        _FILTERS,
        Direction.TOP_DOWN,
        "The inferred conditions go where written ones would have gone.",
    ),
    Stage(
        "check time conditions",
        (check_time_conditions.RULE,),
        Direction.TOP_DOWN,
        "Conditions are where they stay; joins get no conditions any more that a filter would have to evaluate.",
        fixpoint=False,
    ),
    Stage(
        "connect joins",
        (reorder_cross_joins.RULE,),
        Direction.TOP_DOWN,
        "Before streaming joins are recognised: their keys and bounds may relate tables that are far apart in the text.",
        fixpoint=False,
    ),
    Stage(
        "streaming forms",
        (
            convert_temporal_to_lookup_join.RULE,
            check_temporal_join.RULE,
            convert_aggregate_to_window_aggregate.RULE,
            convert_join_to_window_join.RULE,
            convert_join_to_interval_join.RULE,
            check_window_time.RULE,
            convert_sort_to_top_n.RULE,
            convert_over_to_top_n.RULE,
            convert_top_n_to_window_top_n.RULE,
            convert_top_n_to_deduplicate.RULE,
            check_sort.RULE,
            remove_distinct.RULE,
            *_TIDYING,
        ),
        Direction.BOTTOM_UP,
        "Bottom up: whether a join's inputs carry windows, or are append-only, depends on the forms below it.",
    ),
    Stage(
        "order joins",
        (push_semi_join_into_join.RULE, reorder_joins.RULE),
        Direction.TOP_DOWN,
        "After the forms: window and interval joins keep less state than any order of regular joins.",
        fixpoint=False,
    ),
    Stage(
        "prune columns",
        (prune_columns.RULE,),
        Direction.TOP_DOWN,
        "Once, when no rule adds a reader any more; rank columns that nobody reads go too.",
        fixpoint=False,
    ),
    Stage(
        "sources",
        (push_filter_into_scan.RULE, push_limit_into_union.RULE, push_limit_into_scan.RULE, *_TIDYING),
        Direction.TOP_DOWN,
        "After pruning: a filter that a source takes refers to the columns that it still has.",
    ),
    Stage(
        "aggregates in sources",
        (push_aggregate_into_scan.RULE,),
        Direction.TOP_DOWN,
        "When sources have taken their filters: a source that gives groups takes none any more.",
        fixpoint=False,
    ),
    Stage(
        "time attributes",
        (materialize_time_attributes.RULE,),
        Direction.TOP_DOWN,
        "After the joins have their final form: only regular ones lose event time.",
        fixpoint=False,
    ),
    Stage(
        "merge joins",
        (merge_joins.RULE,),
        Direction.TOP_DOWN,
        "With the joins in their order, and their inputs as narrow as they get; from the top, so that as many as can be are "
        "merged.",
        fixpoint=False,
    ),
    Stage(
        "remember values",
        (remember_values.RULE,),
        Direction.BOTTOM_UP,
        "When nothing moves expressions any more, and the forms that keep what they found for a row are there; what rows are "
        "taken back is known from below.",
    ),
    Stage(
        "tidy up",
        (*_EXPRESSIONS, *_TIDYING),
        Direction.BOTTOM_UP,
        "Projections that pruning and time attributes left behind are merged.",
    ),
)
"""All stages, in order."""
