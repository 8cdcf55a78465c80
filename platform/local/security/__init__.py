"""What makes a platform secure: roles and their rights, certificates, users, and the files of each role."""
