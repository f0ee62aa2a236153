"""hakmem stats: what a running process has in memory, read from outside."""

import json
import re
import resource
import struct
import time

import metrics
from common import *

HELD = os.environ.get("HAKMEM_TEST_HELD", "")
HELD_STATIC = os.environ.get("HAKMEM_TEST_HELD_STATIC", "")
PARTS = ("live", "slack", "caches", "fragmentation", "metadata", "not_ours")
LOOKS = int(os.environ.get("HAKMEM_TEST_LOOKS", "3"))
KIB, MIB = 1 << 10, 1 << 20


def resident(pid):
    """What the kernel says."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return int(re.search(r"^Rss: +(\d+) kB", file.read(), re.MULTILINE).group(1)) * 1024


class StatsCase(TestCase):
    def start(self, *command, preload=LIBRARY, lines=1, options=None, **changes):
        """Starts a program that says when it rests; its processes and the bytes that each holds."""
        env = environment(LD_PRELOAD=preload, HAKMEM_BACKGROUND="0", **changes)
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   **(options or {}))  # fmt: skip
        self.addCleanup(self.end, process)
        self.process = process
        said = [process.stdout.readline().split() for _ in range(lines)]
        self.assertTrue(all(line and line[0] == "ready" for line in said), said)
        return [(int(line[1]), int(line[2])) for line in said]

    def end(self, process):
        process.send_signal(signal.SIGCONT)
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()

    def json(self, pid):
        result = hakmem("stats", str(pid), "--format", "json")
        self.assert_code(result, 0)
        self.assertEqual(result.err, "")
        return json.loads(result.out)

    def assert_plausible(self, figures):
        """Of a process that works meanwhile: it adds up, or it is said that it does not."""
        equation = figures["equation"]
        parts = [equation[name] for name in PARTS]
        self.assertTrue(all(0 <= part <= 2 * equation["resident"] + 16 * MIB for part in parts), equation)
        if not figures["partial"]:
            self.assertLessEqual(abs(sum(parts) - equation["resident"]), equation["resident"] * 0.011, equation)

    def assert_live(self, pid, least, most):
        equation = self.assert_adds_up(pid)["equation"]
        self.assertGreater(equation["live"], least)
        self.assertLess(equation["live"], most)

    def assert_adds_up(self, pid, midway=0):
        """Within 1% of what the kernel says, by the test's own look. `midway`: so many bytes may be between two places."""
        figures = self.json(pid)
        equation = figures["equation"]
        parts = [equation[name] for name in PARTS]
        self.assertFalse(figures["partial"])
        self.assertTrue(all(part >= 0 for part in parts), equation)
        kernel = resident(pid)
        self.assertLessEqual(abs(sum(parts) - kernel), kernel / 100, equation)
        self.assertLessEqual(abs(equation["resident"] - kernel), kernel / 100, equation)
        of_caches = sum(figures["parts"][name] for name in ("spans", "free_slices", "warm_pool"))
        self.assertLessEqual(of_caches, equation["caches"] + 1, figures["parts"])
        self.assertLessEqual(figures["parts"]["unused"], equation["fragmentation"] + 1 + midway, figures["parts"])
        return figures


