"""Tables: CSV files, and tables that stay in files and databases and are counted there."""
