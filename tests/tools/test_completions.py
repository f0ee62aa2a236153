"""Completions for bash, zsh and fish: each real shell, against what the tool's own --help says."""

import pty
import re
import select
import time

from common import *

SCRIPTS = os.path.join(SOURCE, "tools/completions")


def options_of(*command):
    """The long options of a command, without their values."""
    return set(re.findall(r"^ {2,6}(?:-., *)?(--[a-z-]+)", hakmem(*command, "--help").out, re.MULTILINE))


def words_of(name):
    return set(hakmem("options", name).out.splitlines()[0].split("=", 1)[1].split("|"))


class Shell:
    """What every shell has to offer; a subclass says how it is asked."""

    shell = None

    def setUp(self):
        super().setUp()
        if shutil.which(self.shell) is None:
            self.skipTest(f"{self.shell} is not installed")
        os.makedirs(self.path("bin"))
        os.symlink(TOOL, self.path("bin/hakmem"))
        self.copy("/bin/true", "bin/only-this-program")
        self.env = environment(PATH=self.path("bin") + ":" + os.environ["PATH"], HOME=self.directory,
                               TERM="vt100", LC_ALL="C.UTF-8")  # fmt: skip

    def assert_offers(self, line, expected, exactly=True):
        offered = {word.strip() for word in self.complete(line)}
        # Some shells complete the value, some the whole word with it.
        bare = {re.sub(r"^--[a-z]+=(?=.)", "", word).rstrip("=") for word in offered}
        if exactly:
            self.assertEqual(bare, set(expected), line)
        else:
            self.assertLessEqual(set(expected), bare, line)

    def test_commands(self):
        commands = set(re.findall(r"^  ([a-z]+) ", hakmem("help").out, re.MULTILINE))
        self.assertIn("doctor", commands)
        self.assert_offers("hakmem ", commands, exactly=False)
        self.assert_offers("hakmem doc", {"doctor"})
        self.assert_offers("hakmem help ", commands)

    def test_options(self):
        commands = [["run"], ["options"], ["doctor"], ["stats"], ["top"], ["prof"]]
        if "in this build" not in hakmem("serve").err:
            commands.append(["serve"])
        if "in this build" not in hakmem("trace", "record").err:
            commands.append(["trace", "record"])
            self.assert_offers("hakmem trace ", {"record"}, exactly=False)
        for command in commands:
            options = options_of(*command)
            self.assertIn("--help", options)
            self.assert_offers(f"hakmem {' '.join(command)} --", options)

    def test_values(self):
        self.assert_offers("hakmem run -p ", words_of("HAKMEM_PROFILE"))
        self.assert_offers("hakmem run --profile=", words_of("HAKMEM_PROFILE"))
        self.assert_offers("hakmem run --stats=j", {"json"})
        self.assert_offers("hakmem run --variant=o", {"observe"})
        self.assert_offers("hakmem options --format=", {"text", "names", "json", "markdown", "scdoc"})
        self.assert_offers("hakmem stats --format=", {"text", "json", "openmetrics", "prometheus"})
        self.assert_offers("hakmem prof --format=", {"table", "json", "folded", "pprof", "html"})
        self.assert_offers("hakmem prof --by=", {"stacks", "function", "file", "library", "thread", "size", "age"})
        if "in this build" not in hakmem("serve").err:
            with open("/proc/self/comm", encoding="ascii") as file:
                self.assert_offers("hakmem serve --name ", {file.read().strip()}, exactly=False)
            self.assert_offers(f"hakmem serve --port 0 {os.getpid()}", {str(os.getpid())}, exactly=False)
        self.assert_offers(f"hakmem stats {os.getpid()}", {str(os.getpid())}, exactly=False)
        self.assert_offers(f"hakmem prof {os.getpid()}", {str(os.getpid())}, exactly=False)
        with open("/proc/self/comm", encoding="ascii") as file:
            name = file.read().strip()
        for command in ("stats", "top", "explain", "prof"):
            self.assert_offers(f"hakmem {command} {name[:-1]}", {name}, exactly=False)
        self.write("a-core", "")
        for command in ("core ", "stats ./", "prof ./", "where ./", "explain --core "):
            offered = self.complete(f"hakmem {command}a-cor")
            self.assertEqual([os.path.basename(word) for word in offered], ["a-core"], command)
        self.assert_offers("hakmem options HAKMEM_PROFI", {"HAKMEM_PROFILE"})

    def test_program_and_its_arguments(self):
        self.write("only_this_file", "")
        file = self.path("only_this_file")
        for before in ("", "-- ", "--stats ", "--profile lean ", "-p lean -- "):
            self.assert_offers(f"hakmem run {before}only-this-pro", {"only-this-program"})
            offered = self.complete(f"hakmem run {before}ls {file[:-3]}")
            self.assertEqual([os.path.basename(word) for word in offered], ["only_this_file"], before)
        self.assert_offers("hakmem prof --leaks -- only-this-pro", {"only-this-program"})
        offered = self.complete(f"hakmem prof -- ls {file[:-3]}")
        self.assertEqual([os.path.basename(word) for word in offered], ["only_this_file"])
        self.assert_offers("hakmem prof dif", {"diff"})
        offered = self.complete(f"hakmem prof diff {file[:-3]}")
        self.assertEqual([os.path.basename(word) for word in offered], ["only_this_file"])
        self.assertEqual([w for w in self.complete("hakmem run ls --pro") if "--profile" in w], [])