class Equation(StatsCase):
    def test_fresh_program(self):
        [(pid, _)] = self.start(HELD, "fresh")
        equation = self.assert_adds_up(pid)["equation"]
        self.assertGreater(equation["metadata"], 0)
        self.assertLess(equation["live"] + equation["caches"] + equation["fragmentation"], MIB)

    def test_small_blocks_of_which_most_are_freed(self):
        [(pid, live)] = self.start(HELD, "small")
        equation = self.assert_adds_up(pid)["equation"]
        # Rounding adds at most an eighth, and to the smallest ones 16 bytes.
        self.assertGreater(equation["live"], live)
        self.assertLess(equation["live"], live * 1.2)
        self.assertGreater(equation["fragmentation"], live)
        self.assertLess(equation["not_ours"], 8 * MIB)

    def test_huge_blocks(self):
        [(pid, live)] = self.start(HELD, "huge")
        figures = self.assert_adds_up(pid)
        self.assertGreaterEqual(figures["equation"]["live"], live)
        self.assertLess(figures["equation"]["live"], live * 1.02)
        self.assertEqual(figures["totals"]["huge_live"], 4)
        self.assertLess(figures["equation"]["not_ours"], 8 * MIB)

    def test_forty_threads(self):
        [(pid, live)] = self.start(HELD, "threads")
        figures = self.assert_adds_up(pid)
        self.assertGreater(figures["equation"]["live"], live)
        self.assertLess(figures["equation"]["live"], live * 1.25)
        self.assertEqual(figures["heaps"]["active"], 41)
        # Heaps of no thread: that of samples, and those that all threads share.
        threads = [t for t in figures["threads"] if not t["samples"] and not t["common"]]
        self.assertEqual(len(threads), 41)
        if os.uname().machine == "x86_64":
            tasks = {int(task) for task in os.listdir(f"/proc/{pid}/task")}
            self.assertEqual({thread["thread"] for thread in threads}, tasks)
            self.assertEqual({thread["name"] for thread in threads}, {"held"})
        self.assertGreater(sum(thread["bins"] for thread in figures["threads"]), 0)

    def test_parent_and_child_of_a_fork(self):
        processes = self.start(HELD, "fork", lines=2)
        for pid, live in processes:
            with self.subTest(pid=pid):
                equation = self.assert_adds_up(pid)["equation"]
                self.assertGreater(equation["live"], live)
                self.assertLess(equation["live"], live * 1.25)

    def test_static_program_without_symbols(self):
        [(pid, live)] = self.start(HELD_STATIC, "small", preload=None)
        figures = self.assert_adds_up(pid)
        self.assertGreater(figures["equation"]["live"], live)
        self.assertLess(figures["equation"]["live"], live * 1.2)

    def test_while_it_works(self):
        [(pid, _)] = self.start(HELD, "churn", HAKMEM_WARM_POOL_DECAY_MS="1")
        for _ in range(10):
            self.assert_plausible(self.json(pid))


class Hostile(StatsCase):
    """Processes that do not hold still, or have lost what the tool looks for."""

    def test_eight_threads_that_come_and_go(self):
        [(pid, _)] = self.start(HELD, "storm", HAKMEM_WARM_POOL_DECAY_MS="1")
        for _ in range(LOOKS):
            self.assert_plausible(self.json(pid))

    def test_stopped_process(self):
        [(pid, _)] = self.start(HELD, "churn")
        os.kill(pid, signal.SIGSTOP)
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            while file.read().rsplit(")", 1)[1].split()[0] != "T":
                file.seek(0)
        # Stopped within a refill, it has made blocks of memory that its slab does not count as blocks yet: CARVED_MOST of refill.c.
        first, second = self.assert_adds_up(pid, 16 * KIB), self.assert_adds_up(pid, 16 * KIB)
        self.assertEqual(first["equation"], second["equation"])

    def test_number_of_a_thread(self):
        [(pid, _)] = self.start(HELD, "threads")
        threads = set(map(int, os.listdir(f"/proc/{pid}/task"))) - {pid}
        self.assertEqual(self.json(max(threads))["pid"], pid)

    def test_first_thread_has_ended(self):
        [(pid, live)] = self.start(HELD, "orphan")
        figures = self.json(pid)
        self.assertEqual((figures["pid"], figures["heaps"]["active"]), (pid, 1))
        self.assertTrue(live < figures["equation"]["live"] < 1.3 * live, figures["equation"])

    def test_number_of_another_process_by_now(self):
        """A process ends and another one of the same program gets its number, as /proc/sys/kernel/ns_last_pid decides."""
        script = """if True:
            import os, subprocess, sys
            held, tool, library = sys.argv[1:]
            def start():
                process = subprocess.Popen([held, "fresh"], env=dict(os.environ, LD_PRELOAD=library), text=True,
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                return process, int(process.stdout.readline().split()[1])
            first, number = start()
            import pty, time
            time.sleep(0.1)  # births are told in hundredths of a second
            terminal, other = pty.openpty()
            top = subprocess.Popen([tool, "top", "--delay", "0.5", str(number)], stdin=other, stdout=other,
                                   stderr=subprocess.PIPE, env=dict(os.environ, TERM="xterm"))
            os.read(terminal, 100)
            os.kill(top.pid, 19)
            first.stdin.close()
            first.wait()
            try:
                with open("/proc/sys/kernel/ns_last_pid", "w") as file:
                    file.write(str(number - 1))
            except OSError:
                sys.exit(77)
            second, again = start()
            os.kill(top.pid, 18)
            print(number == again, top.stderr.read().decode(), top.wait())
            second.stdin.close()"""
        unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if os.geteuid() != 0:
            unshare[1:1] = ["--user", "--map-root-user"]
        result = execute([*unshare, sys.executable, "-c", script, HELD, TOOL, LIBRARY], env=environment(HAKMEM_BACKGROUND="0"))
        if result.code == 77 or "unshare" in result.err:
            self.skipTest(f"numbers of processes cannot be chosen here: {result.err}")
        self.assert_code(result, 0)
        self.assertTrue(result.out.startswith("True "), result)
        self.assertIn("(held) has ended meanwhile", result.out)

    def replaced(self, path):
        """Another file under its name, as an upgrade leaves it."""
        os.rename(self.write("new", b"not a library"), path)

    def test_library_that_was_deleted(self):
        # Root may open the deleted file all the same; anybody else reads the library in memory.
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        os.chmod(self.directory, 0o755)
        held, tool = self.copy(HELD, "held"), self.copy(TOOL, "hakmem")
        for user in ({}, nobody):
            for what in (os.unlink, self.replaced):
                with self.subTest(what=what.__name__, user=user):
                    library = self.copy(LIBRARY, "libhakmem.so.0")
                    [(pid, live)] = self.start(held, "small", preload=library, options=user)
                    what(library)
                    result = hakmem("stats", str(pid), tool=tool, **user)
                    self.assert_code(result, 0)
                    told = int(re.search(r"live (\d+)", result.out).group(1))
                    self.assertTrue(live < told < 1.2 * live, result)

    def test_program_that_was_deleted(self):
        program = self.copy(HELD_STATIC, "held")
        [(pid, live)] = self.start(program, "small", preload=None)
        os.unlink(program)
        self.assertGreater(self.assert_adds_up(pid)["equation"]["live"], live)


