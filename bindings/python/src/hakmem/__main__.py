"""``python -m hakmem ...`` is the same as the command ``hakmem ...``."""

from hakmem._launch import main

if __name__ == "__main__":
    main()
