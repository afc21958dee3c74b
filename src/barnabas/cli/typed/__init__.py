"""What is typed: flags in any place, refusals with the nearest word, completion by the shell."""
