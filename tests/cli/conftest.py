"""Shells that the tests of a module share: one with the traces of a failed test is not used again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import pytest

from tests.cli.shell_terminal import ShellTerminal

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


class SharedShell:
    """The shell of a module: made when a test asks for it, and anew after a test has failed."""

    def __init__(self, make: Callable[[], ShellTerminal]) -> None:
        self._make = make
        self._terminal: ShellTerminal | None = None

    def used_by(self, test: pytest.Item) -> Iterator[ShellTerminal]:
        """The terminal while a test runs."""
        if self._terminal is None:
            self._terminal = self._make()
        yield self._terminal
        if test.stash.get(_FAILED, False):
            self._terminal.process.close(force=True)
            self._terminal = None

    def leave(self) -> None:
        if self._terminal is not None:
            self._terminal.leave()


@pytest.fixture
def shell(shared_shell: SharedShell, request: pytest.FixtureRequest) -> Iterator[ShellTerminal]:
    """The terminal of the module's `shared_shell`."""
    yield from shared_shell.used_by(request.node)
