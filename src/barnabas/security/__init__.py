"""Who somebody is and who may do what, as rules without sockets, files or clocks.

`scram` and `jaas` are read by servers and clients alike, `login` is the server's side of SASL.  `acl` has the
words (operation, resource type, ACL), `authorizer` decides, `hosts` compares addresses.
"""
