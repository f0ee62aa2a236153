"""The command hakmem-lab: a module a sub-command, and what they share."""
