"""Files: JSON read without trust, writes that are whole or not there, and folders that nobody else can read."""

CHECKPOINT = "checkpoint.safetensors"  # how the files begin that a fit keeps in `internal` until it ends
