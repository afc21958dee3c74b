"""Log directories: what lies in them besides records, and the threads and files behind it."""
