"""How a message is declared once and compiled to a reader and a writer."""
