"""What the package carries: libraries to preload, and the tool."""

from pathlib import Path

_NATIVE = Path(__file__).resolve().parent / "_native"
_FOLDERS = {"standard": "lib", "hardened": "hardened"}


def library_path(variant: str = "standard") -> str:
    """The absolute path of the package's library, to be preloaded where ``hakmem run`` cannot be.

    In a unit file or an image of a container, for example, as the value of ``LD_PRELOAD``.

    variant: ``"standard"``, or ``"hardened"``, which stops at misused memory.
    Raises ValueError for another variant, FileNotFoundError where the package was built without it.
    """
    if variant not in _FOLDERS:
        raise ValueError(f"variant {variant!r}: unknown; one of {', '.join(_FOLDERS)}")
    folder = _NATIVE / _FOLDERS[variant]
    for path in sorted(folder.glob("libhakmem.so.*")):
        return str(path)
    raise FileNotFoundError(f"no libhakmem.so in {folder}: install the package again")


def tool_path() -> str:
    """The absolute path of the program ``hakmem``, which ``python -m hakmem`` runs."""
    return str(_NATIVE / "bin" / "hakmem")
