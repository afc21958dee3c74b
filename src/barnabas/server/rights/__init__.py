"""Rights at the door of every API: which API asks for what, and what is answered without it.

`authorizer` follows the ACLs of the metadata; `guards` has the table of what stands before which API, the other
files have the guards of one family each.
"""
