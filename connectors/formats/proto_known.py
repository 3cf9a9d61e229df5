"""Files of .proto that others take in without having them: those that come with protoc, and with registries."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.formats.proto_model import BadSchema, Linked, ProtoFile, linked
from connectors.formats.proto_text import parse_proto

__all__ = ["linked_texts"]

_WRAPPED = ("double", "float", "int64", "uint64", "int32", "uint32", "bool", "string", "bytes")
_NAMES = {"int64": "Int64", "uint64": "UInt64", "int32": "Int32", "uint32": "UInt32"}
_WRAPPERS = " ".join(f"message {_NAMES.get(k, k.capitalize())}Value {{ {k} value = 1; }}" for k in _WRAPPED)
_GOOGLE = 'syntax = "proto3"; package google.protobuf; '
_TYPES = 'syntax = "proto3"; package google.type; '
_KNOWN: Mapping[str, str] = {
    "google/protobuf/timestamp.proto": _GOOGLE + "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/duration.proto": _GOOGLE + "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/wrappers.proto": _GOOGLE + _WRAPPERS,
    "google/protobuf/any.proto": _GOOGLE + "message Any { string type_url = 1; bytes value = 2; }",
    "google/protobuf/empty.proto": _GOOGLE + "message Empty {}",
    "google/protobuf/field_mask.proto": _GOOGLE + "message FieldMask { repeated string paths = 1; }",
    "google/protobuf/struct.proto": _GOOGLE
    + """message Struct { map<string, Value> fields = 1; }
      message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3;
        bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } }
      enum NullValue { NULL_VALUE = 0; } message ListValue { repeated Value values = 1; }""",
    "google/protobuf/descriptor.proto": 'syntax = "proto2"; package google.protobuf;',
    "google/type/date.proto": _TYPES + "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/timeofday.proto": _TYPES
    + "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
    "confluent/meta.proto": 'syntax = "proto3"; package confluent;',
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type; '
    "message Decimal { bytes value = 1; int32 precision = 2; int32 scale = 3; }",
}


def linked_texts(text: str, others: Mapping[str, str]) -> Linked:
    """The messages of a file.

    Args:
        others: the texts of the files that it may take in, beside those that everybody knows.

    Raises:
        BadSchema: it is no such text, or takes in a file that is not there.
    """
    files: dict[str, ProtoFile] = {}
    main = parse_proto("", text)
    waiting = list(main.imports)
    while waiting:
        name = waiting.pop()
        if name in files:
            continue
        found = others.get(name, _KNOWN.get(name))
        if found is None:
            raise BadSchema(f"it takes in {name}, which is not there")
        try:
            files[name] = parse_proto(name, found)
        except BadSchema as error:
            raise BadSchema(f"{name}, {error}") from error
        waiting += files[name].imports
    return linked([*files.values(), main])
