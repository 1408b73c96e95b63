"""What is public about a table, and the way between cells and codes that follows from it alone."""
