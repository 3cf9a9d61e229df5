"""The Grafana board and the alert rules name figures and labels that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from sqlengine.database.metrics import METRICS

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "monitoring"
LABELS = {label for metric in METRICS for label in metric.labels} | {"instance", "le"}
STATUSES = {"RUNNING", "FAILED"}


def _names() -> set[str]:
    found = {metric.name for metric in METRICS if metric.kind != "histogram"}
    return found | {m.name + part for m in METRICS if m.kind == "histogram" for part in ("_bucket", "_sum", "_count")}


def check(expression: str) -> None:
    used = re.findall(r"\b(?:sqlengine|process)_\w+", expression.replace("sqlengine_$", ""))
    assert used or expression == 'up{job="sqlengine"} == 0', expression
    assert set(used) <= _names(), expression
    selected = [label for inner in re.findall(r"\{([^}]*)\}", expression) for label in re.findall(r"(\w+)=", inner)]
    grouped = [
        label for inner in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in re.split(r",\s*", inner)
    ]
    assert {*selected, *grouped} <= LABELS, expression
    assert set(re.findall(r'status="(\w+)"', expression)) <= STATUSES


def test_the_board() -> None:
    board = json.loads((FOLDER / "grafana.json").read_text())
    panels: list[dict[str, Any]] = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    variables = {variable["name"] for variable in board["templating"]["list"]}
    for panel in panels:
        assert panel["description"]
        for target in panel["targets"]:
            check(target["expr"])
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables | {"__rate_interval"}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= LABELS
    for variable in board["templating"]["list"][1:]:
        check(variable["definition"])


def test_the_alerts() -> None:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])
    for rule in group["rules"]:
        check(rule["expr"])
        texts = rule["annotations"]["summary"] + rule["annotations"]["description"]
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= LABELS
    scrape = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert scrape["scrape_configs"][0]["honor_labels"] and scrape["rule_files"] == ["alerts.yml"]
