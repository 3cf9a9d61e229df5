"""A server that speaks S3 (moto), in this process, and a way to it that can be cut."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Bucket", "CutWay", "s3_server"]


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a new server; whatever its clients say, it knows them."""
    # Other sessions need not load it.
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@dataclass(frozen=True)
class Bucket:
    """A bucket of a server."""

    endpoint: str
    name: str

    @staticmethod
    def made(endpoint: str, name: str) -> Bucket:
        bucket = Bucket(endpoint, name)
        bucket.client.create_bucket(Bucket=name)
        return bucket

    @property
    def client(self) -> Any:
        import boto3

        return boto3.client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )

    @property
    def options(self) -> dict[str, str]:
        """Those of a table."""
        return {"s3.endpoint": self.endpoint, "s3.region": "us-east-1", "s3.access-key": "a", "s3.secret-key": "b"}

    def put(self, files: Mapping[str, bytes | str], **more: str) -> None:
        client = self.client
        for key, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            client.put_object(Bucket=self.name, Key=key, Body=data, **more)

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [o["Key"] for page in pages for o in page.get("Contents", ())]

    def files(self, prefix: str = "") -> dict[str, bytes]:
        """What is there, whoever wrote it."""
        client = self.client
        return {key: client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in self.keys(prefix)}


class CutWay:
    """Goes between clients and a server. While it is `refusing` every connection ends at once, while it is `silent` nothing
    is answered. `connections`: those that were made."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("http://").partition(":")
        self._to = host, int(port)
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.refusing = self.silent = False
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """From now on it is refusing, and what is open ends."""
        self.refusing = True
        for end in self._open:
            _ended(end)
        self._open.clear()

    def close(self) -> None:
        self.cut()
        _ended(self._listener)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.refusing:
                client.close()
                continue
            self._open.append(client)
            if self.silent:
                continue
            server = socket.create_connection(self._to)
            self._open.append(server)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _ended(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        _ended(end)
