"""python -m hakmem_lab: the command, without its script."""

from hakmem_lab.start import main

main()
