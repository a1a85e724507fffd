"""What scripts/pictures draws."""
