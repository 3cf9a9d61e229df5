"""Malformed and odd records of text formats, by name: what people, other programs and broken disks put into files."""

from __future__ import annotations

from runtime.core.schema import Schema
from runtime.core.types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIME,
    array,
    decimal,
    row,
    timestamp,
    timestamp_ltz,
)

__all__ = ["CSV", "CSV_SCHEMA", "JSON", "JSON_SCHEMA", "csv_good", "json_good"]

JSON_SCHEMA = Schema.of(
    ("a", INT),
    ("s", STRING),
    ("d", DOUBLE),
    ("c", decimal(8, 2)),
    ("b", BOOLEAN),
    ("t", timestamp(3)),
    ("z", timestamp_ltz(3)),
    ("y", BYTES),
    ("day", DATE),
    ("h", TIME),
    ("l", array(INT)),
    ("r", row(("x", INT))),
    ("n", timestamp(9)),
)
DEEP = 50_000


def json_good(number: int) -> bytes:
    return b'{"a": %d, "s": "t%d", "d": 0.5, "c": 1.25, "b": true, "l": [1, 2], "r": {"x": 1}}' % (number, number)


def _fields() -> dict[str, bytes]:
    """Values of a column that are odd or none of its type."""
    wrong = {
        "a": [
            "1.5",
            "2147483648",
            "-2147483649",
            "1e999999",
            "1e-999999",
            "true",
            "[1]",
            "{}",
            '"x"',
            '"0x1"',
            "1e400",
        ],
        "s": [
            '"\\ud800"',
            '"\\udc00x"',
            '"\\ud800\\u0041"',
            '"\\x"',
            '"\\u12"',
            '"\\uZZZZ"',
            '"\t"',
            '"\x00"',
            "[1, {}]",
        ],
        "d": ["NaN", "Infinity", "-Infinity", "1e999", "1e999999999", '"1,5"', "1.", ".5", "1e", "--1", "[0.5]"],
        "c": ["1e20", "1e999999", "1e99999999999999999999", "1234567.89", '"1e7"', "{}", "NaN", "1e-99999999"],
        "b": ["1", '"yes"', "True", "tru", "[]"],
        "t": ['"2024-13-01 00:00:00"', '"2024-02-30 00:00:00"', '"2024-01-01T00:00:00"', '"99999-01-01 00:00:00"', "5"],
        "z": ['"2024-01-01 00:00:00+99:99"', '"2024-01-01"', '"now"', "[]"],
        "y": ['"?"', '"aGk"', '"a"', "1", '"aGk=aGk="'],
        "day": ['"2023-02-29"', '"0000-01-01"', '"10000-01-01"', '"2024-1-1"', "20240101"],
        "h": ['"24:00:00"', '"10:61"', '"1:2:3"', "10"],
        "l": ["[1, 1e999999]", "[[1]]", "{}", '"[1]"', "1", '[1, "x"]'],
        "r": ['{"x": []}', "[]", '"x"', '{"x": 1e99}', '{"x": 99999999999}'],
        "n": ['"3000-01-01 00:00:00"', '"0001-01-01 00:00:00"', '"2262-04-12 00:00:00"'],
    }
    return {
        f"{column} {value}".encode("unicode_escape").decode(): f'{{"{column}": {value}}}'.encode()
        for column, values in wrong.items()
        for value in values
    }


