"""How bytes are spoilt."""

from __future__ import annotations

import random

__all__ = ["hostile_json", "spoilt"]

_NUMBERS = (0, 1, 3, 4, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def spoilt(chance: random.Random, data: bytes) -> bytes:
    """The same with one thing wrong: a bit, a byte, a number, a part that is missing, twice there, or of something else."""
    made = bytearray(data)
    at = chance.randrange(len(made) + 1)
    end = min(len(made), at + chance.randint(1, 8))
    match chance.randrange(8):
        case 0 if at < len(made):
            made[at] ^= 1 << chance.randrange(8)
        case 1:
            made[at:end] = chance.randbytes(end - at)
        case 2:
            size = chance.choice((2, 4))
            number = chance.choice(_NUMBERS) & ((1 << 8 * size) - 1)
            made[at : at + size] = number.to_bytes(size, chance.choice(("big", "little")))
        case 3:
            del made[at:]
        case 4:
            del made[at:end]
        case 5:
            made[at:at] = made[at:end] * chance.choice((1, 2, 50))
        case 6:
            made[at:at] = chance.randbytes(chance.randint(1, 40))
        case _:
            made[at:end] = chance.choice(
                (b"\0", b"\xff\xff\xff\xff", b"\xc3", b"\xed\xa0\x80", b"\r\n\r\n", b"'", b'"', b"{")
            )
    return bytes(made)


_JSON = (
    b"null", b"true", b"[]", b"{}", b"-1", b"1e999", b"NaN", b"0.5", b'""', b'"\\ud800"', b'"\\u0000"', b"9" * 400, b'"x', b"[" * 5000,
    b'{"a":' * 3000, b"\xff", b'{"a":1,"a":2}', b'"' + b"x" * 70_000 + b'"',
)  # fmt: skip


def hostile_json(chance: random.Random) -> bytes:
    """A value that is not the one that is meant, or none at all."""
    return chance.choice(_JSON)
