"""One file per attack: a module with TITLE, QUESTION, SOURCE, ORDER (place in the list) and `attack(case) -> Found | Lacking`."""
