"""Full screens of a terminal: a result to scroll through, a live result, TOP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from runtime.core.changelog import KIND_NAMES
from sqlengine.options.client import MAX_COLUMN_WIDTH, MAX_TABLE_ROWS
from sqlengine.results.result import Result
from sqlengine.shell.executor import Executor, Rows, Viewer
from sqlengine.shell.grid import Frame, Line, columns_of, cut
from sqlengine.shell.grid_view import GridView
from sqlengine.shell.live_rows import ChangeLog, LiveTable
from sqlengine.shell.screen import texts_of
from sqlengine.shell.styles import STYLES
from sqlengine.shell.top import Reading, top_lines
from sqlengine.text.amounts import human_count
from sqlengine.text.cells import watermark_text

__all__ = ["FullScreen"]

REDRAW_SECONDS = 0.1
TOP_SECONDS = 1.0
JOIN_SECONDS = 30.0
_MOVES = {
    "up": "up", "k": "up", "down": "down", "j": "down", "pageup": "pageup", "b": "pageup", "pagedown": "pagedown", " ": "pagedown",
    "home": "home", "g": "home", "end": "end", "G": "end", "left": "left", "h": "left", "right": "right", "l": "right", "s": "s",
    "enter": "enter",
}  # fmt: skip
_KEYS, _MOVING = "q leave  s sort  Enter row", "  arrows PgUp PgDn Home End"


class FullScreen(Viewer):
    """The viewer of a terminal."""

    def __init__(self, executor: Executor, *, colour: bool) -> None:
        self._executor = executor
        self._colour = colour

    def rows(self, rows: Rows, title: str) -> None:
        view = self._view(rows, with_kinds=rows.kinds is not None)
        view.take(rows.rows, rows.kinds)
        _Screen(self, view, lambda: [title, f"{len(rows.rows):,} rows"], _KEYS + _MOVING).run()

    def live(self, result: Result, title: str, *, changelog: bool) -> Rows:
        columns = columns_of(result.schema)
        most = self._executor.session.options.get(MAX_TABLE_ROWS)
        watching = _Watching(result, ChangeLog(most) if changelog else LiveTable(most))
        view = self._view(Rows(columns, ()), with_kinds=changelog)
        screen = _Screen(self, view, lambda: [title, watching.status()], _KEYS + "  p pause" + _MOVING)
        screen.before_drawing = lambda: watching.show_in(view, paused=screen.paused)
        watching.on_change = screen.redraw
        watching.on_failure = screen.leave
        watching.start()
        try:
            screen.run()
        finally:
            watching.stop()
        watching.raise_failure()
        watching.show_in(view, paused=False)
        if isinstance(watching.kept, ChangeLog):
            rows, kinds = watching.kept.rows_and_kinds()
            return Rows(columns, rows, kinds, watching.kept.changes)
        return Rows(columns, view.ordered())

    def _view(self, rows: Rows, *, with_kinds: bool) -> GridView:
        return GridView(rows.columns, self._executor.session.options.get(MAX_COLUMN_WIDTH), with_kinds=with_kinds)

    def top(self) -> None:
        before: dict[str, Reading] = {}
        drawn: list[Line] = []
        at = 0.0

        def lines() -> list[Line]:
            nonlocal drawn, at
            now = time.monotonic()
            if not drawn or now - at >= TOP_SECONDS * 0.9:
                drawn = top_lines(self._executor.session, before, now - at)
                at = now
            return drawn

        _TopScreen(self, lines).run()

    def application(
        self, text: Callable[[], StyleAndTextTuples], keys: KeyBindings, refresh: float
    ) -> Application[None]:
        """An application that draws one text on the whole screen."""
        window = Window(FormattedTextControl(text, show_cursor=False), wrap_lines=False, always_hide_cursor=True)
        return Application(
            Layout(window),
            key_bindings=keys,
            full_screen=True,
            style=Style.from_dict(STYLES if self._colour else {"cursor": "reverse", "bar": "reverse"}),
            color_depth=None if self._colour else ColorDepth.DEPTH_1_BIT,
            include_default_pygments_style=False,
            refresh_interval=refresh,
            min_redraw_interval=REDRAW_SECONDS,
        )

    @property
    def frame(self) -> Frame:
        return self._executor.screen.frame


class _Screen:
    """A grid with a title above and keys below."""

    def __init__(self, owner: FullScreen, view: GridView, titles: Callable[[], Sequence[str]], keys: str) -> None:
        self._owner = owner
        self._view = view
        self._titles = titles
        self._help = keys
        self.paused = False
        self.before_drawing: Callable[[], None] = lambda: None
        self._app = owner.application(self._text, self._keys(), 0.5)

    def run(self) -> None:
        self._app.run()

    def redraw(self) -> None:
        """From any thread."""
        self._app.invalidate()

    def leave(self) -> None:
        """From any thread."""
        loop = self._app.loop
        if loop is not None:
            loop.call_soon_threadsafe(self._exit)

    def _exit(self) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def _text(self) -> StyleAndTextTuples:
        size = self._app.output.get_size()
        self.before_drawing()
        title, status = self._titles()
        lines: list[Line] = [
            [("bold", cut(title, size.columns))],
            [("note", cut(f"{'paused | ' if self.paused else ''}{status}", size.columns))],
            *self._view.lines(size.columns, max(4, size.rows - 3), self._owner.frame),
        ]
        lines = lines[: size.rows - 1]
        lines += [[] for _ in range(size.rows - 1 - len(lines))]
        bar = f" {self._view.place()}   {self._help} "
        lines.append([("bar", cut(bar, size.columns).ljust(size.columns))])
        return _fragments(lines)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("q")
        @keys.add("c-c")
        @keys.add("c-d")
        @keys.add("<sigint>")
        def _leave(event: KeyPressEvent) -> None:
            if self._view.opened:
                self._view.opened = False
            else:
                self._exit()

        @keys.add("p")
        def _pause(event: KeyPressEvent) -> None:
            self.paused = not self.paused

        for key, move in _MOVES.items():

            @keys.add(key)
            def _move(event: KeyPressEvent, move: str = move) -> None:
                self._view.move(move)

        return keys


class _TopScreen:
    """Lines that are made anew every second."""

    def __init__(self, owner: FullScreen, lines: Callable[[], list[Line]]) -> None:
        self._lines = lines
        self._first = 0
        keys = KeyBindings()

        @keys.add("q")
        @keys.add("c-c")
        @keys.add("c-d")
        @keys.add("<sigint>")
        def _leave(event: KeyPressEvent) -> None:
            event.app.exit()

        @keys.add("down")
        @keys.add("j")
        def _down(event: KeyPressEvent) -> None:
            self._first += 1

        @keys.add("up")
        @keys.add("k")
        def _up(event: KeyPressEvent) -> None:
            self._first = max(0, self._first - 1)

        self._app = owner.application(self._text, keys, TOP_SECONDS)

    def run(self) -> None:
        self._app.run()

    def _text(self) -> StyleAndTextTuples:
        size = self._app.output.get_size()
        found = self._lines()
        head, body = found[:2], found[2:]
        room = max(1, size.rows - 3)
        self._first = max(0, min(self._first, len(body) - room))
        lines = [*head, *body[self._first : self._first + room]]
        lines = [[(style, cut(text, size.columns)) for style, text in line] for line in lines]
        lines += [[] for _ in range(size.rows - 1 - len(lines))]
        lines.append([("bar", cut(" q leave   arrows scroll ", size.columns).ljust(size.columns))])
        return _fragments(lines)


def _fragments(lines: Sequence[Line]) -> StyleAndTextTuples:
    found: StyleAndTextTuples = []
    for i, line in enumerate(lines):
        if i:
            found.append(("", "\n"))
        found += [(f"class:{style}" if style else "", text) for style, text in line]
    return found


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class _Watching:
    """Reads a result on a thread and keeps what is to be shown."""

    def __init__(self, result: Result, kept: LiveTable | ChangeLog) -> None:
        self._result = result
        self.kept = kept
        self.on_change: Callable[[], None] = lambda: None
        self.on_failure: Callable[[], None] = lambda: None
        self._failure: BaseException | None = None
        self._ended = False
        self._shown = -1
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._read, name="live result", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _read(self) -> None:
        result = self._result
        try:
            for batch in result.changes():
                rows = list(zip(*texts_of(batch.columns, result.schema, result.time_zone), strict=True))
                self.kept.apply([KIND_NAMES[k] for k in batch.kinds_or_inserts().tolist()], rows)
                self.on_change()
        except BaseException as error:
            self._failure = error
            self.on_failure()
        finally:
            self._ended = True
            self.on_change()

    def stop(self) -> None:
        """End the query after its epoch."""
        self._result.cancel()
        self._thread.join(JOIN_SECONDS)

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def show_in(self, view: GridView, *, paused: bool) -> None:
        """Give the view the rows of now, unless nothing has changed."""
        version = self.kept.version
        if paused or version == self._shown:
            return
        self._shown = version
        if isinstance(self.kept, ChangeLog):
            view.take(*self.kept.rows_and_kinds())
        else:
            rows, fresh = self.kept.rows_and_fresh()
            view.take(rows, None, () if self.kept.version == 1 else fresh)

    def status(self) -> str:
        """What runs, how much there is, and where time is."""
        job = self._result.job
        seconds = max(time.monotonic() - self._started, 1e-6)
        parts = ["ended" if self._ended else "running"]
        if isinstance(self.kept, LiveTable):
            parts.append(_counted(len(self.kept), "row"))
        parts.append(_counted(self.kept.changes, "change"))
        if self.kept.forgotten:
            parts.append(f"{self.kept.forgotten:,} forgotten")
        if job is not None:
            flow = job.dataflow
            rows_in = sum(v.rows_in for v in flow.vertices if v.operator is None)
            parts.append(f"epoch {flow.epoch:,}")
            parts.append(f"{human_count(rows_in)} rows in ({human_count(rows_in / seconds)}/s)")
            parts.append(f"watermark {watermark_text(flow.watermark)}")
        return " | ".join(parts)
