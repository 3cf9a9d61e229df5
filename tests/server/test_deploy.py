"""What is in `deploy/`: linted, held against the schemas of Kubernetes, and each command line run as it stands there."""

from __future__ import annotations

import json
import os
import re
import shlex
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import psycopg
import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from runtime.core.errors import OptionError
from sqlengine.server import running
from tests.server.debian import debian_program
from tests.server.test_serve import certificate
from tests.server.test_standby import Machine

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
PODS = ("object-store.yaml", "shared-volume.yaml")
LINT = YamlLintConfig("{extends: default, rules: {line-length: {max: 140}}}")


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def stateful_set(name: str) -> dict[str, Any]:
    (found,) = [document for document in documents(name) if document["kind"] == "StatefulSet"]
    return found["spec"]


@pytest.mark.parametrize("path", [*MANIFESTS, *sorted((DEPLOY / "monitoring").glob("*.yml"))], ids=lambda p: p.name)
def test_yaml_is_tidy(path: Path) -> None:
    problems = [str(problem) for problem in linter.run(path.read_text(), LINT) if problem.level == "error"]
    assert problems == []


@pytest.mark.parametrize("version", ["1.29.0", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda p: p.name)
def test_kubernetes_knows_all_that_is_said(path: Path, version: str) -> None:
    for document in documents(path.name):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_manifests_fit_together(name: str) -> None:
    spec = stateful_set(name)
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    shared = documents("services.yaml")
    services = {d["metadata"]["name"]: d["spec"] for d in shared if d["kind"] == "Service"}
    labels = spec["template"]["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert spec["serviceName"] in services and spec["selector"]["matchLabels"].items() <= labels.items()
    for service in services.values():
        assert service["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["ports"]} <= ports.keys()
    # The leader alone is ready: a roll-out that waits for all would never end.
    assert spec["updateStrategy"]["type"] == "OnDelete" and spec["podManagementPolicy"] == "Parallel"
    assert not services["sqlengine"].get("publishNotReadyAddresses")
    assert pod["serviceAccountName"] in {d["metadata"]["name"] for d in shared if d["kind"] == "ServiceAccount"}
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    guarded = container["securityContext"]
    assert guarded["readOnlyRootFilesystem"] and not guarded["allowPrivilegeEscalation"]
    assert guarded["capabilities"] == {"drop": ["ALL"]}
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "web", "scheme": "HTTPS"}


@pytest.mark.parametrize("name", ["Dockerfile", "spark.Dockerfile"])
def test_the_container_file_is_linted(name: str) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    linted = subprocess.run([hadolint, DEPLOY / "container" / name], capture_output=True, text=True)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_the_unit_is_verified(tmp_path: Path) -> None:
    unit = tmp_path / "sqlengine.service"
    text = (DEPLOY / "systemd" / "sqlengine.service").read_text()
    unit.write_text(text.replace("/opt/sqlengine/bin/sqlengine", sys.executable))
    analyze = debian_program("systemd-analyze", "systemd")
    verified = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True)
    assert verified.returncode == 0 and str(unit) not in verified.stderr, verified.stderr
    secure = [analyze, "security", "--offline=true", "--threshold=20", unit]
    found = subprocess.run(secure, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


class Places:
    """What stands for paths and addresses of a machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        users = folder / "users"
        users.write_text("ann:geheim\n")
        users.chmod(0o600)
        self.cert, self.key = certificate(folder)
        self.paths = {
            "/run/secrets/sqlengine/users/users": str(users),
            "/run/secrets/sqlengine/users": str(users),
            "${CREDENTIALS_DIRECTORY}/users": str(users),
            "/run/secrets/sqlengine/tls/tls.crt": self.cert,
            "/run/secrets/sqlengine/tls/tls.key": self.key,
            "/var/lib/sqlengine/shop": f"{folder}/data",
            "/data/shop": f"{folder}/data",
            "s3://lake/shop?region=eu-central-1": f"{folder}/lake",
        }

    def arguments(self, words: list[str]) -> list[str]:
        """A command line, with these paths and without its ports, which `Machine` gives. What it does not know is an error
        of the command."""
        assert words[:2] == ["serve", "--standby"]
        joined, at = [], 2
        while at < len(words):
            takes = words[at].startswith("--") and "=" not in words[at] and words[at] != "--tls-required"
            joined.append(f"{words[at]}={words[at + 1]}" if takes else words[at])
            at += 2 if takes else 1
        assert {"--postgres", "--web"} <= {word.partition("=")[0] for word in joined}
        found = []
        for word in joined:
            option, equals, value = word.partition("=")
            if option in ("--postgres", "--web"):
                assert re.fullmatch(r"(0\.0\.0\.0|127\.0\.0\.1):(5433|8080)", value)
                continue
            known = self.paths.get(word) or self.paths.get(value)
            assert known or option == "--tls-required", word
            found.append(word if not known else f"{option}={known}" if equals and word.startswith("--") else known)
        return found


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places(tmp_path_factory.mktemp("deploy"))


@pytest.fixture
def served() -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def serve(arguments: list[str]) -> Machine:
        made.append(Machine(*arguments))
        return made[-1]

    yield serve
    for machine in made:
        machine.end()


def instructions() -> dict[str, str]:
    """The last of each kind in the container file."""
    text = (DEPLOY / "container" / "Dockerfile").read_text().replace("\\\n", " ")
    return dict(line.split(None, 1) for line in text.splitlines() if line and not line.startswith(("#", " ")))


def test_the_commands_of_the_container_and_of_the_unit_serve(places: Places, served: Callable[..., Machine]) -> None:
    said = instructions()
    assert json.loads(said["ENTRYPOINT"]) == ["sqlengine"] and said["USER"] == "10001:10001"
    machine = served(places.arguments(json.loads(said["CMD"])))
    text = (DEPLOY / "systemd" / "sqlengine.service").read_text()
    (command,) = re.findall(r"^ExecStart=/opt/sqlengine/bin/sqlengine (.*)$", text, re.MULTILINE)
    machine.says("Browsers open")
    # Here both have one database.
    other = served(places.arguments(shlex.split(command)))
    other.says("standing by for")
    check = json.loads(said["HEALTHCHECK"].partition("CMD")[2])
    looked = [word.replace(":8080", f":{machine.ports[1]}") for word in check]
    assert looked[0] == "python"
    subprocess.run([sys.executable, "-S", *looked[1:]], check=True)
    with psycopg.connect(f"host=127.0.0.1 port={machine.ports[0]} user=ann password=geheim") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    machine.process.terminate()
    other.says("PostgreSQL clients connect")


def test_the_command_of_the_pods_serves(places: Places, served: Callable[..., Machine]) -> None:
    found = [stateful_set(name)["template"]["spec"]["containers"][0] for name in PODS]
    # They differ in where the database is.
    assert found[0]["args"][:-1] == found[1]["args"][:-1] and places.arguments(found[1]["args"])
    container = found[0]
    machine = served(places.arguments(container["args"]))
    machine.says("Browsers open")
    trusting = ssl.create_default_context(cafile=places.cert)
    trusting.check_hostname = False
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[probe]["httpGet"]
        url = f"{get['scheme'].lower()}://127.0.0.1:{machine.ports[1]}{get['path']}"
        with urllib.request.urlopen(url, timeout=5, context=trusting) as answer:
            assert answer.status == 200
    where = f"host=127.0.0.1 port={machine.ports[0]} user=ann password=geheim"
    with psycopg.connect(f"{where} sslmode=require") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_secret_that_root_gives_the_servers_group_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = tmp_path / "users"
    users.write_text("ann:geheim\n")
    users.chmod(0o440)
    if os.stat(users).st_uid == 0:
        monkeypatch.setattr(os, "geteuid", lambda: 10001)
        assert list(running.users_of(str(users))) == ["ann"]
    for mode in (0o444, 0o460):
        users.chmod(mode)
        with pytest.raises(OptionError, match="chmod 600"):
            running.users_of(str(users))
