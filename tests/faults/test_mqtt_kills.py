"""A process that receives messages of MQTT is killed with SIGKILL while it does: each message of QoS 2 is kept once.

`make faults` kills it 25 times.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

from connectors.kit.journal import opened_journal
from connectors.mqtt.session import kept_messages
from tests.faults.conftest import FIRST_SEED, KILLS
from tests.servers.mosquitto import PASSWORD, MosquittoServer
from tests.servers.waiting import until

KILLED_SOURCES = ("mqtt",)
AT_ONCE = 150
_PROGRAM = """
import sys
from pathlib import Path
from connectors.kit.journal import opened_journal
from connectors.mqtt.address import Address
from connectors.mqtt.session import Subscription, receiving
from runtime.core.secrets import Secret
folder, port, topic, password = sys.argv[1:]
address = Address("127.0.0.1", int(port), False, "test", Secret(password))
with opened_journal(Path(folder), 1e9, 1 << 30) as journal:
    with receiving(Path(folder), journal, Subscription(address, topic, (topic,), 2, 1 << 20)) as session:
        session.subscribed.wait()
        at = journal.end
        print("open", flush=True)
        while True:
            session.check()
            journal.wait(at, 0.1)
            at = journal.end
"""


def test_each_message_is_kept_once(mosquitto: MosquittoServer, tmp_path: Path) -> None:
    rng = random.Random(FIRST_SEED)
    folder = tmp_path / "spool"
    command = [sys.executable, "-c", _PROGRAM, str(folder), str(mosquitto.port), mosquitto.topic, PASSWORD]
    sent = 0
    for _ in range(max(KILLS // 2, 2)):
        job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert job.stdout is not None and job.stdout.readline() == "open\n"
        bodies = [json.dumps({"id": i}).encode() for i in range(sent, sent + AT_ONCE)]
        sender = threading.Thread(target=mosquitto.publish_at_once, args=(mosquitto.topic, bodies))
        wanted = _found(folder) + rng.randint(1, AT_ONCE // 2)
        sender.start()
        until(lambda wanted=wanted: _found(folder) >= wanted, job)
        job.send_signal(signal.SIGKILL)
        job.wait()
        job.stdout.close()
        sender.join()
        sent += AT_ONCE
    job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    until(lambda: _found(folder) >= sent, job)
    # What comes twice would come before this.
    mosquitto.publish(mosquitto.topic, json.dumps({"id": sent}).encode(), qos=2)
    until(lambda: _found(folder) > sent, job)
    job.kill()
    job.wait()
    assert job.stdout is not None
    job.stdout.close()
    with opened_journal(folder, 1e9, 1 << 30) as journal:
        at, ids = journal.begin, []
        while True:
            messages, at = journal.read(at)
            if not messages:
                break
            ids += [json.loads(m.body)["id"] for m in kept_messages(messages)]
    assert sorted(ids) == list(range(sent + 1))


def _found(folder: Path) -> int:
    """How many messages the files have, seen from beside the process that has them open."""
    return sum(path.read_bytes().count(b'{"id": ') for path in folder.glob("*.log"))
