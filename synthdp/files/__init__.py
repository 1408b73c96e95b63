"""Files: JSON read without trust, writes that are whole or not there, and folders that nobody else can read."""
