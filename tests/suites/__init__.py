"""`make suites`: the test suites of other people's clients, as their authors wrote them, against our cluster."""
