"""Jars from Maven, which comes from Debian's packages where it is missing."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

__all__ = ["copied"]


def copied(pom: Path, folder: Path) -> Path:
    """The folder, with the jars that a POM depends on: copied once."""
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        # Tests of several processes may begin at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            if shutil.which("mvn") is None:
                for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "maven"]):
                    subprocess.run(command, check=True, capture_output=True)
            copy = ["mvn", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
            subprocess.run([*copy, f"-DoutputDirectory={folder}"], check=True, capture_output=True)
            (folder / "ready").touch()
    return folder
