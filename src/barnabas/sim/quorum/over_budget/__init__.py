"""The second mode: quorums with one fault more than they can survive."""
