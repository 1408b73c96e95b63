"""How a step's memory is kept for the next one."""

import functools

import torch

LARGE = 31 << 20  # bytes; glibc learns from blocks up to 32 MiB


@functools.cache
def keep_freed_memory() -> None:
    """Let glibc's allocator keep up to 62 MiB of freed memory instead of handing it back after every step.

    Its thresholds follow the largest mapped block that was freed (mallopt(3), M_MMAP_THRESHOLD). The block is never
    touched, so this costs nothing, once; without it a step of this size spends a tenth of its time on page faults. Other
    allocators ignore it.
    """
    torch.empty(LARGE, dtype=torch.uint8)
