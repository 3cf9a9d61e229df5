"""The options that say where jobs run."""

from __future__ import annotations

from runtime.core.errors import OptionError
from runtime.core.options import text_option

__all__ = ["SPARK_MASTER", "SPARK_PREFIX", "TARGET", "target_options"]

TARGET = text_option(
    "execution.target",
    "local",
    "where jobs run: 'spark', or in this process, which is what all other targets of Flink mean here",
)
SPARK_MASTER = text_option(
    "sqlengine.spark.master", "", "the master of a new Spark session; this machine with all its cores when not given"
)
SPARK_PREFIX = "spark."
"""What the options of Spark itself begin with: those of a session that is made here."""


def target_options(on: str) -> dict[str, str]:
    """The options that `--on` stands for: `local`, `spark`, or `spark=MASTER`. Raises OptionError for anything else."""
    name, _, master = on.partition("=")
    if name.lower() == "local" and not master:
        return {TARGET.key: "local"}
    if name.lower() == "spark":
        return {TARGET.key: "spark", **({SPARK_MASTER.key: master} if master else {})}
    raise OptionError(
        f"jobs cannot run on '{on}'",
        hint="it is local, spark (this machine), or spark=MASTER, for example spark=spark://host:7077",
    )