JSON: dict[str, bytes] = {
    **_fields(),
    "nothing but a brace": b"{",
    "a closing brace": b"}",
    "cut in a key": b'{"a',
    "cut in a number": b'{"a": 1',
    "cut in a text": b'{"s": "abc',
    "cut in an escape": b'{"s": "abc\\',
    "cut in a list": b'{"l": [1, 2',
    "a comma too many": b'{"a": 1,}',
    "two commas": b'{"a": 1,, "s": "x"}',
    "no comma": b'{"a": 1 "s": "x"}',
    "no colon": b'{"a" 1}',
    "single quotes": b"{'a': 1}",
    "a key without quotes": b"{a: 1}",
    "a number as key": b"{1: 1}",
    "a comment": b'{"a": 1 /* one */}',
    "a comment behind": b'{"a": 1} // one',
    "text behind": b'{"a": 1} x',
    "two objects": b'{"a": 1}{"a": 2}',
    "two objects with a comma": b'{"a": 1}, {"a": 2}',
    "a leading zero": b'{"a": 01}',
    "a plus": b'{"a": +1}',
    "hexadecimal": b'{"a": 0x10}',
    "an underscore": b'{"a": 1_000}',
    "a key twice": b'{"a": 1, "a": 2}',
    "a key twice, of other types": b'{"a": 1, "a": "x"}',
    "an empty key": b'{"": 1, "a": 2}',
    "a lone surrogate as key": b'{"\\ud800": 1, "a": 2}',
    "a lone surrogate that nobody reads": b'{"q": "\\ud800", "a": 2}',
    "a lone surrogate in a list as text": b'{"s": ["\\ud800"]}',
    "a surrogate as bytes": b'{"s": "\xed\xa0\x80"}',
    "bytes that are no text": b'{"s": "\xff\xfe"}',
    "bytes cut within a character": b'{"s": "\xc3"}',
    "an overlong slash": b'{"s": "\xc0\xaf"}',
    "beyond Unicode": b'{"s": "\xf4\x90\x80\x80"}',
    "a byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "UTF-16": '{"a": 1}'.encode("utf-16-le"),
    "zeros": b"\0" * 50,
    "a zero within": b'{"a": 1\0}',
    "a zero behind": b'{"a": 1}\0',
    "a zero in a text": b'{"s": "a\0b"}',
    "an escaped zero": b'{"s": "a\\u0000b"}',
    "a carriage return within": b'{"a": \r1}',
    "a vertical tab": b'{"a":\x0b1}',
    "a blank of another kind": b'{"a":\xc2\xa01}',
    "a line separator": b'{"s": "\xe2\x80\xa8"}',
    "a text": b'"x"',
    "a number": b"5",
    "a truth": b"true",
    "nothing": b"null",
    "an empty object": b"{}",
    "a list of numbers": b"[1, 2]",
    "a list of lists": b"[[]]",
    "a list in an object in a list": b'[{"a": [1]}]',
    "a list that is cut": b'[{"a": 1}, {"a":',
    "deep lists": b'{"l": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep lists that nobody reads": b'{"q": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep lists that are not closed": b'{"l": ' + b"[" * DEEP + b"}",
    "deep objects": b'{"r":' * DEEP + b"1" + b"}" * DEEP,
    "deep lists alone": b"[" * DEEP,
    "deep lists as text": b'{"s": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    "a number of many digits": b'{"a": ' + b"9" * 100_000 + b"}",
    "a fraction of many digits": b'{"c": 0.' + b"9" * 100_000 + b"}",
    "many digits as text": b'{"s": ' + b"9" * 100_000 + b"}",
    "many digits as a double": b'{"d": ' + b"9" * 100_000 + b"}",
    "many keys": b"{" + b", ".join(b'"k%d": 1' % i for i in range(5000)) + b"}",
    "a long text": b'{"s": "' + b"x" * 200_000 + b'"}',
    "a long text that is cut": b'{"s": "' + b"x" * 200_000,
    "many blanks": b'{"a":' + b" " * 100_000 + b"1}",
    "quotes alone": b'"' * 999,
    "escapes alone": b"\\" * 999,
    "XML": b"<a>1</a>",
    "CSV": b"1,x,2",
    "a stack trace": b'Exception in thread "main" java.lang.NullPointerException',
    "Python's spelling": b"{'a': None, 'b': True}",
    "undefined": b'{"a": undefined}',
    "a text over columns": b'{"a": "1", "s": 1, "d": "0.5", "c": "1.25", "b": "true"}',
}

CSV_SCHEMA = Schema.of(
    ("a", INT), ("s", STRING), ("c", decimal(8, 2)), ("t", timestamp(3)), ("y", BYTES), ("b", BOOLEAN)
)


def csv_good(number: int) -> bytes:
    return b"%d,t%d,1.25,2024-05-01 00:00:00,aGk=,true" % (number, number)


def _cells() -> dict[str, bytes]:
    wrong = {
        0: ["x", "1.5", "2147483648", "0x10", "1e3", "1_0", "--1", "+-1", "true", "\0", "\u0661", "9" * 50_000, "1 2"],
        2: ["x", "1234567", "1e20", "1e999999", "1e99999999999", ".", "-", "1.2.3", "NaN", "9" * 50_000, "1,5"],
        3: [
            "2024-13-01 00:00:00",
            "2024-02-30 00:00:00",
            "99999-01-01 00:00:00",
            "24:00",
            "now",
            "2024-05-01 25:00:00",
        ],
        4: ["?", "a", "aGk=aGk=", "aGk==", "====", "\u00e9"],
        5: ["1", "yes", "tru", "TRUE FALSE", "\x01"],
    }
    found: dict[str, bytes] = {}
    for column, values in wrong.items():
        for value in values:
            cells = ["1", "x", "1.25", "2024-05-01 00:00:00", "aGk=", "true"]
            cells[column] = value
            name = f"column {column} {value[:30]}".encode("unicode_escape").decode()
            found[name] = ",".join(cells).encode()
    return found


_REST = b",1.25,2024-05-01 00:00:00,aGk=,true"
CSV: dict[str, bytes] = {
    **_cells(),
    "one value": b"1",
    "two values": b"1,x",
    "one value too few": b"1,x,1.25,2024-05-01 00:00:00,aGk=",
    "one value too many": b"1,x" + _REST + b",9",
    "many values": b"," * 50_000,
    "delimiters alone": b",,,,,",
    "another delimiter": b"1;x;1.25;2024-05-01 00:00:00;aGk=;true",
    "tabs": b"1\tx\t1.25",
    "blanks alone": b"   ",
    "an unclosed quote": b'1,"x' + _REST,
    "an unclosed quote at the start": b'"1,x' + _REST,
    "an unclosed quote at the end": b'1,x,1.25,2024-05-01 00:00:00,aGk=,"true',
    "an unclosed quote of a doubled one": b'1,"x""' + _REST,
    "a lone quote": b'1,"' + _REST,
    "a quote alone": b'"',
    "three quotes": b'"""',
    "three quotes in a value": b'1,"""' + _REST,
    "five quotes in a value": b'1,"""""' + _REST,
    "many quotes": b'"' * 20_001,
    "a quote within": b'1,5" disk' + _REST,
    "two quotes within": b'1,a"b"c' + _REST,
    "a quote behind": b'1,x"' + _REST,
    "text behind a closing quote": b'1,"x"y' + _REST,
    "a blank behind a closing quote": b'1,"x" ' + _REST,
    "a blank before an opening quote": b'1, "x"' + _REST,
    "quotes that chain to the next line": b'x","y',
    "quotes that chain with delimiters": b'1,",",",' + _REST,
    "an empty value in quotes": b'1,""' + _REST,
    "a number in quotes": b'"1","x"' + _REST,
    "another kind of quote": b"1,'x,y'" + _REST,
    "a backslash before a quote": b'1,"x\\"y"' + _REST,
    "a backslash at the end": b"1,x" + _REST + b"\\",
    "a zero byte": b"1,x\0y" + _REST,
    "zeros alone": b"\0" * 50,
    "zeros with delimiters": b"\0,\0,\0,\0,\0,\0",
    "bytes that are no text": b"1,\xff\xfe" + _REST,
    "bytes cut within a character": b"1,\xc3" + _REST,
    "a surrogate as bytes": b"1,\xed\xa0\x80" + _REST,
    "an overlong slash": b"1,\xc0\xaf" + _REST,
    "bytes that are no text in quotes": b'1,"\xff"' + _REST,
    "an unclosed quote and bytes that are no text": b'1,"\xff' + _REST,
    "UTF-16": "1,x".encode("utf-16-le"),
    "a byte order mark": b"\xef\xbb\xbf1,x" + _REST,
    "a control character": b"1,\x07" + _REST,
    "a line separator": b"1,\xe2\x80\xa8" + _REST,
    "a comment": b"# comment",
    "a header": b"a,s,c,t,y,b",
    "JSON": b'{"a": 1, "s": "x"}',
    "XML": b"<a>1</a>",
    "SQL": b"INSERT INTO t VALUES (1, 'x');",
    "a formula": b"=1+1,x" + _REST,
    "a long text": b"1," + b"x" * 200_000 + _REST,
    "a long text in quotes": b'1,"' + b"x" * 200_000 + b'"' + _REST,
    "a long text in a quote that is not closed": b'1,"' + b"x" * 200_000 + _REST,
    "many doubled quotes": b'1,"' + b'""' * 50_000 + b'"' + _REST,
    "many quoted values": b",".join([b'"x"'] * 20_000),
    "a quote, a delimiter and a quote": b'1,","' + _REST,
    "quotes around all but a comma": b'"1,x,1.25,2024-05-01 00:00:00,aGk=,true"',
    "a quote in each value": b'1","x","1.25","2024","a","t',
    "four quotes at the end": b'1,x,1.25,2024-05-01 00:00:00,aGk=,true""""',
    "a decimal comma in quotes": b'1,x,"1,25",2024-05-01 00:00:00,aGk=,true',
    "a value of delimiters": b'1,"' + b"," * 50_000 + b'"' + _REST,
}
