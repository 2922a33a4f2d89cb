"""Quantities with kube-apiserver's errors and canonical texts. No I/O.

Custom, since clients receive these errors and texts; the agent uses :mod:`nodeagent.base.quantity`.
"""

from __future__ import annotations

import re

from nodeagent.base.quantity import Quantity
from nodeagent.base.text_cache import text_cache

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NO_SUFFIX = "unable to parse quantity's suffix"

_SPACES = " \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Spaces that JSON need not escape: upstream trims the text before it is unescaped."""
_PARTS = re.compile(
    r"(?P<number>(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?)"
    r"(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)",
    re.ASCII,
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,18})", re.ASCII)
_MAX_DIGITS, _MAX_LENGTH = 18, 200
_LEAST_SCALE = -9
_LARGEST = (1 << 63) - 1
"""Limit of quantities in binary form; larger ones in decimal form have no limit."""
_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}


class InvalidQuantity(ValueError):
    """A text is not a quantity; the message is upstream's."""


@text_cache(1024)
def canonical(text: str) -> str:
    """Return the quantity *text* in upstream's canonical form.

    As upstream, a text that cannot be shortened is unchanged, even with a sign or leading zeros.

    :raises InvalidQuantity: *text* is not a quantity.
    """
    text = text.strip(_SPACES)
    match = _PARTS.fullmatch(text)
    if not text or match is None:
        raise InvalidQuantity(FORMAT_WRONG)
    suffix, whole, fraction = match["suffix"], match["whole"] or "0", match["fraction"] or ""
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None and suffix not in _DECIMAL and suffix not in _BINARY:
        raise InvalidQuantity(NO_SUFFIX)
    if not (match["whole"] or fraction.strip("0")):
        return "0"
    if suffix in _BINARY:
        # Maximum digits of a 64-bit quantity, by upstream's estimate.
        digits = 15 - len(whole) - int(_BINARY[suffix] * 0.3) - 1
        kept = digits >= 0 and not fraction and int(whole) & 7 != 0
    else:
        scale = (int(exponent[1]) if exponent is not None else _DECIMAL[suffix]) - len(fraction)
        number = whole + fraction
        kept = (
            len(number) <= _MAX_DIGITS
            and scale >= _LEAST_SCALE
            and scale % 3 == 0
            and not number.endswith("000")
            and number[0] != "0"
        )
        plain = exponent is None and scale >= 0 and len(number) <= _MAX_LENGTH
        if not kept and plain and int(number) * 10**scale > _LARGEST:
            return _large(match["sign"], int(number), scale)
    if kept:
        return text
    try:
        return str(Quantity.parse(text))
    except ValueError:
        raise InvalidQuantity(FORMAT_WRONG) from None


def _large(sign: str, number: int, scale: int) -> str:
    """Return *number* · 10^*scale* with the largest suffix that keeps it exact."""
    while scale < _DECIMAL["E"] and number % 10 == 0:
        number, scale = number // 10, scale + 1
    while scale % 3 or scale > _DECIMAL["E"]:
        number, scale = number * 10, scale - 1
    return f"{sign.strip('+')}{number}{_SUFFIXES[scale]}"


@text_cache(1024)
def of_resource_list(text: str) -> str:
    """Return the quantity *text* in a map of resources: rounded up to thousandths, the resolution of the API.

    :raises InvalidQuantity: *text* is not a quantity.
    """
    kept = canonical(text)
    amount = Quantity.parse(kept)
    if amount.nanos % 10**6 == 0:
        return kept
    return str(Quantity(nanos=amount.milli_value() * 10**6, format=amount.format))
