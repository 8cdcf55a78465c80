"""What the digest of the rows costs a load: pairs of whole loads, with and without it, in one interleaved run."""