class Bash(Shell, TestCase):
    shell = "bash"

    def complete(self, line):
        script = """
            . "$1"
            COMP_LINE=$2 COMP_POINT=${#2}
            # As bash cuts a line, = being a word of its own.
            read -ra COMP_WORDS <<<"${2//=/ = }"
            [[ $2 = *' ' ]] && COMP_WORDS+=('')
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _hakmem 2>/dev/null
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        result = execute(["bash", "--norc", "-c", script, "bash", os.path.join(SCRIPTS, "hakmem.bash"), line],
                         env=self.env, cwd=self.directory)  # fmt: skip
        self.assertEqual(result.err, "")
        return [word for word in result.out.splitlines() if word]

    def test_is_registered(self):
        result = execute(["bash", "--norc", "-c", '. "$1" && complete -p hakmem', "bash",
                          os.path.join(SCRIPTS, "hakmem.bash")])  # fmt: skip
        self.assertEqual(result.out, "complete -F _hakmem hakmem\n")


class Fish(Shell, TestCase):
    shell = "fish"

    def complete(self, line):
        script = f"source {os.path.join(SCRIPTS, 'hakmem.fish')}; complete -C{line!r}"
        result = execute(["fish", "--no-config", "-c", script], env=self.env, cwd=self.directory)
        self.assert_code(result, 0)
        return [word.split("\t")[0] for word in result.out.splitlines()]


class Zsh(Shell, TestCase):
    shell = "zsh"

    SETUP = """
        fpath=(%(scripts)s $fpath)
        autoload -U compinit && compinit -u -d %(directory)s/dump
        compadd() {
          if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
          typeset -a __hits
          builtin compadd -A __hits "$@"
          (( $#__hits )) && print -rl -- $__hits >>%(directory)s/offered
          builtin compadd "$@"
        }
        finished() { : >%(directory)s/finished }
        comppostfuncs=(finished)
        bindkey '^I' complete-word
        : >%(directory)s/ready
        """

    def wait(self, terminal, name):
        end = time.monotonic() + 50
        while not os.path.exists(self.path(name)):
            self.assertLess(time.monotonic(), end, f"zsh does not get to: {name}")
            if select.select([terminal], [], [], 0.02)[0]:
                os.read(terminal, 65536)

    def complete(self, line):
        for name in ("offered", "ready", "finished"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        setup = self.write("setup", self.SETUP % {"scripts": SCRIPTS, "directory": self.directory})
        terminal, other = pty.openpty()
        zsh = subprocess.Popen(["zsh", "-f", "-i"], stdin=other, stdout=other, stderr=other, env=self.env,
                               cwd=self.directory, start_new_session=True)  # fmt: skip
        os.close(other)
        try:
            os.write(terminal, f"source {setup}\n".encode())
            self.wait(terminal, "ready")
            os.write(terminal, f"{line}\t".encode())
            self.wait(terminal, "finished")
        finally:
            zsh.kill()
            zsh.wait()
            os.close(terminal)
        if not os.path.exists(self.path("offered")):
            return []
        with open(self.path("offered"), encoding="utf-8") as file:
            return file.read().split()


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
