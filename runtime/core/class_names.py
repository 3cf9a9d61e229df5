"""Names of classes, which structured types and RAW have: as Java writes them, `com.example.User`.

No class is loaded: the name tells types with the same fields apart.
"""

from __future__ import annotations

import base64
import binascii
import re

__all__ = ["CLASS_NAME_HINT", "SNAPSHOT_HINT", "is_class_name", "is_snapshot"]

_NAME = re.compile(r"(?!\d)[\w$]+(?:\.(?!\d)[\w$]+)*")
_WORDS_OF_JAVA = frozenset(
    (
        *("_", "abstract", "assert", "boolean", "break", "byte", "case", "catch", "char", "class", "const", "continue"),
        *("default", "do", "double", "else", "enum", "extends", "false", "final", "finally", "float", "for", "goto"),
        *("if", "implements", "import", "instanceof", "int", "interface", "long", "native", "new", "null", "package"),
        *("private", "protected", "public", "return", "short", "static", "strictfp", "super", "switch"),
        *("synchronized", "this", "throw", "throws", "transient", "true", "try", "void", "volatile", "while"),
    )
)
CLASS_NAME_HINT = "a class is named like 'com.example.User': letters, digits, _ and $ between dots"


def is_class_name(text: str) -> bool:
    """Whether a text is the name of a class: identifiers of Java with dots between, none of them a word of Java."""
    return _NAME.fullmatch(text) is not None and _WORDS_OF_JAVA.isdisjoint(text.split("."))


SNAPSHOT_HINT = "Flink's SHOW CREATE TABLE shows the type with its snapshot"


def is_snapshot(text: str) -> bool:
    """Whether a text is what Flink writes of a serializer: in Base64 the name of the snapshot's class behind two bytes of
    its length, a version in four bytes, and whatever the class writes."""
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    end = 2 + int.from_bytes(data[:2], "big")
    return len(data) >= end + 4 and is_class_name(data[2:end].decode("utf-8", "replace"))
