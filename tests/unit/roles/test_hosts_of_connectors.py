"""Each connector that reaches another machine names it where a server looks (`--allow-host`, `--allow-path`)."""

from __future__ import annotations

import pytest

from runtime.core.errors import AccessError
from sqlengine.roles.outside import Outside

_ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/s"


@pytest.mark.parametrize(
    "options",
    [
        {"connector": "http", "url": "https://elsewhere/{id}"},
        {"connector": "http", "url": "https://good.example@elsewhere/"},
        {"connector": "websocket", "url": "wss://elsewhere/x?good.example"},
        {"connector": "socket", "hostname": "elsewhere", "port": "1"},
        {"connector": "webhook", "listen.address": "0.0.0.0:80"},
        {"connector": "elasticsearch-7", "hosts": "http://good.example:9200;http://elsewhere:9200"},
        {"connector": "mongodb", "uri": "mongodb://u:p@good.example:1,elsewhere:2/?w=1"},
        {"connector": "mongodb", "uri": "mongodb+srv://elsewhere"},
        {"connector": "mongodb-cdc", "hosts": "good.example:1,elsewhere:2"},
        {"connector": "clickhouse", "url": "clickhouse://good.example@elsewhere/shop"},
        {"connector": "clickhouse", "url": "jdbc:ch:https://elsewhere:8443"},
        {"connector": "kafka", "schema-registry.url": "http://good.example:1,http://elsewhere:2"},
        {"connector": "kinesis", "stream.arn": _ARN},
        {"connector": "kinesis", "stream.arn": _ARN, "aws.endpoint": ""},
        {"connector": "kinesis", "stream.arn": _ARN, "aws.endpoint": "http://elsewhere"},
    ],
    ids=lambda options: options["connector"],
)
def test_a_host_that_is_not_allowed(options: dict[str, str]) -> None:
    with pytest.raises(AccessError) as caught:
        Outside(None, ("good.example",)).check(options)
    assert caught.value.code == "E1802"


def test_a_host_that_is_allowed() -> None:
    outside = Outside(None, ("good.example", "kinesis.eu-west-1.amazonaws.com"))
    outside.check({"connector": "http", "url": "https://good.example/{id}"})
    outside.check({"connector": "mongodb", "uri": "mongodb://u:p,x@good.example:1,good.example/?w=1"})
    outside.check({"connector": "kafka", "schema-registry.url": "http://good.example:1,https://good.example"})
    outside.check({"connector": "kinesis", "stream.arn": _ARN})
    outside.check({"connector": "kinesis", "stream.arn": _ARN, "aws.endpoint": "http://good.example:4566"})


@pytest.mark.parametrize("key", ["spool.path", "ssl-certificate-path", "ssl-key-path", "ssl-root-cert-path"])
def test_a_path_that_is_not_allowed(key: str) -> None:
    with pytest.raises(AccessError) as caught:
        Outside(("/srv/data",), None).check({"connector": "webhook", key: "/srv/data/../secret"})
    assert caught.value.code == "E1801"
