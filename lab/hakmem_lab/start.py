"""The entry of the command, which is there before what it imports."""

import signal


def main() -> None:
    """As cli.app.main; Ctrl-C ends it without a word while the libraries are being loaded."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hakmem_lab.cli import app

    app.main()
