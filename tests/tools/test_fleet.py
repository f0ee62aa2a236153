"""contrib/kubernetes and contrib/systemd/hakmem-serve.service: what they say is valid, and what they start works with what they grant."""

import json
import re
import shlex

import metrics
from common import *
from serving import TOKEN, AllCase
from test_stats import HELD

CONTRIB = os.path.join(SOURCE, "contrib")
KUBERNETES = os.path.join(CONTRIB, "kubernetes")
TOOLS = os.path.join(SOURCE, "build/manifests")
PYTHON = os.path.join(TOOLS, "venv/bin/python")
UNIT = os.path.join(CONTRIB, "systemd/hakmem-serve.service")
VERSIONS = ("1.31", "1.37")  # the oldest that has appArmorProfile as a field by default, and the newest that is known

LOAD = """if True:
    import json, sys, yaml
    print(json.dumps([document for path in sys.argv[1:] for document in yaml.safe_load_all(open(path))]))"""
VALIDATE = """if True:
    import json, sys, kubernetes_validate
    for object in json.load(sys.stdin):
        try:
            kubernetes_validate.validate(object, sys.argv[1], strict=True)
            print("ok")
        except Exception as error:
            print(str(error).split("\\n")[0])"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class ManifestCase(AllCase):
    def setUp(self):
        super().setUp()
        if not os.path.exists(os.path.join(TOOLS, "stamp")):
            self.skipTest("the packages could not be fetched")

    def load(self, *names):
        return json.loads(execute([PYTHON, "-c", LOAD, *(os.path.join(KUBERNETES, name) for name in names)]).out)

    def told(self, command, text):
        done = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def validate(self, objects, version=VERSIONS[-1]):
        return self.told([PYTHON, "-c", VALIDATE, version], json.dumps(objects))


class Manifests(ManifestCase):
    def test_every_file_is_tested(self):
        self.assertEqual(sorted(os.listdir(KUBERNETES)), ["agent.yaml", "podmonitor.yaml", "rules.yaml", "scrape.yml", "workload.yaml"])

    def test_those_of_kubernetes_follow_its_schemas(self):
        objects = self.load("agent.yaml", "workload.yaml")
        self.assertEqual([thing["kind"] for thing in objects], ["ServiceAccount", "DaemonSet", "NetworkPolicy", "Deployment"])
        for version in VERSIONS:
            self.assertEqual(self.validate(objects, version), ["ok"] * 4)
        # A mistake is found.
        daemon = json.dumps(objects[1])
        for right, wrong in (('"hostPID": true', '"hostPid": true'), ('"containerPort": 9105', '"containerPort": "9105"'), ('"image"', '"imag"'),
                             ('"appArmorProfile": {"type"', '"appArmorProfile": {"typ"')):  # fmt: skip
            self.assertIn(right, daemon)
            self.assertNotEqual(self.validate([json.loads(daemon.replace(right, wrong))]), ["ok"], wrong)

    def test_those_of_the_operator_follow_its_schemas(self):
        if not os.path.isdir(os.path.join(TOOLS, "node_modules")):
            self.skipTest("npm is not installed")
        [monitor, rules] = self.load("podmonitor.yaml", "rules.yaml")
        wrong = json.loads(json.dumps(monitor))
        wrong["spec"]["podMetricsEndpoints"][0]["interval"] = 15
        lines = "\n".join(map(json.dumps, (monitor, rules, wrong)))
        told = self.told(["node", os.path.join(SOURCE, "tests/tools/manifests/operator.mjs"), TOOLS], lines)
        self.assertEqual(told[:2], ["ok", "ok"])
        self.assertIn("interval must be string", told[2])
        # These schemas let names pass that they do not know.
        self.assertEqual(set(monitor["spec"]), {"selector", "sampleLimit", "podMetricsEndpoints"})
        self.assertEqual(set(monitor["spec"]["podMetricsEndpoints"][0]), {"port", "interval", "scrapeTimeout", "authorization", "relabelings"})

    def test_they_fit_each_other(self):
        [_, daemon, policy, monitor] = self.load("agent.yaml", "podmonitor.yaml")
        labels = daemon["spec"]["template"]["metadata"]["labels"]
        [container] = daemon["spec"]["template"]["spec"]["containers"]
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        for selector in (daemon["spec"]["selector"], policy["spec"]["podSelector"], monitor["spec"]["selector"]):
            self.assertEqual(selector["matchLabels"], labels)
        self.assertEqual({endpoint["port"], policy["spec"]["ingress"][0]["ports"][0]["port"]}, {port["name"] for port in container["ports"]})
        secret = daemon["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"]
        self.assertEqual(endpoint["authorization"]["credentials"], {"name": secret, "key": "token"})
        self.assertIn(f"generic {secret} --from-literal=token=", read(os.path.join(KUBERNETES, "agent.yaml")))

    def test_rules_are_those_of_prometheus(self):
        if shutil.which("promtool") is None:
            self.skipTest("prometheus is not installed")
        [rules] = self.load("rules.yaml")
        [own, more] = rules["spec"]["groups"]
        [plain] = json.loads(execute([PYTHON, "-c", LOAD, os.path.join(CONTRIB, "prometheus/hakmem.rules.yml")]).out)
        self.assertEqual([own], plain["groups"])
        file = self.write("rules.yml", json.dumps({"groups": [more]}))
        tests = self.write("tests.yml", json.dumps({"rule_files": [file], "evaluation_interval": "1m", "tests": [{
            "interval": "1m",
            "input_series": [
                {"series": 'hakmem_memory_bytes{pid="1",program="a",pod_uid="u1",part="live",instance="n1"}', "values": "10x5"},
                {"series": 'hakmem_memory_bytes{pid="2",program="b",pod_uid="u1",part="live",instance="n1"}', "values": "5x5"},
                {"series": 'hakmem_memory_bytes{pid="3",program="c",part="live",instance="n1"}', "values": "7x5"},
                {"series": 'kube_pod_info{namespace="shop",pod="cart-1",uid="u1",host_ip="1.1.1.1"}', "values": "1x5"},
                {"series": 'kube_pod_info{namespace="shop",pod="cart-2",uid="u2",host_ip="1.1.1.1"}', "values": "1x5"}],
            "promql_expr_test": [{"expr": "hakmem:pod:memory_bytes", "eval_time": "3m", "exp_samples": [
                {"labels": 'hakmem:pod:memory_bytes{namespace="shop",pod="cart-1",pod_uid="u1",part="live"}', "value": 15}]}]}]}))  # fmt: skip
        self.assert_code(execute(["promtool", "test", "rules", tests]), 0)
        # Debian's Prometheus is built without the discovery of Kubernetes: the rest is checked with targets that stand still.
        scrape = read(os.path.join(KUBERNETES, "scrape.yml"))
        still = re.sub(r"( +)kubernetes_sd_configs:\n(?:\1 +.*\n)+", r"\1static_configs: [{targets: ['a:1']}]\n", scrape)
        self.assertIn("static_configs", still)
        self.assert_code(execute(["promtool", "check", "config", "--syntax-only", self.write("scrape.yml", still)]), 0)

    def test_the_init_container_copies_the_library(self):
        [workload] = self.load("workload.yaml")
        spec = workload["spec"]["template"]["spec"]
        [init], [container] = spec["initContainers"], spec["containers"]
        # As ldconfig lists them on a system with two architectures.
        self.write("ldconfig", f"#!/bin/sh\nprintf '\\tlibc.so.6 (libc6,x86-64) => /lib/libc.so.6\\n\\tlibhakmem.so.0 (libc6,x86-64) => {LIBRARY}\\n'\n"
                               "printf '\\tlibhakmem.so.0 (libc6) => /usr/lib32/none\\n'\n")  # fmt: skip
        command = [word.replace("/hakmem/", self.directory + "/") for word in init["command"]]
        self.assert_code(execute(command, env=environment(PATH=f"{self.directory}:{os.environ['PATH']}")), 0)
        self.assertEqual(container["env"], [{"name": "LD_PRELOAD", "value": "/hakmem/libhakmem.so.0"}, {"name": "HAKMEM_BACKGROUND", "value": "1"}])
        [(pid, _)] = self.start(HELD, "fresh", preload=self.path("libhakmem.so.0"))
        self.assertIn(pid, self.pids(self.families(self.serve())))


CAPABILITIES = ("sys_ptrace", "dac_read_search")


@unittest.skipIf(os.geteuid() != 0, "only root can start a process of another user")
class Granted(AllCase):
    """With the capabilities that are granted and no others."""

    def run_with(self, capabilities, user, *arguments):
        os.chmod(self.directory, 0o755)
        os.chmod(self.token, 0o600)
        os.chown(self.token, user, -1)
        tool = self.copy(TOOL, "hakmem")
        granted = ",".join(["-all", *("+" + name for name in capabilities)])
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", f"--bounding-set={granted}", f"--inh-caps={granted}",
                 f"--ambient-caps={granted}", "--no-new-privs", tool]  # fmt: skip
        script = self.write("granted", f"#!/bin/sh\nexec {shlex.join(words)} \"$@\"\n")
        return self.serve(*arguments, tool=script)

    def start_of(self, user):
        held, library = self.copy(HELD, f"held-{user}"), self.copy(LIBRARY, f"libhakmem.so.{user}")
        os.chmod(self.directory, 0o755)
        [(pid, _)] = self.start(held, "small", preload=library, options={"user": user, "group": user, "extra_groups": []})
        return pid

    def test_those_of_the_service(self):
        granted = re.search(r"^AmbientCapabilities=(.*)$", read(UNIT), re.MULTILINE)[1]
        self.assertEqual(granted.lower().replace("cap_", "").split(), list(CAPABILITIES))
        self.assertIn(f"CapabilityBoundingSet={granted}\n", read(UNIT))
        pids = {self.start_of(0), self.start_of(12345)}
        server = self.run_with(CAPABILITIES, 65534)
        families = self.families(server)
        self.assertLessEqual(pids, self.pids(families))
        # By page: what is resident adds up.
        for pid in pids:
            mine = [value for _, labels, value in families["hakmem_memory_bytes"]["samples"] if labels["pid"] == str(pid)]
            [whole] = [value for _, labels, value in families["hakmem_resident_bytes"]["samples"] if labels["pid"] == str(pid)]
            self.assertLess(abs(sum(mine) - whole), whole / 50)
        if os.environ.get("HAKMEM_TEST_PPROF") == "1":
            for pid in pids:
                self.assertEqual(self.ask(server, f"/debug/pprof/heap?pid={pid}").status, 200)

    def test_none_of_them_is_too_many(self):
        pid = self.start_of(12345)
        self.assertNotIn(pid, self.pids(self.families(self.run_with(CAPABILITIES[1:], 65534))))
        # Without the other one pages of others cannot be told.
        script = f"cat /proc/{pid}/pagemap | head -c 8 | wc -c"
        words = ["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all,+sys_ptrace", "--ambient-caps=-all,+sys_ptrace", "sh", "-c", script]
        self.assertEqual(execute(words).out.strip(), "0")

    def test_those_of_the_daemonset(self):
        text = read(os.path.join(KUBERNETES, "agent.yaml"))
        granted = re.search(r"^ +add: \[(.*)\]$", text, re.MULTILINE)[1]
        self.assertEqual(granted.lower().replace('"', "").split(", "), list(CAPABILITIES))
        words = re.findall(r'"([^"]*)"', re.search(r"^ +command: (.*)$", text, re.MULTILINE)[1] + re.search(r"^ +args: (.*)$", text, re.MULTILINE)[1])
        self.assertEqual(words, ["hakmem", "serve", "--all", "--host=$(POD_IP)", "--port=9105", "--allow-remote", "--token-file=/etc/hakmem/token"])
        pid = self.start_of(12345)
        server = self.run_with(CAPABILITIES, 0, "--host=0.0.0.0", "--allow-remote")
        server.host = "127.0.0.1"
        self.assertIn(pid, self.pids(self.families(server)))


class Unit(TestCase):
    def test_it_is_valid_and_tight(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd is not installed")
        self.assertIn("ExecStart=/usr/bin/hakmem serve --all --port=9105 ", read(UNIT))
        unit = self.write("hakmem-serve.service", read(UNIT).replace("/usr/bin/hakmem", TOOL), 0o644)
        result = execute(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit])
        self.assertEqual((result.code, result.out + result.err), (0, ""))
        broken = self.write("broken.service", read(UNIT).replace("/usr/bin/hakmem", TOOL).replace("NoNewPrivileges", "NoNewPrivilege"), 0o644)
        self.assertIn("Unknown key 'NoNewPrivilege'", execute(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", broken]).err)
        # 9.6 of 10 is a service without any of it; this one has 2.1.
        security = ["systemd-analyze", "security", "--offline=true", "--no-pager", unit]
        self.assert_code(execute([*security, "--threshold=25"]), 0)
        self.assert_code(execute([*security, "--threshold=10"]), 1)

    def test_its_filter_lets_pass_what_serve_calls(self):
        if shutil.which("systemd-analyze") is None or shutil.which("strace") is None:
            self.skipTest("systemd or strace is not installed")
        lines = read(UNIT).split("SystemCallFilter=")[1:]
        words = [word for line in lines for word in line.split("\n")[0].split()]
        self.assertEqual(words, ["@system-service", "~process_vm_writev", "ptrace", "@privileged", "@resources"])

        def calls(group):
            found = set()
            for line in execute(["systemd-analyze", "syscall-filter", group]).out.splitlines()[1:]:
                word = line.strip()
                if word.startswith("@"):
                    found |= calls(word)
                elif word and not word.startswith("#"):
                    found.add(word)
            return found

        allowed = calls("@system-service") - {"process_vm_writev", "ptrace"} - calls("@privileged") - calls("@resources")
        token, trace = self.write("token", TOKEN, 0o600), self.path("trace")
        held = subprocess.Popen([HELD, "threads"], env=environment(LD_PRELOAD=LIBRARY), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        held.stdout.readline()
        server = subprocess.Popen(["strace", "-f", "-q", "-o", trace, TOOL, "serve", "--all", "--port=0", "--token-file", token],
                                  env=environment(), stdout=subprocess.PIPE, text=True)  # fmt: skip
        try:
            address = server.stdout.readline().split()[-1]
            header = f"Authorization: Bearer {TOKEN}"
            for path in ("/metrics", f"/debug/pprof/heap?pid={held.pid}"):
                execute(["python3", "-c", "import sys, urllib.request; a, h = sys.argv[1:]; n, v = h.split(': ', 1); "
                         "urllib.request.urlopen(urllib.request.Request(a, headers={n: v})).read()", address.replace("/metrics", path), header])  # fmt: skip
        finally:
            [child] = execute(["ps", "-o", "pid=", "--ppid", str(server.pid)]).out.split() or [None]
            if child is not None:
                os.kill(int(child), signal.SIGTERM)
            server.wait(timeout=60)
            server.stdout.close()
            held.stdin.close()
            held.wait(timeout=60)
            held.stdout.close()
        made = set(re.findall(r"^\d+ +(\w+)\(", read(trace), re.MULTILINE))
        self.assertIn("process_vm_readv", made)
        self.assertIn("memfd_create", made)
        self.assertEqual(made - allowed - {"execve", "exit_group"}, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
