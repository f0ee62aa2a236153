// Reads JSON objects of the Prometheus Operator, one a line, and prints for each "ok" or what is wrong with it.
// Usage: node operator.mjs FOLDER     FOLDER has node_modules
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const index = createRequire(`${folder}/x.js`).resolve.paths("x")[0];
const models = await import(pathToFileURL(`${index}/@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/index.js`));
for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const object = JSON.parse(line);
  try {
    new models[object.kind](object).validate();
    console.log("ok");
  } catch (error) {
    console.log(error.message);
  }
}