class Programs(StatsCase):
    """Programs that know nothing of it, started with nothing but LD_PRELOAD."""

    def test_python(self):
        script = """if True:
            import os, sys
            kept = [str(i) * 20 for i in range(200000)]
            print("ready", os.getpid(), sum(map(sys.getsizeof, kept)), flush=True)
            sys.stdin.read()"""
        [(pid, held)] = self.start("/usr/bin/python3", "-c", script, PYTHONMALLOC="malloc")
        self.assert_live(pid, held, 2 * held)

    def test_server_under_load(self):
        [(pid, _)] = self.start(os.environ["HAKMEM_TEST_SERVER"])
        for _ in range(10):
            figures = self.json(pid)
            self.assert_plausible(figures)
            self.assertGreater(figures["equation"]["live"], 15 * MIB)
            self.assertEqual(figures["heaps"]["active"], 6)


class Formats(StatsCase):
    def test_text(self):
        [(pid, _)] = self.start(HELD, "small")
        result = hakmem("stats", str(pid))
        self.assert_code(result, 0)
        lines = result.out.splitlines()
        figures = re.fullmatch(r"resident (\d+) = live (\d+) \+ slack (\d+) \+ caches (\d+) \+ "
                               r"fragmentation (\d+) \+ metadata (\d+) \+ not ours (\d+)", lines[0])  # fmt: skip
        self.assertIsNotNone(figures, lines[0])
        numbers = [int(number) for number in figures.groups()]
        self.assertLessEqual(abs(numbers[0] - sum(numbers[1:])), numbers[0] / 100)
        self.assertIn(f"held ({pid}), hakmem ", lines[1])
        for words in ("waste by size of blocks", "heaps of threads: 1 in use", "system calls since the start"):
            self.assertIn(words, result.out)

    def test_a_limit_is_shown(self):
        [(pid, _)] = self.start(HELD, "fresh")
        resource.prlimit(pid, resource.RLIMIT_AS, (1 << 40, resource.prlimit(pid, resource.RLIMIT_AS)[1]))
        self.assertRegex(hakmem("stats", str(pid)).out, r"\nlimit of address space: 1\.0 TiB, of which [\d.]+ [KMG]iB are used\n")

    def test_json_has_the_names_of_the_library(self):
        """The same things under the same names as HAKMEM_STATS=json, and with the same figures."""
        process = subprocess.run([HELD, "small"], input="", text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, timeout=60, check=True,
                                 env=environment(LD_PRELOAD=LIBRARY, HAKMEM_STATS="json"))  # fmt: skip
        [(pid, _)] = self.start(HELD, "small", HAKMEM_STATS="text")
        read = self.json(pid)
        if process.stderr:  # _exit() runs no destructors
            written = json.loads(process.stderr)
            self.assertEqual(set(written) - set(read), set())
        for name in ("version", "hakmem", "variant", "pid", "program", "profile", "os", "totals", "heaps", "memory",
                     "classes", "large", "huge"):  # fmt: skip
            self.assertIn(name, read)
        self.assertEqual((read["pid"], read["program"], read["profile"]), (pid, "held", "balanced"))
        self.assertGreater(sum(row["alloc"] for row in read["classes"]), 100000)
        self.assertGreaterEqual(read["totals"]["bytes_mapped"], read["totals"]["superslabs_live"] * 2 * MIB)

    def test_figures_are_those_of_the_library(self):
        """At rest, the library at a signal and the tool from outside say the same."""
        for what in ("small", "given"):
            with self.subTest(what=what):
                self.check_figures(what)

    def check_figures(self, what):
        path = self.path(what)
        [(pid, _)] = self.start(HELD, what, HAKMEM_STATS_SIGNAL="USR1", HAKMEM_STATS_FILE=path)
        os.kill(pid, signal.SIGUSR1)
        text = ""
        while not text.endswith("\n"):
            if os.path.exists(path):
                with open(path, encoding="ascii") as file:
                    text = file.read()
        written = json.loads(text)
        read = self.json(pid)
        for group in ("os", "heaps", "memory", "totals"):
            for name, value in written[group].items():
                if name in ("bytes_metadata", "metadata", "resident", "peak_ms"):
                    continue  # used of the chunks, here; what of them is resident, there
                self.assertEqual(read[group][name], value, (group, name))
        classes = {row["class"]: row for row in read["classes"]}
        self.assertGreater(len(written["classes"]), 20)
        for row in written["classes"]:
            for name in ("size", "alloc", "free", "warm_pool"):
                self.assertEqual(classes[row["class"]][name], row[name])
        for tier in ("large", "huge"):
            self.assertEqual(read[tier], written[tier])

    def test_given_large_blocks_are_not_of_what_is_pinned(self):
        [(pid, live)] = self.start(HELD, "given")
        memory = self.json(pid)["memory"]
        self.assertGreater(memory["given"], 4 * MIB - 1)
        # Of blocks of 512 bytes one in four stays, so that few pages are free.
        self.assertTrue(live < memory["pinned"] < 4 * MIB, (live, memory))

    def test_options_in_effect(self):
        [(pid, _)] = self.start(HELD, "small", HAKMEM_PROFILE="lean", HAKMEM_BINS_KB="64")
        figures = self.json(pid)
        self.assertEqual(figures["profile"], "lean")
        self.assertEqual(figures["options"]["HAKMEM_BINS_KB"], 64)
        self.assertEqual(figures["options"]["HAKMEM_SS_MEM_LEAN_DECOMMIT"], "DONTNEED")
        self.assertEqual(figures["options"]["HAKMEM_BACKGROUND"], "0")

    def test_options_are_read_at_the_first_malloc(self):
        [(pid, _)] = self.start(HELD, "fresh", HAKMEM_PROFILE="lean")
        figures = self.json(pid)
        self.assertNotIn("options", figures)
        self.assertNotIn("profile", figures)

    def test_openmetrics(self):
        [(pid, _)] = self.start(HELD, "threads")
        result = hakmem("stats", str(pid), "--format=openmetrics")
        self.assert_code(result, 0)
        families = metrics.parse(result.out)
        parts = metrics.values(families, "hakmem_memory_bytes", "part")
        self.assertEqual(set(parts), set(PARTS))
        total = families["hakmem_resident_bytes"]["samples"][0][2]
        self.assertLessEqual(abs(sum(parts.values()) - total), total / 100)
        self.assertEqual(families["hakmem_system_calls"]["type"], "counter")
        self.assertEqual(families["hakmem"]["type"], "info")
        self.assertGreater(len(families["hakmem_class_bytes"]["samples"]), 40)
        for name, family in families.items():
            self.assertNotEqual(family["help"], "", name)
            self.assertEqual(family["unit"], next((unit for unit in ("bytes", "seconds") if name.endswith("_" + unit)), ""))
            for _, labels, _ in family["samples"]:
                if name != "hakmem_processes":
                    self.assertEqual((labels["pid"], labels["program"]), (str(pid), "held"), name)

    def test_prometheus_text_has_the_same_samples_and_no_types_that_it_does_not_know(self):
        [(pid, _)] = self.start(HELD, "threads")
        result = hakmem("stats", str(pid), "--format=prometheus")
        self.assert_code(result, 0)
        self.assertNotRegex(result.out, r"(?m)^# (UNIT|EOF)")
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", result.out, re.MULTILINE))
        self.assertEqual(set(types.values()), {"counter", "gauge"})
        named = re.findall(r"^(hakmem\w+)", result.out, re.MULTILINE)
        self.assertLessEqual(set(named), set(types))
        self.assertEqual(types["hakmem_info"], "gauge")
        other = hakmem("stats", str(pid), "--format=openmetrics").out
        self.assertEqual(named, re.findall(r"^(hakmem\w+)", other, re.MULTILINE))

    def test_openmetrics_tells_of_samples_faults_and_age(self):
        started = time.time()
        [(pid, live)] = self.start(HELD, "threads", HAKMEM_PROF_RATE="65536")
        result = hakmem("stats", str(pid), "--format=openmetrics")
        families = metrics.parse(result.out)
        figure = {name: family["samples"][0][2] for name, family in families.items() if family["samples"]}
        self.assertEqual(figure["hakmem_sample_rate_bytes"], 65536)
        self.assertEqual(figure["hakmem_samples_dropped"], 0)
        self.assertLess(figure["hakmem_live_samples"], figure["hakmem_samples"])
        # By more than 300 samples: five standard deviations are 29%.
        self.assertGreater(figure["hakmem_samples"], 300)
        self.assertGreater(figure["hakmem_allocated_bytes"], 0.7 * live)
        self.assertGreater(figure["hakmem_allocated_blocks"], 1000)
        faults = metrics.values(families, "hakmem_page_faults", "kind")
        self.assertGreater(faults["minor"], live / os.sysconf("SC_PAGESIZE"))
        self.assertLess(abs(figure["hakmem_process_start_time_seconds"] - started), 60)


