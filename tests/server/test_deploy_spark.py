"""What is in `deploy/` for jobs on Spark fits together, and runs as it stands there: without a cluster, and without Spark."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from runtime.core.options import Options
from runtime.spark.cluster import Cluster
from sqlengine.cli.main import main
from tests.server.test_deploy import DEPLOY, documents

ENTRYPOINT = DEPLOY / "container" / "spark-entrypoint.sh"
ENVIRONMENT = {
    "SPARK_HOME": "/opt/spark",
    "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_EXECUTOR_POD_NAME": "sqlengine-exec-1",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
    "SPARK_JAVA_OPT_1": "-Dspark.app.name=two words",
}
"""What Spark says to a pod."""


def found(kind: str) -> dict[str, Any]:
    (document,) = [d for d in documents("spark-job.yaml") if d["kind"] == kind]
    return document


def executor() -> dict[str, Any]:
    """The template of the executors' pods."""
    return yaml.safe_load(found("ConfigMap")["data"]["executor.yaml"])


def options() -> tuple[list[str], dict[str, str]]:
    """The arguments of the driver, and those of them that are options."""
    args = found("Job")["spec"]["template"]["spec"]["containers"][0]["args"]
    return args, dict(arg[2:].split("=", 1) for arg in args if arg.startswith("-D"))


@pytest.mark.parametrize("version", ["1.29.0", kubernetes_validate.latest_version()])
def test_kubernetes_knows_the_pods_of_executors(version: str) -> None:
    kubernetes_validate.validate(executor(), version, strict=True)


def test_the_manifest_fits_together() -> None:
    job, role, binding = (found(kind) for kind in ("Job", "Role", "RoleBinding"))
    account = found("ServiceAccount")["metadata"]["name"]
    pod = job["spec"]["template"]["spec"]
    args, given = options()
    assert pod["serviceAccountName"] == account == binding["subjects"][0]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert {"pods", "configmaps"} <= set(role["rules"][0]["resources"])
    (driver,), (other,) = pod["containers"], executor()["spec"]["containers"]
    assert given["spark.kubernetes.container.image"] == driver["image"]
    assert given["spark.kubernetes.executor.podTemplateContainerName"] == other["name"]
    claim = found("PersistentVolumeClaim")["metadata"]["name"]
    for spec, container in ((pod, driver), (executor()["spec"], other)):
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
        assert volumes["data"]["persistentVolumeClaim"]["claimName"] == claim
        assert spec["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    # All names that stand for something are of the environment.
    known = {variable["name"] for variable in driver["env"]}
    assert {name for arg in args for name in re.findall(r"\$\((\w+)\)", arg)} == known
    files = found("ConfigMap")["data"].keys()
    named = args[-1], given["spark.kubernetes.executor.podTemplateFile"]
    assert [os.path.split(path) for path in named] == [
        ("/etc/sqlengine", name) for name in ("job.sql", "executor.yaml")
    ]
    assert files == {"job.sql", "executor.yaml"}


def test_all_pods_see_the_folders_of_the_job() -> None:
    """State lies beside the checkpoints, where a cluster has no other folder."""
    cluster = Cluster.__new__(Cluster)
    cluster._context = type("Context", (), {"master": "k8s://https://kubernetes.default.svc"})
    _, given = options()
    place = cluster.state_place(Options(given))
    assert place.startswith("/data/")
    for container in (
        found("Job")["spec"]["template"]["spec"]["containers"][0],
        executor()["spec"]["containers"][0],
    ):
        assert {"name": "data", "mountPath": "/data"} in container["volumeMounts"]


def test_the_command_of_the_driver_runs(tmp_path: Path) -> None:
    """On this machine, with what is said of Spark left out."""
    args, _ = options()
    assert args[:3] == ["sqlengine", "run", "--on=spark=k8s://https://kubernetes.default.svc"]
    script = tmp_path / "job.sql"
    script.write_text(found("ConfigMap")["data"]["job.sql"].replace("/data/", f"{tmp_path}/"))
    here = [arg.replace("/data/", f"{tmp_path}/") for arg in args[3:-1] if not arg.startswith(("-Dspark.", "--log"))]
    assert main(["run", *here, str(script)]) == 0
    assert any((tmp_path / "totals").iterdir()) and any((tmp_path / "checkpoints").iterdir())


def started(tmp_path: Path, *arguments: str) -> list[str]:
    """The program that a pod starts with these arguments, and what it is given."""
    for name in ("java", "spark-submit"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        program.chmod(0o755)
    environment = {**ENVIRONMENT, "JAVA_HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    ran = subprocess.run(["sh", ENTRYPOINT, *arguments], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


def test_a_pod_starts_what_spark_asks_for(tmp_path: Path) -> None:
    said = started(tmp_path, "executor")
    assert said[0] == f"{tmp_path}/bin/java"
    assert said[1:5] == ["-Dspark.driver.port=7078", "-Dspark.app.name=two words", "-Xms1024m", "-Xmx1024m"]
    assert said[5:7] == ["-cp", "/opt/spark/jars/*"]
    assert "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend" in said
    assert dict(zip(said[8::2], said[9::2], strict=True)) == {
        "--driver-url": ENVIRONMENT["SPARK_DRIVER_URL"],
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.2",
        "--resourceProfileId": "0",
        "--podName": "sqlengine-exec-1",
    }
    driver = started(tmp_path, "driver", "--class", "org.apache.spark.deploy.PythonRunner", "job.py", "a b")
    assert driver[0] == f"{tmp_path}/bin/spark-submit" and driver[-2:] == ["job.py", "a b"]
    assert started(tmp_path, "echo", "two words") == ["two words"]
