"""Takes the picture of `hakmem top` in the documentation: the program itself, on a terminal, looking at redis under load.

Usage: make pictures [OUTPUT=docs/pictures/top.svg]
"""

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROWS, COLUMNS = 30, 96
# Keys of all lengths, which are written and deleted.
LOAD = """while ! redis-cli -s "$1" ping >/dev/null 2>&1; do sleep 0.1; done
while :; do
  for length in 60 300 1500 7000; do
    redis-benchmark -s "$1" -q -c 20 -n 20000 -r 40000 -d $length -t set,lpush,hset
    redis-benchmark -s "$1" -q -c 20 -n 20000 -r 40000 del key:__rand_int__
  done
  redis-cli -s "$1" del mylist myhash
done
"""
# rich's own page loads a font from the network.
PAGE = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>hakmem top</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g>
</svg>
"""
COLOURS = {"brown": "yellow"}


def style_of(cell: pyte.screens.Char) -> Style:
    def colour(name: str) -> str | None:
        return None if name == "default" else COLOURS.get(name, name)

    return Style(
        color=colour(cell.fg), bgcolor=colour(cell.bg), bold=cell.bold, reverse=cell.reverse, underline=cell.underscore
    )


def shown(screen: pyte.Screen) -> Text:
    text = Text()
    for row in range(screen.lines):
        for column in range(screen.columns):
            cell = screen.buffer[row][column]
            text.append(cell.data, style_of(cell))
        text.append("\n")
    return text


def watch(tool: str, pid: int, seconds: float) -> pyte.Screen:
    """What `hakmem top` shows after this time."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    terminal, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "linux", "LC_ALL": "C.UTF-8"}
    top = subprocess.Popen([tool, "top", str(pid)], env=environment, stdin=slave, stdout=slave, start_new_session=True)
    os.close(slave)
    end = time.monotonic() + seconds
    while time.monotonic() < end and top.poll() is None:
        if select.select([terminal], [], [], 0.1)[0]:
            stream.feed(os.read(terminal, 65536))
    if top.poll() is not None:
        sys.exit(f"top.py: hakmem top ended with {top.returncode}")
    top.kill()
    top.wait()
    os.close(terminal)
    return screen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/standard", help="where the tool, the library and the test programs are")
    parser.add_argument("--seconds", type=float, default=20, help="how long it has run when the picture is taken")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    build = Path(arguments.build).resolve()
    environment = {**os.environ, "LD_PRELOAD": str(build / "libhakmem.so")}
    with tempfile.TemporaryDirectory() as directory:
        socket = str(Path(directory, "socket"))
        command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", directory]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        load = subprocess.Popen(["sh", "-c", LOAD, "sh", socket], stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            screen = watch(str(build / "hakmem"), server.pid, arguments.seconds)
        finally:
            os.killpg(load.pid, signal.SIGKILL)
            server.kill()
            server.wait()
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"))
    console.print(shown(screen), end="", soft_wrap=True)
    arguments.output.write_text(
        console.export_svg(title="hakmem top", theme=MONOKAI, code_format=PAGE, unique_id="top"), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
