"""Writes the input files of the matrix: python3 make_data.py KIND COUNT > file. Same bytes each time.

Kinds: text, json, xml, ppm, ps, c, cxx, dot, sql, troff, asm.
"""

import json
import sys


def numbers(seed):
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 33


draw = numbers(20)


def upto(n):
    return next(draw) % n


def text(count):
    for _ in range(count):
        words = ["%s%d" % ("abcdefghij"[upto(10)] * (1 + upto(8)), upto(1000)) for _ in range(3 + upto(6))]
        yield "%08d %s\n" % (upto(10**8), " ".join(words))


def json_rows(count):
    rows = [
        {"id": i, "name": "user%d" % upto(5000), "tags": ["t%d" % upto(40)] * upto(4), "v": upto(10**6) / 64}
        for i in range(count)
    ]
    yield json.dumps({"rows": rows})


def xml(count):
    yield '<?xml version="1.0"?>\n<rows xmlns:m="urn:m">\n'
    for i in range(count):
        yield '<row id="%d" m:kind="k%d"><name>user%d</name><v>%d</v></row>\n' % (i, upto(9), upto(5000), upto(10**6))
    yield "</rows>\n"


def ppm(size):
    """A colour gradient with a pattern; binary, so written at once."""
    pixels = bytearray()
    for y in range(size):
        for x in range(size):
            pixels += bytes(((x * 255) // size, (y * 255) // size, (x * y + (x ^ y)) & 255))
    sys.stdout.buffer.write(b"P6\n%d %d\n255\n" % (size, size) + bytes(pixels))
    return ()


def ps(pages):
    yield "%!PS-Adobe-3.0\n"
    for page in range(pages):
        yield "/Helvetica findfont 11 scalefont setfont\n"
        for line in range(50):
            yield "%d %d moveto (page %d line %d value %d) show\n" % (30 + upto(40), 780 - line * 15, page, line, upto(10**9))
        for _ in range(60):
            yield "%d %d %d 0 360 arc %.2f setgray stroke\n" % (upto(600), upto(800), 1 + upto(60), upto(100) / 100)
        yield "showpage\n"


def c(functions):
    yield "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    for f in range(functions):
        yield "struct s%d { int a[%d]; double d; struct s%d *next; };\n" % (f, 1 + upto(30), f)
        yield "static unsigned f%d(unsigned x, struct s%d *s) {\n" % (f, f)
        for _ in range(12):
            a, b = upto(1 << 30), 1 + upto(31)
            yield "  x = (x ^ %du) * %du + (x >> %d); if (x & %du) s->a[0] += (int)x; s->d *= %d.5;\n" % (a, b | 1, b, a, b)
        yield "  switch (x %% 7) { case 0: return x + %d; case 3: return x * 3; default: break; }\n" % upto(99)
        yield "  for (unsigned i = 0; i < x %% %d; i++) x += i * i;\n  return x;\n}\n" % (5 + upto(50))
    yield "unsigned all(unsigned x);\nunsigned all(unsigned x) {\n"
    for f in range(functions):
        yield "  { struct s%d s; memset(&s, 0, sizeof s); x += f%d(x, &s) + (unsigned)s.a[0]; }\n" % (f, f)
    yield "  return x;\n}\n"


def cxx(classes):
    for header in "algorithm functional iostream map memory regex string unordered_map variant vector".split():
        yield "#include <%s>\n" % header
    yield "template <int N, class T> struct node { T value; node<N - 1, T> next; T sum() const { return value + next.sum(); } };\n"
    yield "template <class T> struct node<0, T> { T sum() const { return T(); } };\n"
    for i in range(classes):
        depth = 5 + upto(20)
        yield "struct key%d { int a; std::string b; bool operator<(const key%d &o) const { return a != o.a ? a < o.a : b < o.b; } };\n" % (i, i)
        yield "long use%d(const std::vector<int> &in) {\n" % i
        yield "  std::map<key%d, std::vector<std::string>> m; node<%d, long> chain{};\n" % (i, depth)
        yield '  for (int v : in) m[key%d{v %% %d, std::to_string(v)}].push_back("v%d");\n' % (i, 3 + upto(90), i)
        yield "  std::vector<std::pair<int, std::string>> out; std::function<long(int)> f = [&](int n) { return n + (long)m.size() + chain.sum(); };\n"
        yield "  for (auto &[k, v] : m) out.emplace_back(k.a, v.front());\n"
        yield "  std::sort(out.begin(), out.end(), [](auto &x, auto &y) { return x.second < y.second; });\n"
        yield "  std::variant<int, std::string, std::unique_ptr<key%d>> w = std::make_unique<key%d>();\n" % (i, i)
        yield "  return f((int)out.size()) + (long)w.index();\n}\n"


def dot(nodes):
    yield "digraph g {\n"
    for n in range(nodes):
        yield 'n%d [label="node %d\\n%d"];\n' % (n, n, upto(1000))
        if n:
            yield "n%d -> n%d;\n" % (upto(n), n)
    yield "}\n"


def sql(rows):
    yield "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, grp INT, v REAL, data BLOB);\nBEGIN;\n"
    for i in range(rows):
        yield "INSERT INTO t VALUES(%d,'user%d',%d,%d.25,zeroblob(%d));\n" % (i, upto(9999), upto(50), upto(10**6), upto(200))
    yield "COMMIT;\n"


def troff(sections):
    yield '.TH DEMO 1 "1 January 2000" "demo" "Demo"\n'
    for s in range(sections):
        yield ".SH SECTION %d\n" % s
        for line in text(25):
            yield line.strip() + ".\n"
        yield ".TS\nbox;\nl n.\n" + "".join("row%d\t%d.%d\n" % (r, upto(999), upto(99)) for r in range(8)) + ".TE\n"


def asm(functions):
    yield "default rel\nsection .text\n"
    for f in range(functions):
        yield "global f%d\nf%d:\n" % (f, f)
        for _ in range(20):
            yield "  mov eax, %d\n  add rax, [table + %d]\n  jz .l%d\n.l%d:\n" % (upto(1 << 30), 8 * upto(64), _, _)
        yield "  ret\n"
    yield "section .data\ntable: times 64 dq 1\n"


KINDS = {f.__name__: f for f in (text, xml, ppm, ps, c, cxx, dot, sql, troff, asm)}
KINDS["json"] = json_rows

if __name__ == "__main__":
    for part in KINDS[sys.argv[1]](int(sys.argv[2])):
        sys.stdout.write(part)
