"""The options of a new environment in the words of PyFlink."""

from __future__ import annotations

from collections.abc import Mapping

from sqlengine.database.session import RUNTIME_MODE

__all__ = ["EnvironmentSettings"]


class EnvironmentSettings(dict[str, str]):
    """Options for `TableEnvironment.create`, which also takes a plain mapping:

    TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    """

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Answers follow the input, as it comes (the default)."""
        return EnvironmentSettings({RUNTIME_MODE.key: "streaming"})

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Answers when all input has been read; what has no end is refused."""
        return EnvironmentSettings({RUNTIME_MODE.key: "batch"})

    def with_configuration(self, options: Mapping[str, str]) -> EnvironmentSettings:
        """With further options, as in SET."""
        return EnvironmentSettings({**self, **options})
