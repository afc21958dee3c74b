"""`barnabas certs`: an authority of one's own, and what it signs."""
