"""The two sides of a generative adversarial network, and what teaches the generator."""
