"""The cluster's metadata: what exists, who leads it, and how that is decided.

The controller is a function over an image.  A request comes in; `controller` looks at the image and
decides: it returns records and an answer, and touches nothing.  The records go to the metadata log
(server/kraft/driver does that) and through `replay`, the one writer of an image, into the leading image, so that
the next decision sees them.  When the quorum has committed them they go through the very same `replay` into
the image that brokers read, on every node, and the answer leaves.

Reading order: `image` (what is known), `replay` (records to image), `controller` (the table of requests),
then one module per kind of decision: `topics`, `brokers`, `configs`, `features`, `producer_ids`,
`partitions` (leaders and ISRs), `placement`.  `snapshot` turns an image into records and back.
"""
