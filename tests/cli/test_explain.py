"""`sqlengine explain`: plans of a file, with nothing read or written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlengine.cli.main import main

JOB = """\
CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING);
INSERT INTO t VALUES (1, 'a');
CREATE MATERIALIZED VIEW v AS SELECT name, COUNT(*) AS n FROM t GROUP BY name;
CREATE TABLE copy WITH ('connector' = 'filesystem', 'path' = 'OUT', 'format' = 'csv') AS SELECT name FROM v;
SHOW TABLES;
SELECT * FROM copy;
"""


def test_each_statement_with_a_plan_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.sql"
    file.write_text(JOB.replace("OUT", str(tmp_path / "out")))
    assert main(["explain", str(file)]) == 0
    out = capsys.readouterr().out
    heads = [line for line in out.splitlines() if line.startswith("-- ")]
    assert [head.split()[1:3] for head in heads] == [
        ["INSERT", "INTO"],
        ["CREATE", "MATERIALIZED"],
        ["CREATE", "TABLE"],
        ["SELECT", "*"],
    ]
    assert out.count("== Physical Plan ==") == 4
    assert "bounded by the number of keys" in out and "[I,UB,UA,D]" in out
    assert not (tmp_path / "out").exists()


def test_details(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--details", "json_execution_plan", "-e", "SELECT 1 AS one"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out[out.index("{") :])["format"] == "sqlengine-plan"
    assert main(["explain", "--details", "STAT", "-e", "SELECT 1"]) == 1
    assert 'E1618 unknown detail STAT\n  hint: did you mean "STATE"?' in capsys.readouterr().err


def test_errors_have_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.sql"
    file.write_text("CREATE TABLE t (a INT);\nSELECT b FROM t;\n")
    assert main(["explain", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and f"at {file}:2:8" in err
