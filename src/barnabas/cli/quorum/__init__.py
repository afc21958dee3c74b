"""`barnabas quorum`: shows and changes the voters."""
