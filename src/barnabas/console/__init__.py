"""A few pages about a cluster, for a browser on this machine: `barnabas console HOST:PORT`.

Whoever opens them logs in to the cluster as themselves.  The console has no rights of its own: what a page shows
is what the cluster tells that person, by connections that were opened with that person's password.

- `markup` is the only place where HTML is made; whatever is put into it is text.
- `door` has the rules of the HTTP port: who may ask, how much, for how long; no page is served around it.
- `sessions` are the people who are logged in; they are few, and end.
- `routes` is the table of what is served.  What is not in it is not served.
- `pages` and `records` ask the cluster and make the pages; `frame` is what is around each.
- `serving` puts them together.
"""
