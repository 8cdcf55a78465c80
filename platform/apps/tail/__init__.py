"""`headrace tail`: a topic's records as they stand, decoded. `expression`: the language of `--where`; `reading`: the records."""
