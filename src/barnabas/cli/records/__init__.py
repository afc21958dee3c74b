"""`barnabas produce` and `barnabas consume`: records in and out, by one template language (`template`).

What `consume --format X` prints, `produce --format X` reads.  `sent` says after an error which lines are stored.
"""
