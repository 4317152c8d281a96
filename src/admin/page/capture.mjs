// Shows how each route is recorded, and records it for some minutes.
import { captureModes } from "./api.mjs";
import { button, element, put, table } from "./dom.mjs";
import { failureOf } from "./gateway_words.mjs";
import { say, sayName } from "./messages.mjs";
import { clock } from "./numbers.mjs";

const SECONDS = 600;

/** @param {AbortSignal} signal */
export function captureControls(signal) {
  const root = element("div", { class: "capture", role: "group", "aria-label": say("capture.title") });

  /** @param {{ route: string, mode: string | null, seconds?: number }} [change] */
  async function update(change) {
    try {
      const routes = await captureModes(change);
      if (!signal.aborted) put(root, modesTable(routes));
    } catch (error) {
      put(root, element("p", { role: "alert" }, failureOf(error)));
    }
  }

  /** @param {import("./api.mjs").RouteMode[]} routes */
  function modesTable(routes) {
    const head = ["route", "configured", "now", "change"].map((name) => sayName("capture", name));
    return table(
      say("capture.title"),
      head,
      routes.map(({ route, configured, mode, until_ms: until }) => [
        route,
        sayName("mode", configured),
        until === null
          ? sayName("mode", mode)
          : say("capture.until", { mode: sayName("mode", mode), time: clock(until) }),
        element(
          "span",
          { class: "buttons" },
          ...["events", "full"].map((wanted) =>
            button(say("capture.for", { mode: sayName("mode", wanted) }), () =>
              update({ route, mode: wanted, seconds: SECONDS }),
            ),
          ),
          button(say("capture.reset"), () => update({ route, mode: null })),
        ),
      ]),
    );
  }

  update();
  return root;
}
