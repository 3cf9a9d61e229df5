"""What went wrong in Spark, told from what its exceptions and their traces say."""

from __future__ import annotations

import re

__all__ = ["Failure", "failure_of"]

Failure = tuple[str, str]
"""The cause, and what to do; "" when nothing better is known than to look at the logs."""

_WRAPPER = re.compile(r"An error occurred while calling \S+\.?$")
_JAVA = re.compile(r"^(?:: |Caused by: |Suppressed: )?((?:[a-z][\w]*\.)+[A-Z][\w$]*)(?:: (.*))?$")
_PYTHON = re.compile(r"^(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Warning)\b.*:")
_DULL = re.compile(
    r"SparkException$|^Job aborted|^Writing job aborted|^Task failed while writing|Py4J|^Exception thrown in"
)
_JAVA_NAME = re.compile(r"(?:org|java|javax|scala|com|py4j|pyspark)\.")
_NAMED_HINT = "the words in brackets name the condition in Spark's documentation of errors"
_MOST = 500

_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"FAILED_READ_FILE\.FILE_NOT_EXIST\][^\n]*reading file (\S+?)\.(?:\s|$)|"
        r"FAILED_READ_FILE\.FILE_NOT_EXIST\][^\n]*reading file (\S+)",
        "the file {0} that a DataFrame or table reads is not there any more",
        "read it again (spark.read..., or REFRESH TABLE): Spark keeps the list of files that there were",
    ),
    (
        r"FileNotFoundException: (?:File )?(\S+)(?: does not exist)?",
        "the file {0} is not there",
        "it was removed since Spark listed it, or a machine does not see the folder under this name",
    ),
    (
        r"\[PATH_NOT_FOUND\] Path does not exist: (\S+?)\.?(?:\s|$)",
        "the path {0} is not there",
        "check the name, and that all machines see it",
    ),
    (
        r"ExecutorLostFailure \((executor \S+) exited[^)]*\) Reason: ([^\n]+)",
        "{0} was lost: {1}",
        "a process that is killed without anybody's doing lacks memory: raise 'spark.executor.memoryOverhead'",
    ),
    (
        r"(Python worker exited unexpectedly(?: \([^)]*\))?)",
        "a Python process of Spark has died: {0}",
        "one that is killed without anybody's doing lacks memory: raise 'spark.executor.memoryOverhead', or lower"
        " 'sqlengine.epoch.max-rows'",
    ),
    (
        r"(java\.lang\.OutOfMemoryError[^\n]*)",
        "a JVM of Spark has no memory left: {0}",
        "raise 'spark.executor.memory' or 'spark.driver.memory'",
    ),
    (
        r"SparkContext was shut down|Cannot call methods on a stopped SparkContext|SparkContext is stopped|"
        r"'NoneType' object has no attribute '(?:sc|_jvm|_jsc)'",
        "the Spark session was stopped",
        "make a new one, and a new TableEnvironment with it",
    ),
    (
        r"(Answer from Java side is empty|Error while sending or receiving|Connection refused[^\n]*py4j|Py4JNetworkError)",
        "the JVM of the Spark session is gone",
        "it was stopped or killed; start the session again, with more 'spark.driver.memory' if it lacked memory",
    ),
    (
        r"No space left on device",
        "a disk of Spark is full",
        "free space in 'spark.local.dir', or let it name another folder",
    ),
)


def failure_of(text: str) -> Failure:
    """The cause of an error of Spark.

    Args:
        text: what the exception says, with traces of Java and Python in it.
    """
    for pattern, cause, hint in _KNOWN:
        found = re.search(pattern, text)
        if found is not None:
            parts = [part for part in found.groups() if part is not None]
            return cause.format(*(part.strip()[:_MOST] for part in parts)), hint
    cause = _deepest(text)[:_MOST]
    return cause, _NAMED_HINT if cause.startswith("[") else ""


def _deepest(text: str) -> str:
    """A condition of Spark (`[NAME] ...`), else the error of Python, else the innermost of Java."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.search(r"\[[A-Z][A-Z0-9_.]{3,}\] ", line)]
    python = [line for line in lines if _PYTHON.match(line) and not _JAVA_NAME.match(line)]
    if python:
        return python[0]
    if named:
        return named[0][named[0].index("[") :]
    java = [found for line in lines if (found := _JAVA.match(line))]
    told = [f"{found[1].rpartition('.')[2]}: {found[2]}" for found in java if found[2] and not _DULL.search(found[1])]
    plain = [found[2] for found in java if found[2] and not _DULL.search(found[2])]
    rest = [line for line in lines if not _WRAPPER.match(line) and not line.startswith(("at ", "... "))]
    return next(iter([*told[-1:], *plain[-1:], *rest[:1], *lines[:1]]), "it does not say why").removeprefix(": ")
