"""Records by name: files of any kind, named data sets with their public schemas, and the first draft of a schema."""
