"""The command line on a database in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.cli.main import main


@pytest.mark.parametrize("folder", ["shop", "shop/"])
def test_a_folder_opens_the_shell_on_it(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = ["CREATE TABLE t (a INT)", "CREATE VIEW v AS SELECT a + 1 AS b FROM t", "INSERT INTO t VALUES (41)"]
    assert main(["run", "--database", folder, *(part for text in made for part in ("-e", text))]) == 0
    assert main([folder, "-e", "SELECT * FROM v"]) == 0
    assert "| 42 |" in capfd.readouterr().out
    assert main(["shell", "--database", folder, "-e", "DROP VIEW v"]) == 0
    assert main([folder, "-e", "SELECT * FROM v"]) == 1
    assert "E1202" in capfd.readouterr().err
    assert main(["-D", "sql-client.execution.result-mode=changelog", folder, "-e", "SELECT a FROM t"]) == 0
    assert "+I" in capfd.readouterr().out


def test_a_folder_that_is_no_database_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").write_text("")
    assert main([str(tmp_path), "-e", "SELECT 1"]) == 1
    assert "E3706" in capfd.readouterr().err
