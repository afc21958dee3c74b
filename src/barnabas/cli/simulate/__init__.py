"""`barnabas simulate`: runs seeds."""
