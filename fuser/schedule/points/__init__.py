"""Points: one loop nest over a domain, in tiles where memory is turned."""
