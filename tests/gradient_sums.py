"""Sums of clipped gradients without the count that comes from the same pass."""

from synthdp.seal.gradients import sum_and_count


def clipped_gradient_sum(*given, **options):
    return sum_and_count(*given, counting=False, **options)[0]
