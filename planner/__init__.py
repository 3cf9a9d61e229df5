"""From a bound logical plan to a physical plan.

    plan = optimize(bound, RuleContext(functions, options, time_zone))      # planner.optimizer: rules, stage by stage
    physical = lower(plan, LowerContext(TraitContext(functions, options)))  # planner.lower: algorithms and modes

| room | holds |
|---|---|
| `logical/` | the nodes, their text (`explain`), its reader, checks, and the walk over their expressions |
| `rule.py` `stages.py` `optimizer.py` `trace.py` | what a rule is, their order with reasons, the driver, its trace |
| `rules/subquery` | subqueries and LATERAL become joins |
| `rules/simplify` | constants, conditions, stacked filters and projections, empty relations |
| `rules/pushdown` | filters and limits move towards the sources |
| `rules/join` | outer joins become inner, conditions cross joins, the order of joins |
| `rules/streaming` | window aggregates, window, interval and lookup joins, top-n, deduplication are recognised |
| `rules/prune` | only columns that are read |
| `traits/` | derived facts: keys, kinds of change, time, determinism |
| `cost/` | estimates of rows, changes and state; join order |
| `lower/` | logical to physical |

The plan after the rules holds no `DependentJoin`, no subquery and no outer reference.
"""
