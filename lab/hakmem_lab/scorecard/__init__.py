"""Every goal, and whether the figures meet it."""
