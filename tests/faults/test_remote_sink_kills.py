"""A job that writes files to an object store, where its checkpoints are, too, is killed while it does."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys

from tests.faults.conftest import FIRST_SEED, KILLS
from tests.servers.s3 import Bucket

ROWS = 1200
JOB = f"""
import json, sys
from sqlengine import TableEnvironment
options, place = json.loads(sys.argv[1]), sys.argv[2]
listed = ", ".join(f"'{{k}}' = '{{v}}'" for k, v in options.items())
environment = TableEnvironment.create({{
    "execution.checkpointing.dir": place, "execution.checkpointing.interval": "50 ms", "pipeline.name": "numbers",
}})
environment.execute_sql("CREATE TABLE numbers (id BIGINT, part BIGINT) WITH ('connector' = 'datagen',"
    " 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{ROWS}', 'rows-per-second' = '2000',"
    " 'fields.part.kind' = 'sequence', 'fields.part.start' = '1', 'fields.part.end' = '{ROWS}')")
environment.execute_sql("CREATE TABLE out (id BIGINT, part BIGINT) PARTITIONED BY (part) WITH ('connector' = 'filesystem',"
    f" 'path' = 's3://killed/out', 'format' = 'json', 'sink.rolling-policy.file-size' = '1 kb', {{listed}})")
print("begins", flush=True)
environment.execute_sql("INSERT INTO out SELECT id, part / 700 FROM numbers").wait()
print("done", flush=True)
"""


def test_every_row_once_whatever_is_killed_when(s3_endpoint: str) -> None:
    bucket, rng, kills = Bucket.made(s3_endpoint, "killed"), random.Random(FIRST_SEED), 0
    host = s3_endpoint.removeprefix("http://")
    place = f"s3://killed/checkpoints?region=us-east-1&scheme=http&endpoint_override={host}"
    command = [sys.executable, "-c", JOB, json.dumps(bucket.options), place]
    variables = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "PATH": "/usr/bin:/bin"}
    while True:
        job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)
        assert job.stdout is not None and job.stdout.readline() == "begins\n"
        if kills == max(KILLS // 2, 1):
            assert job.stdout.read() == "done\n" and job.wait() == 0
            break
        wanted = rng.randrange(1, 12) + len(bucket.keys("out/"))
        while len(bucket.keys("out/")) < wanted and job.poll() is None:
            pass
        job.send_signal(signal.SIGKILL)
        job.wait()
        job.stdout.close()
        kills += 1
    files = bucket.files("out/")
    assert not [name for name in files if ".staged-" in name]
    shown = [json.loads(line)["id"] for name, data in files.items() if "/part-" in name for line in data.splitlines()]
    assert sorted(shown) == list(range(1, ROWS + 1))
