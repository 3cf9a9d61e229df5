"""The web page in Chromium: that it shows what there is, follows what changes, and does what it is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

import pytest

from tests.server.browser import Browser, browser
from tests.server.conftest import started, stop
from tests.server.web_client import Web, web_address
from tests.server.wire_client import WireClient, message

TABLES = """
CREATE TABLE prices (item STRING PRIMARY KEY NOT ENFORCED, price INT);
CREATE MATERIALIZED VIEW dear AS SELECT item, price * 2 AS twice FROM prices WHERE price > 1;
CREATE TABLE ticks (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');
CREATE TABLE nowhere (n INT) WITH ('connector' = 'blackhole');
INSERT INTO prices VALUES ('pear', 2), ('plum', 3);
INSERT INTO nowhere SELECT n + 1 FROM ticks;
"""
JOB = "job-2"


@dataclass(frozen=True)
class Served(Web):
    postgres: tuple[str, int]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    process, host, port = started("--web", "127.0.0.1:0")
    assert process.stdout is not None
    found = Served(*web_address(process.stdout.readline()), postgres=(host, port))
    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path_factory.mktemp("saved"))}
    assert found.post("/jobs", sql=TABLES, settings=settings)["jobs"] == [JOB]
    yield found
    assert stop(process) == 0


@pytest.fixture(scope="module")
def page(web: Web) -> Iterator[tuple[Browser, str]]:
    with browser() as found:
        yield found, f"http://{web.host}:{web.port}/"
        assert found.complaints == []


def test_figures_plans_and_stopping(web: Web, page: tuple[Browser, str]) -> None:
    shown, at = page
    shown.show(at)
    shown.wait(f"[...document.querySelectorAll('.row b')].some(e => e.textContent === '{JOB}')")
    shown.press("a.row", JOB)
    shown.wait("[...document.querySelectorAll('.node')].map(e => e.dataset.kind).join() === 'Source,Calc,Sink'")
    shown.press(".node", "Calc")
    assert "n + 1" in shown.wait("document.querySelector('.details pre')?.textContent")
    shown.press("nav a", "Lineage")
    shown.press(".table .column", "twice")
    # A column is drawn to where it comes from.
    shown.wait("document.querySelectorAll('path.edge.column').length === 1")
    shown.press("nav a", "Jobs")
    shown.press("a.row", JOB)
    # Begun again it is another job, which is shown: first in two tasks, then from the savepoint that was written for that.
    shown.press(".actions button", "Rescale")
    shown.press(".confirm button.primary", "yes")
    shown.wait("document.querySelector('h1')?.textContent === 'job-3'")
    assert web.get(f"/jobs/{JOB}")["status"] == "CANCELED"
    shown.press(".tabs button", "Checkpoints")
    path = web.post("/jobs/job-3/savepoints")["savepoint"]
    shown.press(".actions button", "Restore")
    shown.value("document.querySelector('.confirm input').focus()")
    shown.type(path)
    shown.press(".confirm button.primary", "yes")
    shown.wait("document.querySelector('h1')?.textContent === 'job-4'")
    assert web.get("/jobs/job-3")["status"] == "CANCELED"
    shown.press("button.danger", "Stop")
    shown.press(".confirm button.primary", "yes")
    shown.wait("document.querySelector('.notice')?.textContent === 'stopped'")
    assert web.get("/jobs/job-4")["status"] == "CANCELED"


def test_a_view_is_followed(web: Web, page: tuple[Browser, str]) -> None:
    shown, at = page
    shown.show(f"{at}#/views/default_catalog/default_database/dear", dark=True)
    cells = "[...document.querySelectorAll('tbody tr')].map(r => r.innerText.replace(/\\s+/g, ' ').trim()).sort().join('; ')"
    shown.wait(f"{cells} === 'pear 4; plum 6'")
    web.rows(web.post("/sessions")["session"], "INSERT INTO prices VALUES ('pear', 50), ('fig', 9)")
    shown.wait(f"{cells} === 'fig 18; pear 100; plum 6'")
    # Who has chosen no colours gets those of the system.
    assert shown.value("getComputedStyle(document.body).backgroundColor") == "rgb(17, 23, 28)"
    shown.press(".tabs button", "Bars")
    shown.wait("document.querySelector('.barline .name')?.textContent === 'pear'")


def test_who_follows(web: Served, page: tuple[Browser, str]) -> None:
    shown, at = page
    replica = WireClient(*web.postgres)
    replica.send(message(b"Q", b"REPLICATE DATABASE VERSION 1\0"))
    replica.until(b"D")
    shown.show(at)
    name = "[...document.querySelectorAll('.tile')].find(e => e.querySelector('.label').textContent === 'replicas')"
    shown.wait(f"{name}?.querySelector('.value').textContent === '1'")
    found = web.get("/server")
    assert found["replication"] is None and found["replicas"][0]["client"].startswith("127.0.0.1:")
    replica.close()
    shown.wait(f"!{name}")


def test_the_editor_on_a_phone(web: Web, page: tuple[Browser, str]) -> None:
    shown, at = page
    shown.show(f"{at}#/sql", width=390, height=800)
    shown.wait("!!document.querySelector('textarea')")

    def write(text: str) -> None:
        shown.value("(e => { e.focus(); e.select(); })(document.querySelector('textarea'))")
        shown.type(text)

    write("SELECT item FROM pri")
    shown.wait("document.querySelector('.menu li')?.textContent.startsWith('prices')")
    shown.key("Enter", windowsVirtualKeyCode=13)
    shown.wait("document.querySelector('textarea').value === 'SELECT item FROM prices'")
    shown.press("button.primary", "Run")
    shown.wait("document.querySelectorAll('tbody tr').length === 3")
    web.rows(web.post("/sessions")["session"], "DELETE FROM prices WHERE item = 'fig'")
    shown.wait("document.querySelectorAll('tbody tr').length === 2")
    write("SELECT 1; SELECT prise FROM prices")
    shown.press("button.primary", "Run")
    shown.wait("document.querySelector('.trouble')?.textContent.includes('did you mean \"price\"?')")
    # Nothing is wider than the screen.
    assert shown.value("document.documentElement.scrollWidth <= 390")


def test_all_that_the_page_names_is_there_and_comes_from_here(web: Web) -> None:
    files = [f for f in (resources.files("sqlengine.server.web") / "page").iterdir() if f.is_file()]
    named = {m for f in files for m in re.findall(r'(?:from |src=|href=)"(\.?/[\w./-]+)"', f.read_text())}
    paths = {"/page/" + name.removeprefix("./") if name.startswith("./") else name for name in named}
    assert {"/page/app.js", "/page/vendor/preact.mjs", "/page/style.css"} <= paths
    for path in (*paths, "/"):
        status, headers, _ = web.raw("GET", path)
        assert status == 200 and "script-src 'self'" in headers["Content-Security-Policy"], path
        assert web.raw("GET", path, None, If_None_Match=headers["ETag"])[0] == 304
    for path in ("/page/", "/page/../listener.py", "/page/%2e%2e/listener.py", "/page//etc/passwd", "/page/no.js"):
        assert web.raw("GET", path)[0] == 404, path
    text = "".join(f.read_text() for f in files)
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
    assert ".innerHTML" not in text and "eval(" not in text
