// Serves the page with made-up data, by the contract of the inspector API: `npm run serve`, then open what it prints.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";
import { CONFIG, detailOf, metricsAt, readingOf, rowsOf, RUNS, summaryOf } from "./fixtures.mjs";

const PAGE = new URL("../../src/admin/page/", import.meta.url);
const TYPES = { html: "text/html", mjs: "text/javascript", css: "text/css", svg: "image/svg+xml" };
export const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const LIVE_RUN = RUNS + 1;

/** Starts the server; `empty` has no runs. */
export async function startServer({ port = 0, token = "page-test", empty = false } = {}) {
  const began = Date.now();
  const modes = ["chat", "research", "support-desk"].map((route) => ({ route, configured: "off", mode: "off", until_ms: null }));

  /** A run that is never over. */
  const liveRun = () => {
    const events = Math.floor((Date.now() - began) / 100);
    return { ...summaryOf(LIVE_RUN, began), started_ms: began, state: "running", outcome: null, code: null, repairs: 0, losses: 0, events_in: events, events_out: events, bytes_in: events * 100, duration_ms: Date.now() - began };
  };

  async function* runLines(response, follow) {
    if (!empty) for (let id = 1; id <= RUNS; id += 1) yield summaryOf(id, began);
    while (follow && !response.destroyed) {
      if (!empty) yield liveRun();
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  }

  async function* rowLines(response, id, follow) {
    if (id !== LIVE_RUN) return yield* rowsOf(id);
    for (let n = 1; follow && !response.destroyed; n += 1) {
      const [, , , , one] = rowsOf(1);
      yield { ...one, n, at_ms: Date.now() - began };
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async function stream(response, lines, live = false) {
    response.writeHead(200, { "content-type": "application/x-ndjson" });
    response.flushHeaders();
    const closed = once(response, "close");
    let block = "";
    const flush = async () => {
      if (!response.write(block)) await Promise.race([once(response, "drain"), closed]);
      block = "";
    };
    for await (const line of lines) {
      block += `${JSON.stringify(line)}\n`;
      if (response.destroyed) return;
      // Lines that come over time are sent at once.
      if (block.length > 60_000 || line.id >= RUNS || live) await flush();
    }
    response.end(block);
  }

  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://page");
    const json = (status, value) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    const file = pathname === "/" ? "index.html" : /^\/page\/([\w.]+\.(?:mjs|css|svg))$/.exec(pathname)?.[1];
    if (file !== undefined) {
      const content = await readFile(new URL(file, PAGE)).catch(() => null);
      if (content === null) return json(404, { title: "no such file" });
      return response.writeHead(200, { "content-type": TYPES[file.split(".").pop()], "content-security-policy": CSP, "x-content-type-options": "nosniff" }).end(content);
    }
    if (request.headers.authorization !== `Bearer ${token}`) return json(401, { title: "no token" });
    const follow = searchParams.has("follow");
    const [, id, part] = /^\/inspect\/v1\/runs\/(\d+)(?:\/(\w+))?$/.exec(pathname) ?? [];
    if (id !== undefined && (Number(id) > LIVE_RUN || empty)) return json(404, { title: "Unknown run", detail: "no such run" });
    if (pathname === "/inspect/v1/runs") return stream(response, runLines(response, follow));
    if (id !== undefined && part === undefined) return json(200, Number(id) === LIVE_RUN ? { ...detailOf(LIVE_RUN, began), ...liveRun() } : detailOf(Number(id), began));
    if (part === "rows") return stream(response, rowLines(response, Number(id), follow), Number(id) === LIVE_RUN);
    if (part === "reading") return stream(response, readingOf(Number(id), began));
    if (part === "recording") return stream(response, rowLines(response, Number(id), false));
    if (pathname === "/metrics") return response.writeHead(200, { "content-type": "text/plain" }).end(metricsAt((Date.now() - began) / 1000 + 60));
    if (pathname === "/inspect/v1/check") return json(200, { file: "/etc/diglot/diglot.yaml", problems: [] });
    if (pathname === "/config") return response.writeHead(200, { "content-type": "application/yaml" }).end(CONFIG);
    if (pathname === "/inspect/v1/mode") {
      if (request.method === "PUT") {
        const { route, mode, seconds } = JSON.parse(Buffer.concat(await request.toArray()).toString());
        for (const one of modes) if (one.route === route) Object.assign(one, { mode: mode ?? one.configured, until_ms: mode && Date.now() + seconds * 1000 });
      }
      return json(200, { routes: modes });
    }
    return json(404, { title: "no such path" });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, token, stop };
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { url, token } = await startServer({ port: 8789 });
  console.log(`${url}/#token=${token}`);
}
