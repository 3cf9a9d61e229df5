"""A headless Chromium, told what to do by its own protocol.

Source: Chrome DevTools Protocol.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from tests.server.debian import debian_program

__all__ = ["Browser", "browser"]

T = TypeVar("T")
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip


class Browser:
    """One page. What its scripts complain of is kept in `complaints`."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process = process
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self.complaints: list[str] = []
        self._run(self._connect(address))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _connect(self, address: str) -> None:
        self._client = aiohttp.ClientSession()
        host = re.match(r"ws://([^/]+)/", address)
        assert host is not None
        async with self._client.get(f"http://{host[1]}/json/list") as answer:
            pages = [page for page in await answer.json() if page["type"] == "page"]
        self._socket = await self._client.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        self._reader = asyncio.ensure_future(self._read())
        for domain in ("Page", "Runtime", "Log"):
            await self._told(f"{domain}.enable")

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif told["method"] == "Runtime.exceptionThrown":
                details = told["params"]["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            elif told["method"] == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.complaints.append(told["params"]["entry"]["text"])

    async def _told(self, method: str, **params: Any) -> Any:
        self._number += 1
        answer = self._answers[self._number] = self._loop.create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        found = await answer
        assert "error" not in found, found
        return found["result"]

    def tell(self, method: str, **params: Any) -> Any:
        """What the protocol's method gives."""
        return self._run(self._told(method, **params))

    def show(self, address: str, *, width: int = 1280, height: int = 860, dark: bool = False) -> None:
        """Open a page."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])
        phone = width < 600
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.tell("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        """What an expression gives; promises are waited for."""
        found = self.tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = 20) -> Any:
        """What an expression gives as soon as that is true."""
        end = time.monotonic() + seconds
        while not (found := self._or_nothing(script)):
            assert time.monotonic() < end, (script, self._or_nothing("document.body.innerText"), self.complaints)
            threading.Event().wait(0.05)
        return found

    def _or_nothing(self, script: str) -> Any:
        """Nothing also while there is no page."""
        found = self.tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return None if "exceptionDetails" in found else found["result"].get("value")

    def press(self, selector: str, text: str = "") -> None:
        """Click the first element that a selector names and that has a text."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})].find(e => e.textContent.includes({json.dumps(text)}))"
        self.wait(f"!!{found}")
        self.value(f"{found}.click()")

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self.tell("Input.insertText", text=text)

    def key(self, name: str, **more: Any) -> None:
        """Press a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.tell("Input.dispatchKeyEvent", type=kind, key=name, **more)

    def picture(self, file: Path) -> None:
        """What is to be seen, as a PNG."""
        file.write_bytes(base64.b64decode(self.tell("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)


@contextmanager
def browser() -> Iterator[Browser]:
    """A new browser, that knows nothing."""
    program = debian_program("chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [program, *_QUIET, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        address = ""
        for line in process.stderr:
            if line.startswith("DevTools listening on "):
                address = line.removeprefix("DevTools listening on ").strip()
                break
        assert address, "chromium has not started"
        drain = threading.Thread(target=lambda: [None for _ in process.stderr or ()], daemon=True)
        drain.start()
        page = Browser(process, address)
        try:
            yield page
        finally:
            page.close()
            process.terminate()
            process.wait(20)
