"""What several generators share: networks, models, noisy tables, vectors, checks and saved states."""
