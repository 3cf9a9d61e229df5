"""Calls of the kernels of Protobuf: random messages, whole and spoilt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from connectors.formats.proto_descriptors import parse_descriptors
from connectors.formats.proto_model import ProtoMessage, linked
from connectors.formats.proto_reading import proto_program
from connectors.formats.proto_types import columns_of_message
from connectors.formats.proto_writing import encode_proto
from runtime.core.schema import Schema
from runtime.kernels.proto_read import read_messages
from tests.unit.kernels.avro_calls import spoilt

__all__ = ["COLUMNS", "FOLDER", "MESSAGES", "of_protobuf", "our_message", "random_message", "their_class"]

FOLDER = Path(__file__).parents[1] / "connectors" / "protos"
MESSAGES = {"every": "shop.v1.Every", "old": "shop.Old"}
_LEFT_OUT = ("extra", "self")
_TEXTS = ("", "a", "äß", "\U0001f600 long text", "x" * 130)
_EDGES = (0, 1, -1, 127, 128, 300, (1 << 31) - 1, -(1 << 31), (1 << 32) - 1, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1)
_RANGES = {"i32": (-(1 << 31), 1 << 31), "i64": (-(1 << 63), 1 << 63), "u32": (0, 1 << 32), "u64": (0, 1 << 64)}
_KINDS = {3: "i64", 4: "u64", 5: "i32", 6: "u64", 7: "u32", 13: "u32", 15: "i32", 16: "i64", 17: "i32", 18: "i64"}


def our_message(file: str) -> ProtoMessage:
    """The message of a descriptor set, as it is read here."""
    return linked(parse_descriptors((FOLDER / f"{file}.desc").read_bytes())).find(MESSAGES[file])


def their_class(file: str) -> Any:
    """The class that Google's library makes of the same descriptor set."""
    found = descriptor_pb2.FileDescriptorSet.FromString((FOLDER / f"{file}.desc").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for one in found.file:
        pool.Add(one)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(MESSAGES[file]))


def columns(file: str) -> Schema:
    """All fields that can be columns."""
    message = our_message(file)
    message.fields = [f for f in message.fields if f.name not in ("extra", "self")]
    return columns_of_message(message)


COLUMNS = {file: columns(file) for file in MESSAGES}


def _scalar(rng: np.random.Generator, field: Any) -> Any:
    kind = field.type
    if kind in _KINDS:
        low, high = _RANGES[_KINDS[kind]]
        value = _EDGES[rng.integers(len(_EDGES))]
        return value if low <= value < high else int(rng.integers(0, 1000))
    match kind:
        case 1 | 2:
            value = [0.0, -0.0, 1.5, float("inf"), float(rng.normal())][rng.integers(5)]
            return float(np.float32(value)) if kind == 2 else value
        case 8:
            return bool(rng.integers(2))
        case 9:
            return _TEXTS[rng.integers(len(_TEXTS))]
        case 14:
            return field.enum_type.values[rng.integers(len(field.enum_type.values))].number
        case _:
            return rng.bytes(int(rng.integers(0, 6)))


def random_message(rng: np.random.Generator, message: Any, depth: int = 0) -> Any:
    """Fills a message of Google's library."""
    if message.DESCRIPTOR.name == "Timestamp":
        message.seconds, message.nanos = int(rng.integers(-(2**31), 2**32)), int(rng.integers(0, 10**9))
        return message
    for field in message.DESCRIPTOR.fields:
        needed = getattr(field, "is_required", False) or field.name == "id"
        if field.name in _LEFT_OUT or (not needed and rng.integers(3) == 0):
            continue
        if getattr(field, "is_repeated", False):
            _repeat(rng, message, field, depth)
        elif field.message_type is not None:
            if depth < 3:
                inner = getattr(message, field.name)
                inner.SetInParent()
                random_message(rng, inner, depth + 1)
        else:
            setattr(message, field.name, _scalar(rng, field))
    return message


def _repeat(rng: np.random.Generator, message: Any, field: Any, depth: int) -> None:
    there, type_ = getattr(message, field.name), field.message_type
    for _ in range(rng.integers(0, 4)):
        if type_ is None:
            there.append(_scalar(rng, field))
        elif type_.GetOptions().map_entry:
            key, value = (type_.fields_by_name[name] for name in ("key", "value"))
            made = _scalar(rng, key)
            if value.message_type is None:
                there[made] = _scalar(rng, value)
            else:
                random_message(rng, there[made], depth + 1)
        else:
            random_message(rng, there.add(), depth + 1)


def _read(program: Any, messages: list[bytes]) -> list[np.ndarray]:
    lengths = np.array([len(m) for m in messages], np.int64)
    ends = np.cumsum(lengths)
    columns, state = read_messages(program, np.frombuffer(b"".join(messages), np.uint8), ends - lengths, ends)
    for column in columns:
        column.validate(full=True)
    return [state, np.array([str(column) for column in columns], object)]


def _small(rng: np.random.Generator) -> list[np.ndarray]:
    """A few messages, a few columns."""
    schema = Schema(tuple(COLUMNS["old"][COLUMNS["old"].index_of(n)] for n in ("id", "name", "color", "packed", "a")))
    messages = [random_message(rng, their_class("old")()).SerializeToString() for _ in range(6)]
    message = our_message("old")
    found = _read(proto_program(message, schema, defaults=True), messages)
    rows = len(messages)
    arrays = [pa.array([1] * rows, pa.int32()), pa.array(["x"] * rows), pa.array(["RED"] * rows)]
    arrays += [pa.array([[1, 2]] * rows, pa.list_(pa.int32())), pa.array([None] * rows, pa.int32())]
    return [*found, np.array(encode_proto(schema, arrays, message, rows).to_pylist(), object)]


def of_protobuf(rng: np.random.Generator, rows: int) -> list[Any]:
    """What the kernels make of messages, and of those that are spoilt."""
    rows = min(rows, 20)
    found = _small(rng)
    for file, schema in COLUMNS.items():
        theirs, ours = their_class(file), our_message(file)
        messages = [random_message(rng, theirs()).SerializeToString() for _ in range(rows)]
        some = Schema(tuple(f for f in schema if rng.integers(2)) or schema.fields[:1])
        for wanted, defaults in ((schema, False), (some, True)):
            program = proto_program(ours, wanted, defaults=defaults)
            found += _read(program, messages)
            found += _read(program, spoilt(rng, messages))
            # Two messages one behind the other are one in which what is there twice counts once.
            found += _read(program, [m + messages[rng.integers(rows)] for m in messages])
        lengths = np.array([len(m) for m in messages], np.int64)
        ends = np.cumsum(lengths)
        program = proto_program(ours, schema)
        columns, _ = read_messages(program, np.frombuffer(b"".join(messages), np.uint8), ends - lengths, ends)
        arrays = [c.slice(rows // 3) for c in columns]
        written = encode_proto(schema, arrays, ours, len(arrays[0]), b"\x00abc", "none")
        assert isinstance(written, pa.Array)
        found.append(np.array(written.to_pylist(), object))
    return found
