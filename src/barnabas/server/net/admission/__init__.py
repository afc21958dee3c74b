"""Who gets in when many come: how fast, how many, and for whom the last connections are."""
