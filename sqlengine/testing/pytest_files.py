"""`.slt` files as items of pytest. Loaded by the plugin when it meets the first one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from runtime.core.errors import FormatError
from sqlengine.testing.compare import Difference
from sqlengine.testing.rewrite import rewrite_file
from sqlengine.testing.runner import AS_WRITTEN, Cut, cuts_for, run_file
from sqlengine.testing.show import difference_lines
from sqlengine.testing.simulated import SimulatedEnvironment
from sqlengine.testing.slt import SltFile, read_slt

__all__ = ["SltCollector", "SltItem", "environment"]


class _Differs(Exception):
    """What came out differs from what the file says."""

    def __init__(self, differences: list[Difference]) -> None:
        super().__init__(differences)
        self.differences = differences


class SltCollector(pytest.File):
    """One item for each way in which a file is run."""

    def collect(self) -> Iterator[SltItem]:
        try:
            file = read_slt(self.path)
        except FormatError as error:
            raise self.CollectError(str(error)) from error
        matrix = self.config.getoption("--slt-matrix") or self.config.getini("slt_matrix")
        for cut in cuts_for(file) if matrix else [AS_WRITTEN]:
            yield SltItem.from_parent(self, name=cut.name, file=file, cut=cut)


class SltItem(pytest.Item):
    """A file, run in one way."""

    def __init__(self, *, file: SltFile, cut: Cut, **more: Any) -> None:
        super().__init__(**more)
        self._file = file
        self._cut = cut

    def runtest(self) -> None:
        options = _options(self.config)
        if self.config.getoption("--slt-rewrite") and self._cut is AS_WRITTEN:
            _, left = rewrite_file(self.path, options)
        else:
            rewritten = self.config.getoption("--slt-rewrite")
            left = run_file(read_slt(self.path) if rewritten else self._file, self._cut, options)
        if left:
            raise _Differs(left)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, _Differs):
            writer = self.config.get_terminal_writer()
            paint = lambda text, colour: writer.markup(text, **{colour: True})  # noqa: E731
            return "\n".join(line for d in excinfo.value.differences for line in difference_lines(d, paint))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, f"{self.path.name} ({self._cut.name})"


def environment(config: pytest.Config, options: Mapping[str, str]) -> SimulatedEnvironment:
    """What the fixture `t_env` gives."""
    return SimulatedEnvironment.create({**_options(config), **options})


def _options(config: pytest.Config) -> dict[str, str]:
    """The engine's options in the ini file of pytest."""
    pairs = (line.partition("=") for line in config.getini("slt_options"))
    return {key.strip(): value.strip() for key, _, value in pairs}
