"""Strings, lists and maps that an encoder has interned for keys that are gone are forgotten from time to time."""

from __future__ import annotations

import numpy as np

from runtime.kernels.hash_index import HashIndex
from runtime.kernels.key_encoding import KeyEncoder

__all__ = ["forget_unused"]


def forget_unused(index: HashIndex, encoder: KeyEncoder, leading: int = 0) -> None:
    """After keys were removed: if the encoder has grown too large, it keeps what live keys refer to.

    The index's keys are `leading` words of the owner's, then those of the encoder; slots stay. No words encoded before
    are valid after. The cost is a constant share of what has been interned since the last time.
    """
    if not encoder.overfull(len(index)):
        return
    words = index.keys(index.live_slots())
    kept = encoder.retain(np.ascontiguousarray(words[:, leading:]))
    index.rekey(np.concatenate((words[:, :leading], kept), axis=1) if leading else kept)
