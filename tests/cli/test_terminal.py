"""What only a terminal sees: progress and colours."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from sqlengine.text.amounts import human_bytes, human_count
from sqlengine.text.cells import watermark_text

ROOT = Path(__file__).parent.parent.parent
TICKS = (
    "CREATE TABLE ticks (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',"
    " 'rows-per-second' = '2000', 'fields.v.min' = '0', 'fields.v.max' = '3');"
)


class Terminal:
    """A process whose stdout and stderr are one terminal."""

    def __init__(self, *arguments: str) -> None:
        master, slave = pty.openpty()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "200"}
        environment.pop("NO_COLOR", None)
        self._master = master
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sqlengine", *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment
        )
        os.close(slave)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.seen = ""

    def read_until(self, pattern: str | None) -> str:
        """Everything up to a match of the pattern, or (None) to the end."""
        while pattern is None or not re.search(pattern, self.seen):
            ready, _, _ = select.select([self._master], [], [], 60)
            assert ready, f"nothing came: {self.seen!r}"
            try:
                more = os.read(self._master, 65536)
            except OSError:  # the other side is closed
                more = b""
            if not more:
                assert pattern is None, f"the process ended: {self.seen!r}"
                break
            self.seen += self._decoder.decode(more)
        return self.seen

    def interrupt(self) -> str:
        self.process.send_signal(signal.SIGINT)
        self.read_until(None)
        assert self.process.wait(timeout=60) == 130, self.seen
        return self.seen


def shown(text: str) -> list[str]:
    """The lines that are left on the terminal: what was erased is gone, colours are not looked at."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n").split("\n")
    return [line.rpartition("\r\x1b[2K")[2] for line in lines]


def test_progress_of_a_job_is_a_line_that_is_wiped() -> None:
    terminal = Terminal(
        "run",
        "-e",
        TICKS + "CREATE TABLE o (v INT, n BIGINT) WITH ('connector' = 'blackhole');"
        "INSERT INTO o SELECT v, COUNT(*) FROM ticks GROUP BY v",
    )
    number = r"[\d.]+[kMG]?"
    terminal.read_until(
        rf"job-1 \| epoch \d+ \| in {number} \({number}/s\) \| out [1-9]{number} \({number}/s\) \| watermark \S+( \S+)?"
        rf" \| state 4 rows, {number} (B|KiB|MiB)"
    )
    left = shown(terminal.interrupt())
    assert left[0].startswith("job-1 runs in the background") and left[1].startswith("job-1 has stopped: ")
    assert left[2:] == [""]


def test_what_a_sink_prints_is_not_mixed_with_progress() -> None:
    terminal = Terminal(
        "run",
        "-e",
        TICKS + "CREATE TABLE o (v INT) WITH ('connector' = 'print'); INSERT INTO o SELECT v FROM ticks",
    )
    terminal.read_until(r"epoch [1-9]\d+ ")
    left = [line for line in shown(terminal.interrupt()) if line]
    assert all(re.fullmatch(r"\+I\[[0-3]\]|job-1 .*", line) for line in left), left
    rows = sum(line.startswith("+I") for line in left)
    assert left[-1] == f"job-1 has stopped: {rows:,} rows written"


def test_errors_and_row_kinds_are_coloured() -> None:
    terminal = Terminal(
        "run", "--format", "changelog", "-e", "SELECT 1 AS a; SELECT 1 / (a - 1) FROM (VALUES (1)) AS t(a)"
    )
    text = terminal.read_until(None)
    assert "\x1b[32m+I\x1b[0m 1" in text
    assert "\x1b[1;31mE2102 division by zero\x1b[0m" in text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (999.7, "1k"),
        (12_345, "12.3k"),
        (1_000_000, "1M"),
        (4_560_000, "4.56M"),
        (7.1e9, "7.1G"),
    ],
)
def test_counts(number: float, text: str) -> None:
    assert human_count(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 30, "5.0 GiB")]
)
def test_bytes(number: float, text: str) -> None:
    assert human_bytes(number) == text


@pytest.mark.parametrize(
    ("watermark", "text"),
    [
        (MIN_WATERMARK, "-"),
        (MAX_WATERMARK, "end"),
        (0, "1970-01-01 00:00:00"),
        (1500, "1970-01-01 00:00:01.500"),
        (-1, "1969-12-31 23:59:59.999"),
        (10**17, "100000000000000000"),
    ],
)
def test_watermarks(watermark: int, text: str) -> None:
    assert watermark_text(watermark) == text


def test_the_shell_wipes_the_progress_of_a_query_before_its_rows() -> None:
    terminal = Terminal("shell", "-e", "SELECT 1 AS one; SELECT COUNT(*) AS n FROM (VALUES (1), (2)) AS t (a);")
    lines = shown(terminal.read_until(None))
    assert terminal.process.wait(timeout=60) == 0
    assert "| one |" in lines and "|   1 |" in lines and "| n |" in lines
    assert not any("epoch" in line for line in lines), lines
