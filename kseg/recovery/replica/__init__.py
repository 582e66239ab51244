"""``recover --from-replica``: fills gaps of a partition from another replica."""
