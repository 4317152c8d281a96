// Events made from the published schema (tests/spec/ag-ui-1.0.event.schema.json): for every type the smallest event, the
// one with every member, and one for each alternative of each member, however deep: every role, part, source, operation,
// outcome. Values that the schema leaves open are nested ones of every JSON type.
import { readFileSync } from "node:fs";

const schema = JSON.parse(readFileSync(new URL("../../spec/ag-ui-1.0.event.schema.json", import.meta.url)));

const OPEN_OBJECT = { b: [1, -2.5, {}, [], "中文 \u{1f600}\n", null, true], a: { deep: { deeper: [0.1, 1e-9, 1e21] } }, "": false };
const OPEN = [OPEN_OBJECT, [1, [2, {}]], "text", "", 0, -1.5, true, false];
const DEPTH = 6;

const resolve = (node) => (node.$ref ? resolve(schema.$defs[node.$ref.split("/").pop()]) : node);

/** Properties and required names of an object schema, those of `allOf` before its own. */
function members(node) {
  const all = { properties: {}, required: new Set() };
  for (const part of [...(node.allOf ?? []).map(resolve).map(members), node]) {
    Object.assign(all.properties, part.properties);
    for (const name of part.required ?? []) all.required.add(name);
  }
  return all;
}

/** Values that differ in what they use of the schema; the first is the smallest, the last uses most. Texts that are called
    `path` or `from` are JSON Pointers. */
function variants(reference, depth = 0, name = undefined) {
  const node = resolve(reference);
  if (node.const !== undefined) return [node.const];
  if (node.enum) return node.enum;
  if (node.oneOf) return node.oneOf.flatMap((one) => variants(one, depth, name));
  if (node.properties || node.allOf) return objects(node, depth);
  switch (node.type) {
    case "string":
      return name === "path" || name === "from" ? ["/s"] : ["s", "Grüße 中文 \u{1f600} \"\\\n\u0000"];
    case "integer":
      return [Math.max(1, node.minimum ?? 1), Number.MAX_SAFE_INTEGER];
    case "number":
      return [1, 1.5];
    case "boolean":
      return [true, false];
    case "array": {
      if (depth > DEPTH) return [[]];
      const items = variants(node.items ?? {}, depth + 1);
      return [[items[0]], ...(node.minItems ? [] : [[]]), items];
    }
    case "object":
      return [{}, OPEN_OBJECT];
    default:
      return OPEN;
  }
}

function objects(node, depth) {
  const { properties, required } = members(node);
  const names = Object.keys(properties);
  const values = Object.fromEntries(names.map((name) => [name, variants(properties[name], depth + 1, name)]));
  const pick = (which, at) => Object.fromEntries(which.map((name) => [name, values[name].at(at)]));
  const smallest = pick(names.filter((name) => required.has(name)), 0);
  const each = names.flatMap((name) => values[name].map((value) => ({ ...smallest, [name]: value })));
  return [smallest, ...each, pick(names, 0), pick(names, -1)];
}

/** Every event, those of one type together. */
export const EVENTS = resolve(schema)
  .oneOf.map(resolve)
  .flatMap((node) => objects(node, 0));
