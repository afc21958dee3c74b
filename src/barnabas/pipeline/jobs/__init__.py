"""What is run with the source: each job is a module with a `main`, started as a process of its own."""
