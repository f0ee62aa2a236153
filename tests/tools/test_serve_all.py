"""hakmem serve --all: every process of the machine that is on hakmem."""

import resource

from common import *
from serving import AllCase
from test_machine import ID
from test_stats import HELD

MANY = 200


class All(AllCase):
    def test_all_are_found_anew_at_each_scrape(self):
        [(first, _)] = self.start(HELD, "small")
        server = self.serve()
        self.assertRegex(server.line, r"^serving all processes on hakmem at http://127\.0\.0\.1:\d+/metrics\n$")
        families = self.families(server)
        self.assertIn(first, self.pids(families))
        self.assertEqual(set(self.left_out(families)), {"late", "time", "number", "unreadable"})
        self.assertEqual(families["hakmem_class_bytes"]["samples"], [])
        [(second, _)] = self.start(HELD, "threads")
        self.start(HELD, "small", preload=None)
        self.wait(lambda: {first, second} <= self.pids(self.families(server)))
        self.process.kill()
        program = {labels["program"] for _, labels, _ in families["hakmem"]["samples"] if labels["pid"] == str(first)}
        self.assertEqual(program, {"held"})
        os.kill(second, signal.SIGKILL)
        self.wait(lambda: second not in self.pids(self.families(server)))
        self.assertEqual(server.end(), 0)
        self.assertEqual(server.process.stderr.read(), "")

    def test_one_that_becomes_another_program_and_back(self):
        script = """if True:
            import os, sys
            print("ready", os.getpid(), 0, flush=True)
            sys.stdin.readline()
            library = os.environ.pop("LD_PRELOAD", None)
            other = os.environ.pop("OTHER", None)
            if other:
                os.environ["LD_PRELOAD"] = other
            os.execve(sys.executable, [sys.executable, "-c", "import sys; sys.stdin.readline()"], os.environ)"""
        for preload, other, after in ((LIBRARY, None, False), (None, LIBRARY, True)):
            [(pid, _)] = self.start(sys.executable, "-c", script, preload=preload, OTHER=other)
            server = self.serve()
            self.wait(lambda: (pid in self.pids(self.families(server))) != after)
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            self.wait(lambda: (pid in self.pids(self.families(server))) == after)
            self.assertEqual(server.end(), 0)

    def test_classes_and_number(self):
        pids = {self.start(HELD, "small")[0][0] for _ in range(3)}
        families = self.families(self.serve("--classes"))
        self.assertLessEqual({str(pid) for pid in pids}, {labels["pid"] for _, labels, _ in families["hakmem_class_bytes"]["samples"]})
        families = self.families(self.serve("--most=2"))
        self.assertEqual(len(self.pids(families)), 2)
        self.assertGreater(self.left_out(families)["number"], 0)

    def test_no_time_is_said_and_all_have_their_turn(self):
        pids = {self.start(HELD, "threads")[0][0] for _ in range(4)}
        server = self.serve("--deadline=0.1")
        seen = set()

        def look():
            families = self.families(server)
            seen.update(self.pids(families))
            return pids <= seen

        self.wait(look)

    @unittest.skipIf(os.environ.get("HAKMEM_TEST_PPROF") != "1", "libprotobuf-c-dev, protobuf-c-compiler or zlib1g-dev is not installed")
    def test_profiles_by_number_and_name(self):
        name = "held" + os.path.basename(self.directory)[-7:]
        program = self.copy(HELD, name)
        [(pid, _)] = self.start(program, "threads", HAKMEM_PROF_RATE="65536")
        server = self.serve()
        for query in (f"?pid={pid}", f"?name={name}", f"?name={name}&seconds=1"):
            with self.subTest(query=query):
                response = self.ask(server, "/debug/pprof/heap" + query)
                self.assertEqual((response.status, response.getheader("content-type")), (200, "application/octet-stream"))
        [(other, _)] = self.start(program, "small")
        response = self.ask(server, f"/debug/pprof/heap?name={name}")
        self.assertEqual(response.status, 400)
        for words in (f"2 processes are called {name}: pid=NUMBER, of ", str(pid), str(other)):
            self.assertIn(words, response.text)
        for query, status in (("?pid=1", 404), ("?name=" + name + "x", 404), ("?name=", 400), ("?name=" + "x" * 300, 400), ("?pid=0", 400)):
            self.assertEqual(self.ask(server, "/debug/pprof/heap" + query).status, status, query)
        # Processes that are on no hakmem at all are not told of.
        other_server = self.serve()
        self.assertEqual(self.ask(other_server, f"/debug/pprof/heap?name={name}x").text, f"no process called {name}x is served\n")

    def test_containers_are_labels(self):
        top = next((d for d in ("/sys/fs/cgroup/name=systemd", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.access(d, os.W_OK)), None)
        pod = "12345678-9abc-def0-1234-56789abcdef0"
        outer = os.path.join(top or "", f"kubepods-pod{pod.replace('-', '_')}.slice")
        inner = os.path.join(outer, f"cri-containerd-{ID}.scope")
        [(pid, _)] = self.start(HELD, "fresh")
        try:
            os.makedirs(inner)
            with open(os.path.join(inner, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))
        except OSError as error:
            self.skipTest(f"no cgroup can be made here: {error}")
        try:
            families = self.families(self.serve())
            labels = [labels for _, labels, _ in families["hakmem_resident_bytes"]["samples"] if labels["pid"] == str(pid)]
            self.assertEqual(labels, [{"pid": str(pid), "program": "held", "container_id": ID, "pod_uid": pod}])
        finally:
            self.process.stdin.close()
            self.process.wait(timeout=60)
            for path in (inner, outer):
                if os.path.isdir(path):
                    self.wait(lambda path=path: not os.path.isdir(path) or self.remove(path))

    @staticmethod
    def remove(path):
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True


class Limits(AllCase):
    def test_address_space(self):
        most = 1 << 30
        [(pid, _)] = self.start(HELD, "small", options={"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))})
        families = self.families(self.serve())

        def of(name):
            return {labels["limit"]: value for _, labels, value in families[name]["samples"] if labels["pid"] == str(pid)}

        self.assertEqual(of("hakmem_limit_bytes")["address_space"], most)
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            size = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        self.assertLess(abs(of("hakmem_limit_used_bytes")["address_space"] - size), 1 << 20)

    def test_container(self):
        top = next((d for d in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup") if os.path.isdir(d) and os.access(d, os.W_OK)), "")
        path = os.path.join(top, f"hakmem-{os.getpid()}")
        first = top.endswith("memory")
        most = 256 << 20
        [(pid, live)] = self.start("/bin/sh", "-c", f"read x; exec {HELD} small", lines=0) or [(0, 0)]
        pid = self.process.pid
        try:
            os.mkdir(path)
            with open(os.path.join(path, "memory.limit_in_bytes" if first else "memory.max"), "w", encoding="ascii") as file:
                file.write(str(most))
            with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write(str(pid))
        except OSError as error:
            self.process.stdin.close()
            if os.path.isdir(path):
                os.rmdir(path)
            self.skipTest(f"no cgroup of memory can be made here: {error}")
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            _, pid, live = self.process.stdout.readline().split()
            families = self.families(self.serve())

            def of(name):
                return {labels["limit"]: value for _, labels, value in families[name]["samples"] if labels["pid"] == pid}

            self.assertEqual(of("hakmem_limit_bytes")["container"], most)
            used = of("hakmem_limit_used_bytes")["container"]
            self.assertTrue(int(live) < used < most, used)
        finally:
            self.process.stdin.close()
            self.process.wait(timeout=60)
            self.wait(lambda: All.remove(path))


class Cost(TestCase):
    def test_two_hundred_processes(self):
        """What docs/fleet.md says of it, by the same command. Each answer has all of them; processor time is printed."""
        fleet = [sys.executable, os.path.join(SOURCE, "bench/fleet.py"), f"--processes={MANY}", "--scrapes=5", "--deadline=20"]
        result = execute([*fleet, "--build", os.path.dirname(TOOL)])
        self.assert_code(result, 0)
        print(result.out)
        _, _, _, _, server, child, _, _, faults, ticks, _ = result.out.splitlines()[-1].replace(",", "").split()
        self.assertLess(float(server) + float(child), 50)
        self.assertEqual((faults, ticks), ("0", "0"))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