class Refusals(StatsCase):
    def refused(self, pid, code, *words, **options):
        result = hakmem("stats", str(pid), **options)
        self.assert_code(result, code)
        self.assertEqual(result.out, "")
        self.assertEqual(len(result.err.splitlines()), 1, result)
        for word in words:
            self.assertIn(word, result.err)

    def test_no_process(self):
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            self.refused(int(file.read()) + 1, 127, "there is no process")
        self.assertIn("no process of the name '12x' runs on hakmem", hakmem("stats", "12x").err)
        self.refused("0", 2)
        self.assertIn("accepted: text|json|openmetrics|prometheus", hakmem("stats", "--format=xml", "1").err)

    def test_no_hakmem_in_it(self):
        [(pid, _)] = self.start(HELD, "fresh", preload=None)
        self.refused(pid, 126, "does not run on hakmem", "glibc's malloc", "hakmem run -- held")

    def test_hakmem_that_is_not_in_use(self):
        [(pid, _)] = self.start(HELD, "small", HAKMEM_FORCE_LIBC_ALLOC="1")
        self.refused(pid, 126, "HAKMEM_FORCE_LIBC_ALLOC=1", "libc's malloc")

    def test_another_allocator(self):
        library = library_path("libjemalloc.so.2")
        fake = self.build("libjemalloc.so", "int jemalloc_is_here;", "-shared", "-fPIC")
        [(pid, _)] = self.start(HELD, "fresh", preload=library or fake)
        self.refused(pid, 126, "does not run on hakmem", "jemalloc")

    def test_an_older_library(self):
        older = self.build("libhakmem.so.0", "int hak_version;", "-shared", "-fPIC")
        [(pid, _)] = self.start(HELD, "fresh", preload=older)
        self.refused(pid, 126, "older hakmem", "libhakmem.so.0")

    def test_a_newer_library(self):
        newer = self.build("libhakmem.so.9", r"""
            __attribute__((section(".hakmem_directory"), used)) const struct {
              char magic[16]; unsigned version, bytes; long distances[40];
            } directory = {{"hakmem directory"}, 99, 300, {8}};""", "-shared", "-fPIC", "-Wno-all")  # fmt: skip
        [(pid, _)] = self.start(HELD, "fresh", preload=newer)
        self.refused(pid, 126, "version 99", "use the tool of that release")

    def test_damaged_directory(self):
        damaged = self.build("libhakmem.so.8", r"""
            __attribute__((section(".hakmem_directory"), used)) const struct {
              char magic[16]; unsigned version, bytes; long distances[40];
            } directory = {{"hakmem directory"}, 1, 136, {8, 8, 8, 8, 8, 8}};""", "-shared", "-fPIC")  # fmt: skip
        [(pid, _)] = self.start(HELD, "fresh", preload=damaged)
        self.refused(pid, 126, "makes no sense")

    def test_a_process_that_has_ended(self):
        process = subprocess.Popen(["true"], env=environment())
        self.addCleanup(process.wait)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.refused(process.pid, 127, "has ended")

    def test_a_process_that_is_ending(self):
        # It gives its memory back before it has ended, which takes a while.
        fill = """
import mmap
memory = mmap.mmap(-1, 1 << 28)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(0, len(memory), 4096):
    memory[page] = 1
print("filled", flush=True)
input()
"""
        process = subprocess.Popen([sys.executable, "-c", fill], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        process.stdout.readline()
        process.kill()
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            result = hakmem("stats", str(process.pid))
            self.assertNotIn("thread of the kernel", result.err)

    def test_a_thread_of_the_kernel(self):
        # Where there is none to be seen, as in a container, no process looks like one.
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
                    status = file.read()
            except OSError:
                continue
            if "VmSize" not in status and "State:\tZ" not in status and "State:\tX" not in status:
                self.refused(pid, 126, "is a thread of the kernel")
                return

    def test_program_of_another_word_size(self):
        # 32-bit x86: for (;;) pause();
        code = bytes.fromhex("b81d000000cd80ebf7")
        header = struct.pack("<4s5B7x2H5I6H", b"\x7fELF", 1, 1, 1, 0, 0, 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 40, 0, 0)
        segment = struct.pack("<8I", 1, 0, 0x8048000, 0x8048000, 84 + len(code), 84 + len(code), 5, 4096)
        program = self.write("small", header + segment + code)
        try:
            process = subprocess.Popen([program], env=environment())
        except OSError as error:
            self.skipTest(f"the kernel runs no 32-bit programs: {error.strerror}")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.refused(process.pid, 126, "is a program for x86, 32-bit")

    def test_process_that_nobody_may_look_at(self):
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        os.chmod(self.directory, 0o755)
        held, tool = self.copy(HELD, "held"), self.copy(TOOL, "hakmem")
        [(pid, _)] = self.start(held, "private", preload=self.copy(LIBRARY, "libhakmem.so"), options=nobody)
        self.refused(pid, 126, "cannot be read", "PR_SET_DUMPABLE", tool=tool, **nobody)

    def nobody(self):
        """What makes a process one of another user's, where this is root: such a one obeys the rules."""
        return {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}

    def test_process_that_keeps_a_page(self):
        os.chmod(self.directory, 0o755)
        held, tool = self.copy(HELD, "held"), self.copy(TOOL, "hakmem")
        [(pid, live)] = self.start(held, "private", preload=self.copy(LIBRARY, "libhakmem.so"),
                                   options=self.nobody(), HAKMEM_SHM="1")  # fmt: skip
        page = f"/dev/shm/hakmem-{pid}"
        self.addCleanup(lambda: os.path.exists(page) and os.unlink(page))  # held ends by _exit()
        self.assertEqual(os.stat(page).st_mode & 0o777, 0o600)
        result = hakmem("stats", str(pid), "--format=json", tool=tool, **self.nobody())
        self.assert_code(result, 0)
        figures = json.loads(result.out)
        equation = figures["equation"]
        self.assertTrue(equation["counted"])
        self.assertTrue(live < equation["live"] < 1.3 * live, (live, equation))
        total = sum(equation[name] for name in PARTS)
        self.assertLessEqual(abs(total - equation["resident"]), equation["resident"] / 100, equation)
        self.assertEqual(figures["heaps"], {"active": 1, "parked": 0})
        text = hakmem("stats", str(pid), tool=tool, **self.nobody())
        self.assertIn("may not be read: sums that it wrote", text.out)
        self.assert_code(hakmem("top", "--once", str(pid), tool=tool, **self.nobody()), 0)
        # Nor is there any option in it.
        for arguments in ((), ("--format=json",), ("HAKMEM_BINS_KB",)):
            refused = hakmem("options", "--effective", str(pid), *arguments, tool=tool, **self.nobody())
            self.assert_code(refused, 126)
            self.assertEqual((refused.out, len(refused.err.splitlines())), ("", 1))
            self.assertIn(f"process {pid} cannot be read", refused.err)
        # What is not known is not 0 but not there.
        families = metrics.parse(hakmem("stats", "--format=openmetrics", str(pid), tool=tool, **self.nobody()).out)
        unknown = {name for name, family in families.items() if not family["samples"]}
        self.assertLessEqual({"hakmem_class_bytes", "hakmem_cache_bytes", "hakmem_swapped_bytes", "hakmem_samples"}, unknown)
        self.assertEqual(unknown & {"hakmem_memory_bytes", "hakmem_in_use_bytes", "hakmem_system_calls", "hakmem_heaps"}, set())
        # Cut short, made by another, of another version, or left over: not believed.
        with open(page, "r+b") as file:
            content = file.read()
            for bad in (content[:100], b"x" + content[1:], content[:16] + b"\2" + content[17:],
                        content[:24] + b"\1" + content[25:], content[:32] + bytes(8) + content[40:]):  # fmt: skip
                with open(self.path("page"), "wb") as copy:
                    copy.write(bad)
                os.chown(self.path("page"), os.stat(page).st_uid, -1)
                os.rename(page, page + ".kept")
                shutil.copy2(self.path("page"), page)
                os.chown(page, os.stat(page + ".kept").st_uid, -1)
                self.refused(pid, 126, "cannot be read", tool=tool, **self.nobody())
                os.rename(page + ".kept", page)
        if os.geteuid() == 0:  # of the right name, but of another user
            os.chown(page, 0, 0)
            os.chmod(page, 0o644)
            self.refused(pid, 126, "cannot be read", tool=tool, **self.nobody())

    def test_another_users_process(self):
        if os.geteuid() == 0:
            [(pid, _)] = self.start(HELD, "fresh")
            copy = self.copy(TOOL, "hakmem")
            os.chmod(self.directory, 0o755)
            self.refused(pid, 126, "belongs to user 0", tool=copy, user=65534, group=65534, extra_groups=[])
        else:
            self.refused(1, 126, "belongs to user 0")


class Lying(StatsCase):
    def start_lying(self, how):
        [(pid, _)] = self.start(os.environ["HAKMEM_TEST_LYING"], how, preload=None)
        return pid

    def test_stacks_without_an_end(self):
        pid = self.start_lying("stacks")
        for command in (("prof", str(pid)), ("explain", str(pid)), ("stats", "--format=openmetrics", str(pid))):
            with self.subTest(command=command):
                self.assertIn(hakmem(*command).code, (0, 1, 126))

    def test_more_slices_than_a_unit_has(self):
        pid = self.start_lying("slices")
        result = hakmem("stats", str(pid))
        self.assert_code(result, 126)
        self.assertIn("makes no sense", result.err)

    def test_more_units_than_there_is_address_space(self):
        figures = self.json(self.start_lying("units"))
        self.assertTrue(figures["partial"])

    def test_control_characters_in_names(self):
        pid = self.start_lying("name")
        for command in (("stats", str(pid)), ("explain", str(pid)), ("stats", "--format=openmetrics", str(pid)),
                        ("stats", "--format=json", str(pid))):
            with self.subTest(command=command):
                out = execute([TOOL, *command])
                self.assert_code(out, 0)
                self.assertNotIn("\033", out.out + out.err)
                self.assertNotIn("\x9b", out.out + out.err)

    def test_heaps_of_one_name_are_one_series(self):
        pid = self.start_lying("heaps")
        told = hakmem("stats", "--format=openmetrics", str(pid)).out
        found = re.findall(r'^hakmem_named_heap_live_bytes{.*heap="(\w+)"} (\d+)$', told, re.MULTILINE)
        heaps = self.json(pid)["named_heaps"]
        session = sum(heap["live_bytes"] for heap in heaps if heap["name"] == "session")
        self.assertEqual(len(heaps), 3)
        self.assertEqual(dict(found)["session"], str(session))
        self.assertEqual(sorted(name for name, _ in found), ["other", "session"])
        metrics.parse(told)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
