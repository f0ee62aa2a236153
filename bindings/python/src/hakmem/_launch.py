"""The command ``hakmem``: hands over to the tool that the package carries."""

import os
import sys
from typing import NoReturn

from hakmem._files import tool_path


def main() -> NoReturn:
    """Replaces this process by the tool, with the same arguments. Does not return."""
    tool = tool_path()
    try:
        os.execv(tool, ["hakmem", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"hakmem: {tool}: {error.strerror}; install the package again")
