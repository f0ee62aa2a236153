"""The texts that make_bench_inputs.py makes inputs of. The same each time, on every machine."""

import itertools
from collections.abc import Iterator

FUNCTIONS = 16_000  # in one assembler file
PARTS = 12  # such files, which call into each other


def draws(seed: int) -> Iterator[int]:
    """The same pseudo-random numbers, 0 to 2^31 - 1, on every machine and every Python."""
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 33


def assembler(part: int) -> str:
    """Functions, each in a section of its own, with calls, shared data and strings to be merged."""
    draw = draws(part)
    parts = []
    for n in range(FUNCTIONS):
        name = f"f{part}_{n}"
        called = f"f{next(draw) % PARTS}_{next(draw) % FUNCTIONS}"
        parts.append(f"""
.section .text.{name},"ax"
.globl {name}
.type {name},@function
{name}:
 lea .L{n}(%rip),%rdi
 call {called}@PLT
 mov shared{next(draw) % 500}@GOTPCREL(%rip),%rax
 ret
.size {name},.-{name}
.section .rodata.str1.1,"aMS",@progbits,1
.L{n}: .asciz "message {next(draw) % 9000} of {next(draw) % 9}"
""")
    parts += [f".comm shared{n},8,8\n" for n in range(500)]
    return "".join(parts)


def git_history() -> str:
    """2000 commits on two branches over 300 files, for git fast-import."""
    draw = draws(3)
    files = {
        f"folder{n % 12}/file{n}.txt": [f"line {k} of {n}" for k in range(200)] for n in range(300)
    }
    stream = []
    for commit in range(2000):
        changed = sorted(files)
        if commit:
            picked = {next(draw) % 300 for _ in range(9)}
            changed = [f"folder{n % 12}/file{n}.txt" for n in picked]
        branch = "main" if commit < 400 or commit % 3 else "side"
        words = " ".join(f"word{next(draw) % 500}" for _ in range(8))
        message = f"change {commit}: {words}\n"
        stream.append(f"commit refs/heads/{branch}\nmark :{commit + 1}\n")
        stream.append(f"committer A <a@example.org> {10**9 + commit * 1000} +0000\n")
        stream.append(f"data {len(message)}\n{message}")
        if commit == 402:  # the first one of the side
            stream.append("from :400\n")
        for name in changed:
            lines = files[name]
            for _ in range(1 + next(draw) % 6):
                lines[next(draw) % len(lines)] = f"changed by {commit}: {next(draw) % 10**6}"
            lines.insert(next(draw) % len(lines), f"new in {commit}")
            content = "\n".join(lines) + "\n"
            stream.append(f"M 100644 inline {name}\ndata {len(content)}\n{content}")
    return "".join(stream) + "done\n"


def statements() -> str:
    """What a service says to a database: many small statements, no two alike, in one transaction."""
    draw = draws(5)
    lines = [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, v REAL, tag TEXT, doc TEXT);",
        "CREATE INDEX i ON t(name);",
        "BEGIN;",
    ]
    for n in range(60_000):
        name, tag, value = f"n{next(draw) % 20_000}", "abcdefgh"[next(draw) % 8], next(draw)
        document = f"json_object('id',{n},'name','{name}','list',json_array(1,2,{n},'x{n}'))"
        lines.append(f"INSERT INTO t VALUES({n},'{name}',{value}e-9,'{tag}',{document});")
        one = next(draw) % (n + 1)
        if n % 3 == 0:
            lines.append(f"UPDATE t SET v=v+1, name=name||'x' WHERE id={one};")
        if n % 5 == 0:
            lines.append(
                "SELECT a.name, b.tag, json_extract(a.doc,'$.list[2]') FROM t a LEFT JOIN t b"
                f" ON a.name=b.name AND b.id<{n} WHERE a.id={one} ORDER BY 1 LIMIT 1;"
            )
        if n % 7 == 0:
            lines.append(f"DELETE FROM t WHERE id={one};")
    return "\n".join([*lines, "COMMIT;", ""])


def java() -> str:
    """Many classes with generic types and lambdas."""
    parts = ["import java.util.*;\nimport java.util.function.*;\nimport java.util.stream.*;\n"]
    for n in range(45):
        parts.append(f"""
class Key{n}<T extends Comparable<T>> implements Comparable<Key{n}<T>> {{
  final T value;
  final int rank;
  Key{n}(T value, int rank) {{ this.value = value; this.rank = rank; }}
  int rank() {{ return rank; }}
  public int compareTo(Key{n}<T> other) {{ return value.compareTo(other.value) * {n + 1}; }}
  static Map<String, List<Integer>> group(List<Integer> in) {{
    return in.stream().filter(i -> i % {n + 2} != 0).map(i -> new Key{n}<>("k" + i, i))
      .sorted().collect(Collectors.groupingBy(k -> k.value, TreeMap::new,
        Collectors.mapping(k -> k.rank, Collectors.toList())));
  }}
  Function<Integer, Supplier<String>> name = i -> () -> switch (i % 4) {{
    case 0 -> "a{n}"; case 1 -> "b" + i; default -> "" + rank(); }};
}}
""")
    return "".join(parts)


def queens() -> str:
    """18 queens, as integers with constraints: where can the third stand, given the first two?"""
    size = 18
    parts = ["(set-option :smt.random_seed 7)\n"]
    for n in range(size):
        parts.append(f"(declare-const q{n} Int)\n(assert (and (<= 0 q{n}) (< q{n} {size})))\n")
    for a, b in itertools.combinations(range(size), 2):
        for difference in (f"(- q{a} q{b})", f"(- q{b} q{a})"):
            parts.append(f"(assert (not (= {difference} {b - a})))\n")
        parts.append(f"(assert (not (= q{a} q{b})))\n")
    for column in range(size):
        second = (column * 3 + 2) % size
        parts.append(
            f"(push)\n(assert (and (= q0 {column}) (= q1 {second})))\n(check-sat)\n(pop)\n"
        )
    return "".join(parts)


def checked(part: int) -> str:
    """C++ with lists, containers and memory of its own, for a checker to follow."""
    draw = draws(part)
    parts = ["#include <map>\n#include <string>\n#include <vector>\n"]
    for f in range(40):
        node = f"node{part}_{f}"
        parts.append(f"""
struct {node} {{
  {node} *next = nullptr;
  int value = {next(draw) % 99};
  std::string name;
}};
int walk{part}_{f}(const {node} *head, std::map<std::string, std::vector<int>> &seen) {{
  int sum = 0;
""")
        for _ in range(8):
            a, b = next(draw) % 1000, 1 + next(draw) % 30
            parts.append(f"""
  for (const {node} *at = head; at; at = at->next) {{
    if (at->value > {a}) seen[at->name].push_back(sum);
    else sum += at->value * {b};
  }}
  if (sum % {b + 1} == {b // 2}) {{
    int *p = new int[{b}];
    p[{b - 1}] = sum;
    sum -= p[0];
    delete[] p;
  }}
""")
        parts.append("  return sum;\n}\n")
    return "".join(parts)
