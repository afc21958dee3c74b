"""Who somebody is and who may do what, as rules without sockets, files or clocks.

`acl` has the words (operation, resource type, ACL), `authorizer` decides, `hosts` compares addresses.
"""
