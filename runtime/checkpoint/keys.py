"""Who wrote a checkpoint: its manifest carries a MAC (HMAC-SHA-256) of a key that only those have who may write one.

A CRC-32 tells damage, but whoever can write to the folder can write a right one. With a key the manifest also carries the
SHA-256 of every segment, and nothing of a checkpoint is looked at before its MAC is found to be right.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

from runtime.core.errors import OptionError
from runtime.core.options import Options, text_option

__all__ = ["KEY_FILE", "Keys", "NO_KEYS", "keys_of"]

KEY_FILE = text_option(
    "execution.checkpointing.key-file",
    "",
    "a file with the key that authenticates checkpoints and savepoints; those of another key are refused",
)
_LEAST_BYTES = 16
_MOST_BYTES = 64 << 10
_WITHOUT = b"none"
_CONTEXT = b"sqlengine checkpoint manifest\n"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a job knows. `keys`: the first signs, all are accepted; none: nothing is signed or asked for.
    `unsigned`: what carries no MAC is accepted beside them."""

    keys: tuple[bytes, ...] = ()
    unsigned: bool = True

    def __bool__(self) -> bool:
        return bool(self.keys)

    def sign(self, data: bytes) -> str:
        """The MAC of bytes, with the first key."""
        return hmac.digest(self.keys[0], _CONTEXT + data, hashlib.sha256).hex()

    def refusal(self, data: bytes, mac: str | None) -> str | None:
        """Why bytes with this MAC (None: without one) are not to be read; None when they are."""
        if not self.keys or (mac is None and self.unsigned):
            return None
        if mac is None:
            return "was written without a key"
        known = any(hmac.compare_digest(hmac.digest(k, _CONTEXT + data, hashlib.sha256).hex(), mac) for k in self.keys)
        return None if known else f"was not written with a key of {KEY_FILE.key}"


NO_KEYS = Keys()


def keys_of(options: Options) -> Keys:
    """The keys of the file that the options name, one a line.

    Raises:
        OptionError: it cannot be read, or holds no key of at least 16 bytes.
    """
    path = options.get(KEY_FILE)
    if not path:
        return NO_KEYS
    try:
        with Path(path).expanduser().open("rb") as file:
            lines = [line.strip() for line in file.read(_MOST_BYTES).splitlines()]
    except OSError as error:
        raise OptionError(
            f"option '{KEY_FILE.key}' cannot be '{path}': {error.strerror}",
            hint="it is a file that holds the key; make one with: openssl rand -hex 32",
        ) from error
    keys = tuple(line for line in lines if line and line != _WITHOUT)
    if not keys or any(len(key) < _LEAST_BYTES for key in keys):
        raise OptionError(
            f"option '{KEY_FILE.key}' cannot be '{path}': a key has at least {_LEAST_BYTES} bytes, and stands on a line "
            "of its own",
            hint="make one with: openssl rand -hex 32",
        )
    return Keys(keys, _WITHOUT in lines)
