"""How the loops are compiled, and the maximum of many numbers."""

import numpy as np
from numba import njit

# Python's lock is free while a loop runs. Sums may be reordered for speed; NaN and infinity keep their meaning (unlike
# with fastmath=True). A division by zero gives what IEEE says: a check of each would keep the compiler from dividing
# several numbers at once.
compiled = njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


@compiled
def largest(values):
    """Largest of one or more numbers, none of them NaN.

    Their bits, those of negative numbers turned around, order like whole numbers; the compiler takes the maximum of
    whole numbers several at a time, and that of floats one by one.
    """
    bits = values.view(np.int64)
    most = np.int64(-(2**63))
    for i in range(len(bits)):
        most = max(most, bits[i] ^ ((bits[i] >> 63) & np.int64(0x7FFFFFFFFFFFFFFF)))
    found = np.empty(1, dtype=np.int64)
    found[0] = most ^ ((most >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    return found.view(np.float64)[0]
