#!/usr/bin/env python3
"""A job as data people run them: reads a table, joins, groups, pivots, sorts, and works on text.

Usage: pandas_job.py [--rows N] [--rounds N]      needs pandas

Of the same arguments it prints the same, so that a comparison can tell that it did the same work.
"""

import argparse
import io
import random

import numpy as np
import pandas as pd

CITIES = ["Oslo", "Lima", "Accra", "Osaka", "Quito", "Perth", "Turin", "Delhi"]


def table_as_csv(rows: int, seed: int) -> str:
    """Orders, as a shop would export them."""
    draw = random.Random(seed)
    lines = ["order,customer,city,item,count,price,note"]
    for order in range(rows):
        customer, item = draw.randrange(rows // 10), draw.randrange(500)
        count, city = draw.randrange(1, 9), draw.choice(CITIES)
        price, note = draw.random() * 100, f"{'x' * draw.randrange(40)} {order % 97}"
        lines.append(f"{order},{customer},{city},item-{item},{count},{price:.2f},{note}")
    return "\n".join(lines)


def work(text: str, rows: int) -> str:
    orders = pd.read_csv(io.StringIO(text))
    customers = pd.DataFrame(
        {
            "customer": np.arange(rows // 10),
            "since": 2000 + np.arange(rows // 10) % 25,
        }
    )
    orders["total"] = orders["count"] * orders["price"]
    joined = orders.merge(customers, on="customer")
    by_city = joined.groupby(["city", "since"])["total"].agg(["sum", "mean", "count"])
    pivot = joined.pivot_table(index="item", columns="city", values="total", aggfunc="sum")
    best = joined.sort_values(["total", "order"], ascending=[False, True]).head(1000)
    words = joined["note"].str.strip().str.upper().str.split(" ").str[-1].value_counts()
    rolling = joined.sort_values("order")["total"].rolling(50).mean().fillna(0)
    return (
        f"{by_city['sum'].sum():.2f} {pivot.shape} {best['order'].sum()} {words.iloc[0]} "
        f"{rolling.sum():.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    text = table_as_csv(arguments.rows, seed=1)
    for number in range(arguments.rounds):
        print(number, work(text, arguments.rows))


if __name__ == "__main__":
    main()
