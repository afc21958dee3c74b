"""`barnabas doctor`: what is wrong with a connection, one check after the other."""
