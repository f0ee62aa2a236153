"""Parses a JSON document, changes it a little, and writes it again."""

import json
import sys

with open(sys.argv[1]) as file:
    document = json.load(file)
for person in document["people"]:
    person["tags"].sort()
    person["label"] = f"{person['id']} {person['name']}"
document["people"].sort(key=lambda person: (person["age"], person["name"], person["id"]))
with open("out.json", "w") as file:
    json.dump(document, file, sort_keys=True)
print(len(document["people"]))
