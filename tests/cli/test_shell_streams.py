"""The live table of the guide, as its reader sees it: sorted, scrolled, paused, in a terminal that changes its size."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.shell_terminal import ROOT, ShellTerminal, check_screen
from tests.docs.pages import blocks_of


def test_the_live_table_of_the_guide(tmp_path: Path, rewrite: bool) -> None:
    (tmp_path / "sql_examples").symlink_to(ROOT / "sql_examples")
    guide = blocks_of((ROOT / "docs" / "guide.md").read_text(encoding="utf-8"))
    statements = next(b.text for b in guide if "example" in b.words and "live" in b.text)
    create, _, query = statements.strip().split(";\n")  # without the brake: the end is what is compared
    (tmp_path / "live.sql").write_text(create + ";\n")
    shell = ShellTerminal(tmp_path, "shell", "-i", "live.sql", "--history", "", width=100)
    shell.until_prompt("Ctrl-D leaves")
    shell.type(query + "\r")
    shell.until(r"│ UA +│ +4637 │(?s:.*)│ OO +│ +1 │")
    shell.type("\x1b[Cs")
    shell.until("▲")
    shell.type("s")
    shell.until(r"\[flights ▼\](?s:.*)UA(?s:.*)B6(?s:.*)OO")

    def normalized(screen: str) -> str:
        """How far it is by now, and how fast, depends on the machine."""
        return re.sub(r"epoch [\d,]+ \| 27k rows in \(\S+\)", "epoch 54 | 27k rows in (500/s)", screen)

    check_screen("guide_live_table", shell, rewrite=rewrite, normalized=normalized)
    shell.type("p")
    shell.until(r"^paused \| running ")
    shell.type("p")
    shell.until(r"^running .*watermark -$")
    shell.resize(60, 12)
    shell.until(r"\A(?:.*\n){11}.*row 1 of 16")
    shell.type("G")
    shell.until(r"│ OO +│ +1 │(?s:.*)row 16 of 16")
    shell.type("q")
    shell.until_prompt("16 rows, the first")
    shell.leave()
