"""A client that loads memcached from four threads and reads everything back."""

import hashlib
import socket
import sys
import threading
import time


def connect():
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        except ConnectionRefusedError:
            time.sleep(0.05)
    sys.exit("memcached does not answer")


def value(n, i):
    return (b"%d-%d " % (n, i)) * (1 + (n * 131 + i * 37) % 150)


def client(n, results):
    with connect() as connection, connection.makefile("rb") as answers:
        for start in range(0, 3000, 100):
            batch = range(start, start + 100)
            connection.sendall(
                b"".join(b"set k%d-%d 0 0 %d\r\n%s\r\n" % (n, i, len(value(n, i)), value(n, i)) for i in batch)
            )
            for _ in batch:
                assert answers.readline() == b"STORED\r\n"
        digest = hashlib.sha256()
        for i in range(3000):
            connection.sendall(b"get k%d-%d\r\n" % (n, i))
            header = answers.readline().split()
            body = answers.read(int(header[3]) + 2)
            assert body[:-2] == value(n, i) and answers.readline() == b"END\r\n"
            digest.update(body)
        results[n] = digest.hexdigest()


results = [None] * 4
threads = [threading.Thread(target=client, args=(n, results)) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*results, sep="\n")
