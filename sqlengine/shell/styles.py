"""Colours of the prompt and of full screens, chosen to be read on dark and on light grounds."""

from __future__ import annotations

__all__ = ["STYLES"]

STYLES = {
    "prompt": "bold ansigreen",
    "prompt.mark": "bold",
    "prompt.more": "ansibrightblack",
    "sql.keyword": "bold ansiblue",
    "sql.function": "ansicyan",
    "sql.string": "ansigreen",
    "sql.quoted": "ansimagenta",
    "sql.number": "ansimagenta",
    "sql.comment": "italic ansibrightblack",
    "sql.hint": "ansiyellow",
    "sql.command": "bold ansimagenta",
    "sql.op": "",
    "auto-suggestion": "ansibrightblack",
    "bottom-toolbar": "noreverse ansibrightblack",
    "completion-menu": "bg:#303030 #d0d0d0",
    "completion-menu.completion.current": "bg:#5f87af #ffffff bold noreverse",
    "completion-menu.meta.completion": "bg:#262626 #9e9e9e",
    "completion-menu.meta.completion.current": "bg:#3a5f7f #ffffff",
    "header": "bold",
    "rule": "ansibrightblack",
    "null": "ansibrightblack",
    "note": "ansibrightblack",
    "insert": "ansigreen",
    "delete": "ansired",
    "before": "ansiyellow",
    "warning": "ansiyellow",
    "error": "bold ansired",
    "bold": "bold",
    "bar": "reverse",
    "cursor": "reverse",
    "fresh": "bold ansigreen",
}
