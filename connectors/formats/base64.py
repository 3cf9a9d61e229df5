"""Base64 of whole columns (RFC 4648, padded): how CSV and JSON carry BYTES."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.records import BadMask

__all__ = ["decode_base64", "encode_base64"]

_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)
_VALUE = np.zeros(256, dtype=np.uint32)
_VALUE[_ALPHABET] = np.arange(64)


def _octets(values: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of all values one after another and where each begins; NULLs are empty."""
    whole = pc.fill_null(values.cast(pa.large_binary()), b"")
    _, offsets, data = whole.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[whole.offset : whole.offset + len(whole) + 1]
    octets = (
        np.frombuffer(data, dtype=np.uint8)[starts[0] : starts[-1]]
        if data is not None and starts[-1] > starts[0]
        else np.zeros(0, np.uint8)
    )
    return octets, starts - starts[0]


def _binary(
    octets: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], nulls: BadMask, type_: pa.DataType
) -> pa.Array:
    large = pa.large_string() if pa.types.is_string(type_) else pa.large_binary()
    built = pa.Array.from_buffers(
        large, len(starts) - 1, [None, pa.py_buffer(starts.astype(np.int64)), pa.py_buffer(octets)]
    ).cast(type_)
    return pc.if_else(pa.array(nulls), pa.scalar(None, type_), built) if nulls.any() else built


def decode_base64(values: pa.Array) -> tuple[pa.Array, BadMask | None]:
    """Text to bytes, and the mask of cells that are no base64 (missing padding is forgiven)."""
    fits = pc.fill_null(
        pc.match_substring_regex(values, r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?$"), True
    )
    bad = ~fits.to_numpy(zero_copy_only=False)
    nulls = pc.is_null(values).to_numpy(zero_copy_only=False) | bad
    plain = pc.if_else(fits, pc.replace_substring_regex(values, "=+$", ""), "")
    octets, starts = _octets(plain)
    lengths = np.diff(starts)
    padded = (lengths + 3) // 4 * 4
    places = np.concatenate([np.zeros(1, np.int64), np.cumsum(padded)])
    sextets = np.zeros(int(places[-1]), dtype=np.uint32)
    sextets[np.arange(len(octets)) + np.repeat(places[:-1] - starts[:-1], lengths)] = _VALUE[octets]
    groups = sextets.reshape(-1, 4)
    words = (groups[:, 0] << 18) | (groups[:, 1] << 12) | (groups[:, 2] << 6) | groups[:, 3]
    triples = np.stack([words >> 16, words >> 8, words], axis=1).astype(np.uint8).ravel()
    sizes = lengths * 3 // 4
    begin = places[:-1] // 4 * 3
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    kept = triples[np.arange(int(ends[-1])) + np.repeat(begin - ends[:-1], sizes)]
    return _binary(kept, ends, nulls, pa.binary()), bad if bad.any() else None


def encode_base64(values: pa.Array) -> pa.Array:
    """Bytes to padded base64 text."""
    octets, starts = _octets(values)
    lengths = np.diff(starts)
    groups = (lengths + 2) // 3
    places = np.concatenate([np.zeros(1, np.int64), np.cumsum(groups * 3)])
    padded = np.zeros(int(places[-1]), dtype=np.uint32)
    padded[np.arange(len(octets)) + np.repeat(places[:-1] - starts[:-1], lengths)] = octets
    triples = padded.reshape(-1, 3)
    words = (triples[:, 0] << 16) | (triples[:, 1] << 8) | triples[:, 2]
    text = _ALPHABET[np.stack([words >> 18, words >> 12 & 63, words >> 6 & 63, words & 63], axis=1)].ravel()
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(groups * 4)])
    missing = (3 - lengths % 3) % 3
    text[ends[1:][missing >= 1] - 1] = ord("=")
    text[ends[1:][missing == 2] - 2] = ord("=")
    return _binary(text, ends, pc.is_null(values).to_numpy(zero_copy_only=False), pa.string())
