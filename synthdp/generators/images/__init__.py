"""What draws, retouches and denoises pictures."""
