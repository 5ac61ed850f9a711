"""What must hold before a group is moved."""
