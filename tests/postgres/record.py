"""Records what PostgreSQL answers to `queries.sql`: python -m tests.postgres.record [psql arguments].

It needs psql and a server, in which it makes the tables of `setup.sql` in a schema of its own.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NULL = "\\N"


def statements(path: Path) -> list[str]:
    """The statements of a file; a semicolon ends a line with one."""
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("--")]
    return [part.strip() for part in "\n".join(lines).split(";\n") if part.strip(" ;\n")]


def main(arguments: list[str]) -> None:
    """Write `answers.json`."""

    def psql(script: str) -> str:
        command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "--csv", "-P", f"null={NULL}", *arguments]
        done = subprocess.run(command, input=script, text=True, capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"{script}\n{done.stderr}")
        return done.stdout

    before = "SET search_path = sqlengine_test; SET timezone = 'UTC'; SET intervalstyle = 'postgres';\n"
    psql("DROP SCHEMA IF EXISTS sqlengine_test CASCADE; CREATE SCHEMA sqlengine_test;")
    psql(before + ";\n".join(statements(HERE / "setup.sql")) + ";")
    answers = []
    for query in statements(HERE / "queries.sql"):
        query = query.rstrip(";")
        rows = list(csv.reader(io.StringIO(psql(f"{before}{query};"))))
        answers.append(
            {"query": query, "names": rows[0], "rows": [[None if c == NULL else c for c in r] for r in rows[1:]]}
        )
    text = ",\n".join(json.dumps(answer, ensure_ascii=False) for answer in answers)
    (HERE / "answers.json").write_text(f"[\n{text}\n]\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
