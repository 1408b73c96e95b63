"""Where every random number of the seal comes from: one cryptographic stream, and the one way in which noise is added.

What is defended. The stream is AES-256 under a key from the operating system (`stream.py`): who reads any number of
outputs can neither predict nor repeat another one, a forked process never repeats the noise of its parent, a resumed one
never that of the killed one, and nothing else in the process (a library's global seed) can touch it. `added`,
`added_flat` and `added_laplace`, by which every question adds its noise, answer with an ideal real Gaussian or Laplace
variable rounded to a public grid (`gaussian.py`, `laplace.py`), so the low-order bits of an answer say nothing of the sum
(Mironov 2012; arXiv 2107.10138), and what is drawn is what is accounted.

What is taken on trust: AES-256 as a pseudo-random function; the operating system's entropy; that float32 sine, cosine,
logarithm are right to 4 units in the last place and the square root to 1/2 (a test measures them). For sums on a GPU the noise is
made on the CPU by this very stream: they come here, and noisy they go back, the one time in a step that the CPU waits.

What is not defended: time (about one pair of normals in 250 is computed a second time; which ones depends on sum and
noise, by a few microseconds in all), memory that another process can read, and a virtual machine's snapshot that is resumed
twice: up to the next `turn`, which reads fresh entropy, both copies draw the same noise.
"""

import hashlib
import math
import os
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.noise import gaussian, laplace
from synthdp.noise.stream import Stream, permutation


class Noise:
    """One stream of noise; `Noise()` is keyed by the operating system, `Noise(seed=7)` is a rehearsal (law 33).

    A rehearsal is the same construction under a key derived from the seed, stamped by `rehearsal`. In a process other
    than the one that made it, a stream takes a fresh key, and a rehearsal raises `BadInput`. It cannot be copied or
    pickled. Several threads may share it, but then who gets which number depends on their timing.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.rehearsal = seed is not None
        self._lock = threading.Lock()
        self._master = b""
        self._row: tuple[int, NDArray[np.uint64], NDArray[np.uint64]] | None = None  # of the last coins
        self._place = -1
        self._tossed = -1  # the last step that coins were tossed for
        self._rekey(os.urandom(32) if seed is None else hashlib.sha256(b"synthdp rehearsal %d" % seed).digest())

    def turn(self, place: int) -> None:
        """Begin the stream of one place, such as the line of the ledger that a block of events was written to.

        A rehearsal draws from here on what (seed, place) alone fix, whatever was drawn before: resumed at a place, it
        continues as an uninterrupted one would have, and a step redone at a later line gets other noise. A stream that
        is released takes a fresh key from the operating system, so nothing repeats. Coins stay as they are. Raises
        `BadInput` unless places grow within one object: the same place twice would be the same noise twice.
        """
        with self._lock:
            self._check_process()
            if not self._place < place < 1 << 64:
                raise BadInput(
                    f"place of a stream must be a whole number above the last one, {self._place}, got {place}"
                )
            self._place = place
            self._stream = Stream(self._master or os.urandom(32), b"synthdp stream %d" % place)

    def added(self, values: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
        """`values` plus independent real N(0, deviation^2), rounded to a public grid of deviation / 128 to / 64.

        Deviation 0 leaves the values as they are. With `added_flat` the only way in which a question adds its noise.
        """
        flat = torch.from_numpy(np.array(values, np.float64).reshape(-1))
        return self._rounded(flat, deviation).numpy().reshape(np.shape(values))

    def added_flat(self, sums: torch.Tensor, deviation: float) -> torch.Tensor:
        """`sums` (n,), noised as by `added`, as float32 on the device of `sums`. Whether they come in float32 or float64 makes
        no difference to the answer, only to its cost."""
        here = sums.detach().cpu()
        if not gaussian.fits(deviation):
            here = here.double()
        return self._rounded(here, deviation).float().to(sums.device)

    def added_laplace(self, counts: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        """`counts`, whole numbers, plus independent real Laplace variables of `scale`, rounded to a public grid of at most
        scale / 64: see `laplace.py`. The only way in which a question adds Laplace noise.

        Raises `BadInput` for a scale that is not within (0, 2^40], or for what is not whole.
        """
        if not 0 < scale <= laplace.MOST_SCALE:
            raise BadInput(f"scale of Laplace noise must lie in (0, 2^40], got {scale}")
        flat = np.array(counts, np.float64).reshape(-1)
        if not (np.abs(flat) <= 2.0**40).all() or not (flat == np.rint(flat)).all():
            raise BadInput("Laplace noise is added to counts: whole numbers")
        with self._lock:
            self._check_process()
            return laplace.rounded(flat, scale, self._stream).reshape(np.shape(counts))

    def uniform(self, shape: int | Sequence[int] = ()) -> NDArray[np.float64]:
        """Independent uniforms in [0, 1), multiples of 2^-53."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        words = np.frombuffer(self.bits(8 * math.prod(sizes)), np.uint64)
        return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(sizes)

    def bits(self, n_bytes: int) -> bytes:
        """The next `n_bytes` of the stream."""
        with self._lock:
            self._check_process()
            return self._stream.bits(n_bytes)

    def coins(self, keys: NDArray[np.uint64], step: int) -> NDArray[np.uint64]:
        """One uniform 64-bit coin per unit and step: a pseudo-random function of (key of the unit, step) alone.

        A unit that comes or goes changes nobody else's coin (law 12). AES-256 under a secret key of its own maps the block
        (key, step // 2) to the coins of two consecutive steps. Keys must be distinct: equal ones get equal coins. Raises
        `BadInput` unless steps grow within one object: amplification by sampling needs fresh coins for every sample (law 35).
        """
        if not 0 <= step < 1 << 64:
            raise BadInput(f"step of a sampling coin must be a whole number of 0 or more, got {step}")
        with self._lock:
            self._check_process()
            if step <= self._tossed:
                raise BadInput(f"the coins of step {step} were sampled before; every sample needs a step of its own")
            self._tossed = step
            row = self._row
            if row is None or row[0] != step // 2 or not np.array_equal(row[1], keys):
                blocks = np.empty((len(keys), 2), np.uint64)
                blocks[:, 0] = keys
                blocks[:, 1] = step // 2
                words = np.frombuffer(self._blocks.update(blocks.tobytes()), np.uint64).reshape(-1, 2)
                row = self._row = (step // 2, np.array(keys, np.uint64), words)
            return row[2][:, step % 2].copy()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a stream of noise cannot be copied or pickled: both copies would give the same noise")

    def _rekey(self, master: bytes) -> None:
        self._stream = Stream(master, b"synthdp stream")
        self._blocks = permutation(master, b"synthdp coins")
        self._master = master if self.rehearsal else b""  # what is released keeps nothing that could repeat it
        self._row = None
        self._process = os.getpid()

    def _check_process(self) -> None:
        if os.getpid() == self._process:
            return
        if self.rehearsal:
            raise BadInput("a seeded stream was used in a forked process, where it would repeat; make one per process")
        self._rekey(os.urandom(32))

    def _rounded(self, flat: torch.Tensor, deviation: float) -> torch.Tensor:
        if not (math.isfinite(deviation) and deviation >= 0):
            raise BadInput(f"deviation of noise must be a finite number of 0 or more, got {deviation}")
        if deviation == 0:
            return flat.clone()
        with torch.no_grad(), self._lock:
            self._check_process()
            return gaussian.rounded(flat, deviation, self._stream)
