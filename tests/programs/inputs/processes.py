"""A fork pool, a thread pool, and forks while other threads allocate."""

import concurrent.futures
import hashlib
import multiprocessing
import os
import threading


def work(seed):
    """Allocates a few MB of mixed sizes and returns what it computed from them."""
    blocks = [bytes([(seed + i) % 256]) * ((seed * 131 + i * 17) % 5000) for i in range(1500)]
    table = {i: blocks[i][:16] for i in range(0, 1500, 3)}
    checksum = hashlib.sha256(b"".join(blocks) + b"".join(table.values()))
    return checksum.hexdigest()[:12]


def fork_under_load():
    """Forks while three threads allocate with the interpreter lock released in between; every child
    has to be able to allocate at once and leave normally."""
    stop = threading.Event()

    def churn(seed):
        i = 0
        while not stop.is_set():
            hashlib.sha256(bytes([seed + i % 7]) * (100_000 + i % 50_000)).digest()
            i += 1

    threads = [threading.Thread(target=churn, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    failed = 0
    for n in range(20):
        child = os.fork()
        if child == 0:
            ok = work(n % 5) == expected[n % 5]
            os._exit(0 if ok else 1)
        failed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    stop.set()
    for thread in threads:
        thread.join()
    return failed


if __name__ == "__main__":
    expected = [work(n) for n in range(5)]
    context = multiprocessing.get_context("fork")
    with context.Pool(4) as pool:
        print("fork pool", pool.map(work, range(16), chunksize=2))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        print("threads", list(pool.map(work, range(16))))
    print("forks under load, failed:", fork_under_load())
