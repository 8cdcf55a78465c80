"""What the audit knows of its own hearing: reports that were lost, its clock, other audits of the same topic."""
