"""What is public about a table, and the way between tables and arrays."""
