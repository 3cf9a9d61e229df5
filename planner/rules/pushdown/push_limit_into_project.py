"""Compute columns only for the rows that are kept.

    Limit 3 (Project f X)   →   Project f (Limit 3 X)

Streaming: keeps the changelog mode and the state of the limit.
"""

from __future__ import annotations

from planner.logical.nodes import Limit, LogicalNode, Project
from planner.rule import Rule, RuleContext

__all__ = ["RULE"]


def push_limit_into_project(node: Limit, context: RuleContext) -> LogicalNode | None:
    project = node.input
    return project.with_(input=node.with_(input=project.input)) if isinstance(project, Project) else None


RULE = Rule("push_limit_into_project", Limit, push_limit_into_project)
