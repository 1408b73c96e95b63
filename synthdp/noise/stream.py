"""A cryptographic stream of words, and the further bits of each of them: AES-256 under keys derived from one secret."""

from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

PAIRS = 1 << 16  # pairs of words made at a time: fewer cost more calls than their smaller working arrays save


class Stream:
    """The stream of `secret`, 32 bytes, for one `purpose`: another purpose is another, independent stream."""

    def __init__(self, secret: bytes, purpose: bytes) -> None:
        self._stream = Cipher(algorithms.AES(derived(secret, purpose)), modes.CTR(bytes(16))).encryptor()
        self._further = permutation(secret, purpose + b" further bits")
        self._zeros = bytes(8 * PAIRS)
        self._bytes = np.empty(8 * PAIRS + 16, np.uint8)  # update_into wants a block more than it writes
        self.pairs = 0  # of words handed out so far

    def bits(self, n_bytes: int) -> bytes:
        """The next bytes of the stream."""
        return self._stream.update(bytes(n_bytes))

    def words(self, pairs: int) -> NDArray[np.int32]:
        """The next 2 * pairs words (pairs <= PAIRS); the array is overwritten by the next call."""
        size = 8 * pairs
        self._stream.update_into(memoryview(self._zeros)[:size], self._bytes.data)
        self.pairs += pairs
        return self._bytes[:size].view(np.int32)

    def further(self, pairs: NDArray[np.uint64], depth: int) -> NDArray[np.uint64]:
        """64 further bits for both words of each pair (n,), which counts from 0: (n, 2), the same whenever asked.

        They are a pseudo-random function of (pair, depth), so asking for them moves nothing in the stream.
        """
        blocks = np.empty((len(pairs), 2), np.uint64)
        blocks[:, 0] = pairs
        blocks[:, 1] = depth
        return np.frombuffer(self._further.update(blocks.tobytes()), np.uint64).reshape(-1, 2)


def permutation(secret: bytes, purpose: bytes) -> Any:
    """AES-256 on single blocks under a key of its own, never the same block for two purposes: a pseudo-random function."""
    return Cipher(algorithms.AES(derived(secret, purpose)), modes.ECB()).encryptor()  # noqa: S305


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key of 32 bytes for one purpose (HKDF, RFC 5869)."""
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=purpose).derive(secret)
