"""Noise: one cryptographic stream, and draws that floating point cannot betray."""
