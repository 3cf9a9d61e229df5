"""A job over the pages of a server, whose process is killed with SIGKILL once the server was asked for some more pages: each row
is written once.

`make faults` kills it 50 times.
"""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from pathlib import Path

from tests.faults.conftest import FIRST_SEED, KILLS
from tests.faults.processes import WarmProcess
from tests.servers.web import Reply, Request, web_server

KILLED_SOURCES = ("http",)
"""Connectors of which the tests here prove something."""
_PAGE = 25
_PAGES_OF_A_KILL = 24


def test_each_row_of_each_page_is_written_once(tmp_path: Path, warm: WarmProcess) -> None:
    rng, rows = random.Random(FIRST_SEED), _PAGE * _PAGES_OF_A_KILL * (KILLS + 1)

    def answer(request: Request) -> Reply:
        at = int(request.query.get("after", 0))
        found = [{"id": i} for i in range(at, min(at + _PAGE, rows))]
        return Reply(200, json.dumps({"rows": found, "next": at + _PAGE if at + _PAGE < rows else None}).encode())

    with web_server(answer) as web:
        (tmp_path / "job.sql").write_text(
            f"CREATE TABLE pages (id INT) WITH ('connector' = 'http', 'url' = '{web.url}/rows', 'format' = 'json', "
            "'scan.rows' = 'rows', 'scan.page' = 'cursor', 'scan.page.parameter' = 'after', 'scan.page.path' = 'next');"
            "CREATE TABLE made (id INT) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path / 'made'}', 'format' = 'json'); INSERT INTO made SELECT id FROM pages;"
        )
        options = {
            "execution.checkpointing.dir": str(tmp_path / "state"),
            "execution.checkpointing.interval": "2 ms",
            "sqlengine.epoch.max-rows": "20",
        }
        arguments = ["run", str(tmp_path / "job.sql"), *(p for k, v in options.items() for p in ("-D", f"{k}={v}"))]
        killed = 0
        while True:
            wanted = len(web.asked) + rng.randint(2, _PAGES_OF_A_KILL // 2)
            warm.start(arguments, tmp_path / "said")
            while killed < KILLS and len(web.asked) < wanted and not warm.ended(0.002):
                pass
            if killed < KILLS and not warm.ended(0):
                warm.kill()
            status = warm.status()
            if status != -signal.SIGKILL:
                assert status == 0, (tmp_path / "said").read_text()
                break
            killed += 1
    lines = [line for path in (tmp_path / "made").glob("[!._]*") for line in path.read_text().splitlines()]
    assert Counter(json.loads(line)["id"] for line in lines) == Counter(range(rows))
    assert killed
