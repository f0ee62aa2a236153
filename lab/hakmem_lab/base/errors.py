"""The one exception for what a user can put right."""


class LabError(Exception):
    """Wrong input or a missing part; the message says what is accepted. Exit code 2."""
