"""Functions of texts as methods of expressions, with the names of PyFlink.

Each is one SQL function or operator; its meaning is that of the SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlengine.expression.method_parts import MethodParts, given

if TYPE_CHECKING:
    from sqlengine.expression.expression import Expression

__all__ = ["TextMethods"]


class TextMethods(MethodParts):
    """Methods of texts; without parentheses where PyFlink writes none."""

    __slots__ = ()

    # Texts

    @property
    def char_length(self) -> Expression:
        """CHAR_LENGTH: the number of characters."""
        return self._property("CHAR_LENGTH", "char_length")

    @property
    def upper_case(self) -> Expression:
        """UPPER: the text in upper case."""
        return self._property("UPPER", "upper_case")

    @property
    def lower_case(self) -> Expression:
        """LOWER: the text in lower case."""
        return self._property("LOWER", "lower_case")

    @property
    def init_cap(self) -> Expression:
        """INITCAP: every word with a capital first letter."""
        return self._property("INITCAP", "init_cap")

    @property
    def reverse(self) -> Expression:
        """REVERSE: the text backwards."""
        return self._property("REVERSE", "reverse")

    @property
    def ascii(self) -> Expression:
        """ASCII: the code of the first character."""
        return self._property("ASCII", "ascii")

    @property
    def chr(self) -> Expression:
        """CHR: the character of a code."""
        return self._property("CHR", "chr")

    @property
    def md5(self) -> Expression:
        """MD5: the MD5 hash in hexadecimal."""
        return self._property("MD5", "md5")

    @property
    def sha1(self) -> Expression:
        """SHA1: the SHA-1 hash in hexadecimal."""
        return self._property("SHA1", "sha1")

    @property
    def sha256(self) -> Expression:
        """SHA256: the SHA-256 hash in hexadecimal."""
        return self._property("SHA256", "sha256")

    @property
    def from_base64(self) -> Expression:
        """FROM_BASE64: a text decoded from base 64."""
        return self._property("FROM_BASE64", "from_base64")

    @property
    def to_base64(self) -> Expression:
        """TO_BASE64: a text encoded in base 64."""
        return self._property("TO_BASE64", "to_base64")

    def replace(self, search: Any, replacement: Any) -> Expression:
        """REPLACE: the text with all occurrences of `search` replaced."""
        return self._call("REPLACE", self, search, replacement, method="replace")

    def lpad(self, length: Any, pad: Any = " ") -> Expression:
        """LPAD: the text filled at its left to a length."""
        return self._call("LPAD", self, length, pad, method="lpad")

    def rpad(self, length: Any, pad: Any = " ") -> Expression:
        """RPAD: the text filled at its right to a length."""
        return self._call("RPAD", self, length, pad, method="rpad")

    def left(self, length: Any) -> Expression:
        """LEFT: the first characters."""
        return self._call("LEFT", self, length, method="left")

    def right(self, length: Any) -> Expression:
        """RIGHT: the last characters."""
        return self._call("RIGHT", self, length, method="right")

    def split_index(self, separator: Any, index: Any) -> Expression:
        """SPLIT_INDEX: the part of that number, from 0, between separators."""
        return self._call("SPLIT_INDEX", self, separator, index, method="split_index")

    @property
    def sha224(self) -> Expression:
        """SHA224: the SHA-224 hash in hexadecimal."""
        return self._property("SHA224", "sha224")

    @property
    def sha384(self) -> Expression:
        """SHA384: the SHA-384 hash in hexadecimal."""
        return self._property("SHA384", "sha384")

    @property
    def sha512(self) -> Expression:
        """SHA512: the SHA-512 hash in hexadecimal."""
        return self._property("SHA512", "sha512")

    def sha2(self, hash_length: Any) -> Expression:
        """SHA2: the SHA-2 hash of a length (224, 256, 384 or 512) in hexadecimal."""
        return self._call("SHA2", self, hash_length, method="sha2")

    @property
    def unhex(self) -> Expression:
        """UNHEX: hexadecimal digits as bytes."""
        return self._property("UNHEX", "unhex")

    def trim(self, character: Any = None) -> Expression:
        """TRIM: the text without blanks, or another text, at both ends."""
        return self._trimmed("trim", "BOTH", character)

    def trim_leading(self, character: Any = None) -> Expression:
        """TRIM(LEADING ..): the text without blanks, or another text, at its start."""
        return self._trimmed("trim_leading", "LEADING", character)

    def trim_trailing(self, character: Any = None) -> Expression:
        """TRIM(TRAILING ..): the text without blanks, or another text, at its end."""
        return self._trimmed("trim_trailing", "TRAILING", character)

    def _trimmed(self, method: str, side: str, character: Any) -> Expression:
        if character is None:
            return self._form(method, ["TRIM(", *([] if side == "BOTH" else [f"{side} FROM "]), self, ")"])
        what = self._of(character)
        return self._form(method, [f"TRIM({side} ", what, " FROM ", self, ")"], what)

    def ltrim(self, trim_str: Any = None) -> Expression:
        """LTRIM: the text without blanks, or any of some characters, at its start."""
        return self._call("LTRIM", self, *given(trim_str), method="ltrim")

    def rtrim(self, trim_str: Any = None) -> Expression:
        """RTRIM: the text without blanks, or any of some characters, at its end."""
        return self._call("RTRIM", self, *given(trim_str), method="rtrim")

    def btrim(self, trim_str: Any = None) -> Expression:
        """BTRIM: the text without blanks, or any of some characters, at both ends."""
        return self._call("BTRIM", self, *given(trim_str), method="btrim")

    def repeat(self, n: Any) -> Expression:
        """REPEAT: the text so many times."""
        return self._call("REPEAT", self, n, method="repeat")

    def starts_with(self, start_expr: Any) -> Expression:
        """STARTSWITH: whether the text begins with another one."""
        return self._call("STARTSWITH", self, start_expr, method="starts_with")

    def ends_with(self, end_expr: Any) -> Expression:
        """ENDSWITH: whether the text ends with another one."""
        return self._call("ENDSWITH", self, end_expr, method="ends_with")

    def translate(self, from_str: Any, to_str: Any) -> Expression:
        """TRANSLATE: the text with each character of `from_str` as the one at its place in `to_str`."""
        return self._call("TRANSLATE", self, from_str, to_str, method="translate")

    def instr(self, s: Any) -> Expression:
        """INSTR: where another text first stands in this one, counted from 1; 0 when it does not."""
        return self._call("INSTR", self, s, method="instr")

    def locate(self, s: Any, pos: Any = None) -> Expression:
        """LOCATE: where this text first stands in another one, from a position on; 0 when it does not."""
        return self._call("LOCATE", self, s, *given(pos), method="locate")

    def decode(self, charset: Any) -> Expression:
        """DECODE: bytes as a text, in a character set such as 'UTF-8'."""
        return self._call("DECODE", self, charset, method="decode")

    def encode(self, charset: Any) -> Expression:
        """ENCODE: the text as bytes, in a character set such as 'UTF-8'."""
        return self._call("ENCODE", self, charset, method="encode")

    def url_decode(self) -> Expression:
        """URL_DECODE: a text with its percent signs resolved; NULL where they are wrong."""
        return self._call("URL_DECODE", self, method="url_decode")

    def url_encode(self) -> Expression:
        """URL_ENCODE: the text as a part of a URL."""
        return self._call("URL_ENCODE", self, method="url_encode")

    def inet_aton(self) -> Expression:
        """INET_ATON: an IPv4 address as a number."""
        return self._call("INET_ATON", self, method="inet_aton")

    def parse_url(self, part_to_extract: Any, key: Any = None) -> Expression:
        """PARSE_URL: a part of a URL: 'HOST', 'PATH', 'QUERY', ...; with 'QUERY' the value of a key."""
        return self._call("PARSE_URL", self, part_to_extract, *given(key), method="parse_url")

    def printf(self, *obj: Any) -> Expression:
        """PRINTF: values put into this format, as in Java."""
        return self._call("PRINTF", self, *obj, method="printf")

    def split(self, delimiter: Any) -> Expression:
        """SPLIT: the parts between delimiters as an array."""
        return self._call("SPLIT", self, delimiter, method="split")

    def str_to_map(self, list_delimiter: Any = None, key_value_delimiter: Any = None) -> Expression:
        """STR_TO_MAP: a text such as 'a=1,b=2' as a map."""
        if list_delimiter is None and key_value_delimiter is None:
            return self._call("STR_TO_MAP", self, method="str_to_map")
        both = ("," if list_delimiter is None else list_delimiter, key_value_delimiter or "=")
        return self._call("STR_TO_MAP", self, *both, method="str_to_map")

    # Regular expressions

    def regexp(self, regex: Any) -> Expression:
        """REGEXP: whether some part of the text fits a regular expression."""
        return self._call("REGEXP", self, regex, method="regexp")

    def regexp_replace(self, regex: Any, replacement: Any) -> Expression:
        """REGEXP_REPLACE: the text with what fits a regular expression replaced."""
        return self._call("REGEXP_REPLACE", self, regex, replacement, method="regexp_replace")

    def regexp_extract(self, regex: Any, extract_index: Any = None) -> Expression:
        """REGEXP_EXTRACT: the first part that fits a regular expression, or a group of it."""
        return self._call("REGEXP_EXTRACT", self, regex, *given(extract_index), method="regexp_extract")

    def regexp_extract_all(self, regex: Any, extract_index: Any = None) -> Expression:
        """REGEXP_EXTRACT_ALL: all parts that fit a regular expression, or a group of each, as an array."""
        return self._call("REGEXP_EXTRACT_ALL", self, regex, *given(extract_index), method="regexp_extract_all")

    def regexp_count(self, regex: Any) -> Expression:
        """REGEXP_COUNT: how many parts fit a regular expression."""
        return self._call("REGEXP_COUNT", self, regex, method="regexp_count")

    def regexp_instr(self, regex: Any) -> Expression:
        """REGEXP_INSTR: where the first part that fits a regular expression stands, counted from 1; 0 for none."""
        return self._call("REGEXP_INSTR", self, regex, method="regexp_instr")

    def regexp_substr(self, regex: Any) -> Expression:
        """REGEXP_SUBSTR: the first part that fits a regular expression."""
        return self._call("REGEXP_SUBSTR", self, regex, method="regexp_substr")
