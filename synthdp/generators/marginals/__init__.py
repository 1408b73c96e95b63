"""What generators on noisy tables share: codes grouped by their noisy counts, and models fitted to tables."""
