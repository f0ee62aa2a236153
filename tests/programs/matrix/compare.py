"""Compares what two runs gave and describes the difference."""

import difflib
import pathlib
import re

CONTEXT_LINES = 400  # of a diff that is kept


def normalised(data, rules):
    for rule in rules:
        data = re.sub(rule.pattern, rule.replacement, data, flags=re.MULTILINE)
    return data


def collect(folder, globs):
    """The compared files of a run: relative name -> content."""
    files = {}
    for pattern in globs:
        for path in sorted(pathlib.Path(folder).glob(pattern)):
            if path.is_file():
                files[str(path.relative_to(folder))] = path.read_bytes()
    return files


def describe(name, left, right):
    """A diff when both sides are text, else where they part."""
    try:
        lines = [side.decode().splitlines() for side in (left, right)]
    except UnicodeDecodeError:
        lines = None
    if lines is not None:
        diff = list(difflib.unified_diff(*lines, f"glibc/{name}", f"preload/{name}", lineterm="", n=1))
        return "\n".join(diff[:CONTEXT_LINES])
    place = next((i for i, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))
    return (
        f"{name}: {len(left)} bytes on glibc, {len(right)} preloaded, first difference at {place}: "
        f"{left[place:place + 16].hex(' ')} | {right[place:place + 16].hex(' ')}"
    )


def outcome(result, folder, case):
    """Everything of a run that has to be the same on both sides."""
    parts = {
        "exit code": str(result.exit_code).encode(),
        "stdout": result.stdout,
        "stderr": result.stderr,
    }
    parts.update(collect(folder, case.files))
    return {name: normalised(data, case.normalise) for name, data in parts.items()}


def differences(left, right):
    found = []
    for name in sorted(set(left) | set(right)):
        if name not in left or name not in right:
            found.append(f"{name}: only there {'preloaded' if name in right else 'on glibc'}")
        elif left[name] != right[name]:
            found.append(describe(name, left[name], right[name]))
    return found
