"""Groups whose assignments the coordinator makes (KIP-848, `group.protocol=consumer`).

A member tells in heartbeats what it subscribes to and what it owns, and hears what it shall own.  Three numbers
say how far things are: the *group epoch* grows when members or topics change; the *assignment epoch* is the group
epoch for which the *target assignment* was computed; a *member epoch* is the assignment epoch that the member
has reached.  A member reaches it alone: it first gives up what the target takes from it, then gets what nobody
else owns any more.  Nobody waits for anybody else.

What a heartbeat changes is decided without touching the group (`decisions`), written as records to the group's
partition of __consumer_offsets, and only then replayed into it (`group`), by the code that also loads it.

Reading order: `member`, `group`, `records`, `subscriptions`; `assignors` and `heterogeneous` say who shall own
what, `reconciliation` how a member gets there; `checks`, `decisions`, `patterns`; `sessions`, `writing`, `groups`.
`migration` makes a classic group one of these and back, `classic_members` serves classic members in it.
"""
