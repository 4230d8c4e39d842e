"""Amounts as Kubernetes writes them: 500m, 2, 64Mi, 1.5G."""

import math
import re
from decimal import Decimal

FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("0.001"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


def parse(text: str) -> int:
    """Rounded up to a whole number, as the downward API does."""
    found = re.fullmatch(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)", text)
    if found is None or found[2] not in FACTORS:
        raise ValueError(f"{text!r} is no quantity that is understood here")
    return math.ceil(Decimal(found[1]) * FACTORS[found[2]])
