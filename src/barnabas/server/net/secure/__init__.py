"""Listeners whose clients log in: `settings` reads the rules, `users` knows who there is, `session` and `logins`
keep each connection to them."""
