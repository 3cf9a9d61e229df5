"""FLOAT and DOUBLE as text in the form of Java's `Double.toString`: `12.75`, `1.0E7`, `1.0E-5`, `NaN`, `-Infinity`.

The digits are the shortest that read back as the same number. Numbers of magnitude 10^-3 up to 10^7 are written
plainly, others with an exponent; there is always a digit after the point.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.expr.columns import integers_of, validity

__all__ = ["float_text"]


def float_text(array: pa.Array) -> pa.Array:
    """The texts of a float or double array."""
    text = pc.cast(array, pa.string())
    magnitude = np.abs(integers_of(array))
    valid = validity(array)
    with np.errstate(invalid="ignore"):
        plain = ((magnitude >= 1e-3) & (magnitude < 1e7)) | (magnitude == 0)
    if valid is not None:
        plain |= ~valid
    with_point = pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))
    if plain.all():
        return with_point
    rows = np.flatnonzero(~plain)
    others = _exponential(text.take(pa.array(rows)))
    return pc.replace_with_mask(with_point, pa.array(~plain), others)


_ZERO = "0"


def _exponential(text: pa.Array) -> pa.Array:
    """Texts of numbers outside the plain range, as Arrow writes them (`123456789`, `0.00001`, `1.5e+300`, `nan`,
    `-inf`)."""
    sign = pc.if_else(pc.starts_with(text, "-"), "-", "")
    body = pc.utf8_ltrim(text, characters="-")
    groups = pc.extract_regex(body, r"^(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e(?P<exponent>[+-]\d+))?$")
    whole, part, exponent = (pc.fill_null(groups.field(i), "") for i in range(3))
    digits = pc.binary_join_element_wise(whole, part, "")
    significant = pc.utf8_ltrim(digits, characters=_ZERO)
    # The place of the first significant digit: digits before the point count up from 0, after it down from -1.
    lengths = [pc.utf8_length(a).to_numpy(zero_copy_only=False) for a in (whole, digits, significant)]
    shift = pc.cast(pc.if_else(pc.equal(exponent, ""), _ZERO, pc.utf8_ltrim(exponent, characters="+")), pa.int64())
    power = lengths[0] - 1 - (lengths[1] - lengths[2]) + shift.to_numpy(zero_copy_only=False)
    first = pc.utf8_slice_codeunits(significant, 0, 1)
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(significant, 1), characters=_ZERO)
    rest = pc.if_else(pc.equal(rest, ""), _ZERO, rest)
    powers = pc.cast(pa.array(power.astype(np.int64)), pa.string())
    number = pc.binary_join_element_wise(sign, first, ".", rest, "E", powers, "")
    number = pc.if_else(pc.equal(body, "nan"), "NaN", number)
    return pc.if_else(pc.equal(body, "inf"), pc.binary_join_element_wise(sign, "Infinity", ""), number)
