"""The named data sets, one file each: where the records come from and how the published columns become the schema's."""
