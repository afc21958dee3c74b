"""What is inside values: bytes of JSON, CSV or Avro become a struct in Spark, and structs become bytes.

In reading order: `options` (what a user may say), `shapes` (types of Spark, as DDL and out of an Avro schema),
`texts` (numbers, dates and the like in text), `json_values`, `csv_values` and `avro_values` (one value there and
back; `avro_schemas`, `avro_parts` and `avro_reading` are what the last one is made of), `confluent` (with the ids
of a schema registry, which `registry` asks by the `registry_options`), `decoding` (the rows of a source, and what
becomes of those that cannot be read), `dead_letters`, `encoding` (the rows of a sink).
"""
