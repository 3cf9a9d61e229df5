"""`sqlengine test`: what it compares, prints and rewrites, and that docs/testing.md tells of all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runtime.core.errors import FormatError
from sqlengine.cli.main import main
from sqlengine.testing.slt import RECORDS, parse_slt

ROOT = Path(__file__).parent.parent.parent

RIGHT = """\
statement ok
CREATE TABLE t (id INT, name STRING);
INSERT INTO t VALUES (1, 'a'), (2, '');

query
SELECT * FROM t
----
2 | (empty)
1 | a

changes t
----
+I 1 | a
+I 2 | (empty)

statement error E1201
SELECT nam FROM t
----
did you mean
"name"?
"""

WRONG = """\
statement ok
CREATE TABLE t (id INT);
INSERT INTO t VALUES (1), (2), (3)

query nosort
SELECT id FROM t
----
1
3

statement error E1202
SELECT nope FROM t

statement error
SELECT id FROM t

query
SELECT 1 / 0
----

statement ok
INSERT INTO nobody VALUES (1)

query
SELECT 'never run'
----
"""


def written(folder: Path, text: str, name: str = "a.slt") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_file_that_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, RIGHT)
    assert main(["test", path]) == 0
    assert capsys.readouterr().out == "1 passed\n"
    assert main(["test", "-v", "--matrix", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"ok  {path}\n1 passed\n"


def test_differences_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, WRONG)
    assert main(["test", path]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"FAIL  {path}",
        f"  {path}:5 (as written): differs",
        "    SELECT id FROM t",
        "    - missing: 0  + too much: 1",
        "      1",
        "    + 2",
        "      3",
        f"  {path}:11 (as written): fails with E1201 instead of E1202",
        "    SELECT nope FROM t",
        "    - missing: 0  + too much: 1",
        '    + E1201 unknown column "nope" at 1:8; there is: "id"',
        f"  {path}:14 (as written): succeeded, but must fail",
        "    SELECT id FROM t",
        f"  {path}:17 (as written): failed: E2102 division by zero at 1:8; guard it: CASE WHEN b <> 0 THEN a / b END, or a / NULLIF(b, 0)",
        "    SELECT 1 / 0",
        f'  {path}:21 (as written): failed: E1202 unknown table "nobody" at 1:13; there is: "t"',
        "    INSERT INTO nobody VALUES (1)",
        "0 passed, 1 failed",
    ]


def test_rewrite_fills_in_what_comes_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gaps = RIGHT + "\nstatement error E1201\nSELECT nam FROM t\n----\nwrong\n"
    gaps = gaps.replace("2 | (empty)\n1 | a\n", "").replace("+I 1 | a\n+I 2 | (empty)\n", "wrong\n")
    path = written(tmp_path, "# kept\n\n" + gaps)
    assert main(["test", "--rewrite", path]) == 0
    text = Path(path).read_text()
    assert (
        "# kept\n" in text
        and "SELECT * FROM t\n----\n1 | a\n2 | (empty)\n" in text
        and "changes t\n----\n+I 1 | a\n" in text
    )
    # A part of the message that is right stays.
    assert 'SELECT nam FROM t\n----\ndid you mean\n"name"?\n' in text
    assert 'E1201 unknown column "nam" at 1:8; did you mean "name"?\n' in text
    capsys.readouterr()
    assert main(["test", "--rewrite", path]) == 0 and main(["test", path]) == 0
    assert capsys.readouterr().out == "1 passed\n"


def test_the_matrix_finds_an_answer_that_depends_on_the_cuts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    depends = """\
file in.csv
1
2

statement ok
CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = '${dir}/in.csv', 'format' = 'csv');
CREATE TABLE n (id INT);
INSERT INTO n SELECT id FROM t

query
SELECT epochs FROM system.jobs
----
1
"""
    path = written(tmp_path, depends)
    assert main(["test", path]) == 0
    assert main(["test", "--matrix", path]) == 1
    shown = capsys.readouterr().out
    assert f"{path}:10 (one row an epoch" in shown and ": differs when folded" in shown
    assert main(["test", "--matrix", written(tmp_path, "cuts fixed\n\n" + depends)]) == 0


def test_what_is_wrong_in_every_way_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "query\nSELECT 1\n----\n2\n")
    assert main(["test", "--matrix", path]) == 1
    shown = re.sub(r"and \d+ other ways", "and other ways", capsys.readouterr().out)
    assert shown.splitlines() == [
        f"FAIL  {path}",
        f"  {path}:1 (as written and other ways): differs",
        "    SELECT 1",
        "    - missing: 1  + too much: 1",
        "    - 2",
        "    + 1",
        "0 passed, 1 failed",
    ]


def test_a_file_that_cannot_be_read_does_not_keep_the_others_from_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = written(tmp_path, "statment ok\nSELECT 1\n")
    written(tmp_path, RIGHT, "b.slt")
    assert main(["test", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert f"FAIL  {broken}\n  E3301 {broken}:1: 'statment' begins no record; did you mean" in shown
    assert shown.endswith("1 passed, 1 failed\n")


def test_files_in_and_out(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """\
file in/a.csv
2,b
1,a

statement ok
CREATE TABLE t (id INT, name STRING) WITH ('connector' = 'filesystem', 'path' = '${dir}/in', 'format' = 'csv');
CREATE TABLE o (id INT) WITH ('connector' = 'filesystem', 'path' = '${dir}/out', 'format' = 'csv');
INSERT INTO o SELECT id FROM t

files out
----
1
2

query text
SELECT '${dir}'
----
${dir}
""",
    )
    assert main(["test", path]) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT 1\n", "'select' begins no record"),
        ("statement\nSELECT 1\n", "a statement is 'ok' or an 'error'"),
        ("query\n\nSELECT 1\n", "'query' has no SQL below it"),
        ("query\nSELECT 1\n", "'query' has no rule"),
        ("changes\n----\n", "'changes' lacks a word"),
        ("input t\n\n1 | 2\n", "'input' has no rows below it"),
        ("advance watermark 2024-01-01\n", "it is not said what advances, or how far"),
        ("advance time to 2024-01-01\n", "it is not said what advances, or how far"),
        ("flush\nSELECT 1\n", "'flush' has lines below it that mean nothing"),
    ],
)
def test_what_is_no_record(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem) as caught:
        parse_slt("# first\n\n" + text, Path("x.slt"))
    assert caught.value.code == "E3301" and "x.slt:3" in caught.value.message


def test_a_path_without_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("E3303 no .slt file at")


def test_the_documentation_tells_of_every_record() -> None:
    manual = (ROOT / "docs" / "testing.md").read_text()
    silent = [kind for kind in RECORDS if kind != "active" and not re.search(rf"^### `{kind}\b", manual, re.MULTILINE)]
    assert not silent
    assert "`active TABLE`" in manual and "### `advance watermark" in manual and "### `advance clock" in manual


def test_the_matrix_leaves_out_what_is_not_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "right.slt").write_text(RIGHT)
    monkeypatch.setattr("sqlengine.testing.runner.importlib.util.find_spec", lambda name: None)
    assert main(["test", "--matrix", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "not run: rocksdb (pip install 'sqlengine[rocksdb]')",
        "not run: rocksdb, restarts (pip install 'sqlengine[rocksdb]')",
        "not run: tasks of a cluster (pip install 'sqlengine[spark]')",
        "1 passed",
    ]
