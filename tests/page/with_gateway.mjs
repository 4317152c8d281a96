// Runs the browser tests against `diglot demo` ($DIGLOT_BIN), after some runs of its routes.
import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { createInterface } from "node:readline";

const RUNS = ["hai-agent", "hai-agent-blocks", "ag-ui-agent", "cloudbase-agent"];
const BODY = {
  threadId: "t1",
  runId: "r1",
  protocolVersion: "1.0",
  state: {},
  messages: [{ id: "u1", role: "user", content: "帮我部署" }],
  tools: [],
  context: [],
  forwardedProps: {},
};

const options = ["--listen", "--status", "--inspector"].flatMap((option) => [option, "127.0.0.1:0"]);
const demo = spawn(process.env.DIGLOT_BIN ?? "diglot", ["demo", "--pace", "1", ...options], {
  stdio: ["ignore", "pipe", "ignore"],
});
const routes = new Map();
let inspector;
for await (const line of createInterface({ input: demo.stdout })) {
  const [, name, url] = /^route (\S+) (http:\S+)$/.exec(line) ?? [];
  if (name) routes.set(name, url);
  inspector ??= /^inspector (http:\S+)#token=(\S+)$/.exec(line);
  if (inspector) break;
}
try {
  for (const name of RUNS) {
    const headers = { "Content-Type": "application/json", Accept: "text/event-stream" };
    const answer = await fetch(routes.get(name), { method: "POST", headers, body: JSON.stringify(BODY) });
    await answer.text();
  }
  const [, url, token] = inspector;
  const env = { ...process.env, BASE_URL: url.replace(/\/$/, ""), TOKEN: token };
  const tests = spawn(process.execPath, ["--test", path.join(import.meta.dirname, "page.test.mjs")], { env, stdio: "inherit" });
  [process.exitCode] = await once(tests, "exit");
} finally {
  demo.kill("SIGKILL");
}
