"""Answers of Flink that a reader would not guess, and the shapes of results."""

from __future__ import annotations

import pytest
from calls import FUNCTIONS, column, evaluate, value

from runtime.core.types import INT, STRING, char, varchar
from runtime.expr.nodes import Literal
from runtime.expr.typing import resolve_call

PECULIAR = [
    (("INITCAP", "été o'neil a_b 9ab"), "Été O'Neil A_B 9ab"),
    (("SUBSTRING", "hello", 0, 2), "he"),
    (("SUBSTRING", "hello", -3, 2), "ll"),
    (("SUBSTRING", "hello", -9), ""),
    (("SUBSTRING", "hello", 2, -1), None),
    (("LEFT", "hello", -1), ""),
    (("OVERLAY", "hello", "abc", 0), "hello"),
    (("OVERLAY", "hello", "abc", 2, 0), "habc"),
    (("OVERLAY", "xxxxtest", "xxxx", 6), "xxxxtxxxx"),
    (("INSTR", "Corporate Floor", "or", 3, 2), 14),
    (("INSTR", "Corporate Floor", "or", -3, 2), 2),
    (("INSTR", "hello", ""), 1),
    (("LOCATE", "", "hello", 9), 1),
    (("SPLIT_INDEX", "a,,c", ",", 1), ""),
    (("SPLIT_INDEX", "", ",", 0), None),
    (("SPLIT_INDEX", "axbxc", 120, 1), "b"),
    (("SPLIT_INDEX", "a b\tc", "", 2), "c"),
    (("SPLIT", "", ","), []),
    (("SPLIT", "abc", ""), ["a", "b", "c"]),
    (("TRANSLATE", "hello", "elo", "ip"), "hipp"),
    (("TRANSLATE", "hello", None, "x"), "hello"),
    (("REPLACE", "abc", "", "-"), "-a-b-c-"),
    (("CONCAT_WS", ",", None, None), ""),
    (("CONCAT_WS", ",", None, "a", None, "b"), "a,b"),
    (("ASCII", "é"), 233),
    (("ASCII", "😀x"), 0x1F600),
    (("ASCII", ""), 0),
    (("CHR", 321), "A"),
    (("CHR", -1), ""),
    (("ENCODE", "hi", "UTF-16"), b"\xfe\xff\x00h\x00i"),
    (("INET_ATON", "127.1"), 2130706433),
    (("INET_ATON", "127.1.256"), None),
    (("INET_NTOA", 4294967295), "255.255.255.255"),
    (("STR_TO_MAP", "k1$$v1|k2$$v2|", r"\|", r"\$\$"), [("k1", "v1"), ("k2", "v2")]),
    (("STR_TO_MAP", "a"), [("a", None)]),
    (("PARSE_URL", "http://u:pw@h.org:80/p/a.html?q=1&r=x%20y#f", "FILE"), "/p/a.html?q=1&r=x%20y"),
    (("PARSE_URL", "http://u:pw@h.org:80/p", "AUTHORITY"), "u:pw@h.org:80"),
    (("PARSE_URL", "http://h.org/p?q=1&r=2", "QUERY", "r"), "2"),
    (("PARSE_URL", "gopher://h.org/", "HOST"), None),
    (("URL_DECODE", "a+%zz"), None),
    (("URL_ENCODE", "a b~*é"), "a+b%7E*%C3%A9"),
    (("PRINTF", "%05d|%8.3f|%-5s|%,d|%x", 42, "x", "ab", 1, 1), None),
    (("PRINTF", "%2$s %1$05d %s %%", -42, "b"), "b -0042 -42 %"),
    (("PRINTF", "%s", None), "null"),
]


@pytest.mark.parametrize(("call", "expected"), PECULIAR, ids=[f"{c[0]}{c[1:]}" for c, _ in PECULIAR])
def test_as_flink(call: tuple, expected: object) -> None:
    assert value(*call) == expected


def test_case_of_letters_beyond_ascii() -> None:
    assert evaluate("UPPER", column("abc", "straße", None, "ﬁ")) == ["ABC", "STRASSE", None, "FI"]
    assert value("UPPER", Literal("straße", char(6).not_null())) == "STRASSE"
    assert evaluate("INITCAP", column("ßa ǆ", None, "éTÉ o'neil")) == ["Ssa ǅ", None, "Été O'Neil"]


@pytest.mark.parametrize("name", ["UPPER", "LOWER", "INITCAP"])
def test_another_case_has_room_for_every_letter(name: str) -> None:
    """The type of a result has as many characters as the longest one needs, of any text of the argument's type."""
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    found = evaluate(name, column(*letters))
    grown = {letter for letter, changed in zip(letters, found, strict=True) if len(changed) > 1}
    longest = max(len(changed) for changed in found)
    assert grown
    _, result = resolve_call(FUNCTIONS.scalar(name), (char(6),))
    assert result == varchar(6 * longest)
    assert resolve_call(FUNCTIONS.scalar(name), (varchar(6),))[1] == result
    assert resolve_call(FUNCTIONS.scalar(name), (STRING,))[1] == STRING
    for letter in sorted(grown):
        literal = Literal(letter, char(1).not_null())
        _, exact = resolve_call(FUNCTIONS.scalar(name), (literal.type,), [literal])
        assert exact == char(len(value(name, literal))).not_null()
    plain = Literal("éñ1_", char(4).not_null())
    assert resolve_call(FUNCTIONS.scalar(name), (plain.type,), [plain])[1] == plain.type


def test_nothing_to_pad_with_is_null() -> None:
    assert value("LPAD", "hi", 4, "") is None
    assert value("RPAD", "hi", -1, "x") is None
    assert evaluate("LPAD", column("hi", None), 4, "") == [None, None]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("||", (char(3), char(4)), char(7)),
        ("||", (char(3), varchar(4)), varchar(7)),
        ("||", (char(3), STRING), STRING),
        ("OVERLAY", (char(3), varchar(4), INT), varchar(7)),
        ("ELT", (INT, char(1), char(3)), varchar(3)),
        ("TRIM", (char(5),), varchar(5)),
    ],
)
def test_lengths_of_types(name: str, given: tuple, expected: object) -> None:
    assert resolve_call(FUNCTIONS.scalar(name), given)[1] == expected
