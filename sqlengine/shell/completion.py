"""Suggestions in the menu of the prompt."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from sqlengine.database.session import Session
from sqlengine.shell.suggest import Suggester

__all__ = ["SqlCompleter"]

MOST_SHOWN = 200
ABOUT_WIDTH = 70


class SqlCompleter(Completer):
    """While typing, the menu opens for the beginning of a word, after a dot and inside quotes; Tab opens it anywhere."""

    def __init__(self, session: Session) -> None:
        self._suggester = Suggester(session)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if not complete_event.completion_requested and (not before or before[-1].isspace() or before[-1] in "();,"):
            return
        for found in self._suggester.suggest(before, document.text_after_cursor)[:MOST_SHOWN]:
            about = found.about if len(found.about) <= ABOUT_WIDTH else found.about[: ABOUT_WIDTH - 1] + "…"
            yield Completion(
                found.text, -found.replaces, display=found.shown or found.text, display_meta=about or found.kind
            )
