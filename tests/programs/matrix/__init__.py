"""Real programs on hakmem and on glibc: the parts of run_matrix.py."""
