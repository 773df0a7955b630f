// Turns releases of a package into a history of records; records.sh says what for.
// usage: node records.mjs json|text    reads names of folders, one a line, oldest release first, and prints JSON lines
import { createInterface } from "node:readline";
import { readFileSync, readdirSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

// Every interface, element, property…, as the sources of the package are laid out in files.
function* features(folder) {
  const data = JSON.parse(readFileSync(join(folder, "data.json"), "utf8"));
  for (const area of Object.keys(data).filter((name) => name !== "__meta").sort())
    for (const name of Object.keys(data[area]).sort())
      if (area === "api") yield [`${area}/${name}`, JSON.stringify(data[area][name], null, 2)];
      else
        for (const part of Object.keys(data[area][name]).sort())
          yield [`${area}/${name}/${part}`, JSON.stringify(data[area][name][part], null, 2)];
}

function* declarations(folder) {
  for (const path of readdirSync(folder, { recursive: true }).sort())
    if (path.endsWith(".d.ts")) yield [path, readFileSync(join(folder, path), "utf8")];
}

const read = { json: features, text: declarations }[process.argv[2]];
const latest = new Map();
for await (const release of createInterface({ input: process.stdin })) {
  for (const [key, body] of read(release)) {
    const known = latest.get(key) ?? { rev: 0 };
    if (body === known.body) continue;
    latest.set(key, { rev: known.rev + 1, body });
    let line = Buffer.from(JSON.stringify({ key, rev: known.rev + 1, release, body }) + "\n");
    while (line.length > 0) line = line.subarray(writeSync(1, line));
  }
  rmSync(release, { recursive: true });
}
