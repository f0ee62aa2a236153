"""Parses a JSON document, changes every record of it, and writes it again: documents.py FILE."""

import hashlib
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file)
for person in document["people"]:
    person["tags"].sort()
    person["label"] = f"{person['id']} {person['name']}"
document["people"].sort(key=lambda person: (person["age"], person["name"], person["id"]))
text = json.dumps(document, sort_keys=True)
print(len(document["people"]), len(text), hashlib.sha256(text.encode()).hexdigest())
