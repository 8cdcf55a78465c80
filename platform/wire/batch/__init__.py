"""Record batches: their header, records, compression, CRC, and their place in a byte-addressed log."""
