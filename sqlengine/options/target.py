"""The options that say where jobs run."""

from __future__ import annotations

from runtime.core.errors import OptionError
from runtime.core.options import text_option

__all__ = ["SPARK_MASTER", "SPARK_PREFIX", "TARGET", "target_options"]

TARGET = text_option(
    "execution.target",
    "local",
    "where jobs run: 'spark', 'processes' (on this machine, as many as 'parallelism.default' says), or in this process, "
    "which is what all other targets of Flink mean here",
)
SPARK_MASTER = text_option(
    "sqlengine.spark.master", "", "the master of a new Spark session; this machine with all its cores when not given"
)
PARALLELISM = "parallelism.default"
SPARK_PREFIX = "spark."
"""What the options of Spark itself begin with: those of a session that is made here."""


def target_options(on: str) -> dict[str, str]:
    """The options that `--on` stands for: `local`, `processes`, `processes=COUNT`, `spark`, or `spark=MASTER`. Raises
    OptionError for anything else."""
    name, _, given = on.partition("=")
    kind = name.lower()
    if kind == "local" and not given:
        return {TARGET.key: kind}
    if kind == "spark":
        return {TARGET.key: kind, **({SPARK_MASTER.key: given} if given else {})}
    if kind == "processes" and (not given or (given.isascii() and given.isdigit() and int(given) > 0)):
        return {TARGET.key: kind, **({PARALLELISM: given} if given else {})}
    raise OptionError(
        f"jobs cannot run on '{on}'",
        hint="it is local, processes (on this machine), processes=COUNT, spark (this machine), or spark=MASTER, for example"
        " spark=spark://host:7077",
    )
