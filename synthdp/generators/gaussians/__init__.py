"""Class Gaussians: moments from noisy answers, and records drawn from them."""
