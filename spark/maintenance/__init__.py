"""Work on tables that changes no row that readers want: small files merged, snapshots and orphans removed, old hours dropped."""
