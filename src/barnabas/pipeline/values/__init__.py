"""What is inside values: bytes of JSON, CSV or Avro become a struct in Spark, and structs become bytes.

In reading order: `options` (what a user may say), `shapes` (types of Spark, as DDL and out of an Avro schema),
`texts` (numbers, dates and the like in text), `json_values`, `csv_values` and `avro_values` (one value there and
back), `decoding` (the rows of a source, and what becomes of those that cannot be read), `dead_letters`, `encoding`
(the rows of a sink).
"""
