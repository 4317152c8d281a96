// Says in one sentence why a run in the list is not what it seems, as far as its summary has the reason.
import { say } from "./messages.mjs";
import { bytes } from "./numbers.mjs";
import { LATE, MARKED, TRUNCATED, cutText, isEmpty, leftOpenText, levelOf, noteOf, refusalText } from "./verdict.mjs";

/** @typedef {import("./api.mjs").RunSummary} RunSummary */

/**
 * @param {RunSummary} run
 * @returns {{ text: string, own: string }}  `own`: what the gateway has in English alone
 */
export function listCause(run) {
  const text = shortCause(run);
  return typeof text === "string" ? { text, own: "" } : { text: text.own === undefined ? text.text : "", own: text.own ?? "" };
}

/** @param {RunSummary} run */
function shortCause(run) {
  const { code, cause, loss_names: losses = [], looks_like: name } = run;
  const isGood = levelOf(run) === "good";
  const isCut = code === TRUNCATED;
  if (losses.includes(MARKED) && (isGood || isCut)) return say("runs.marked_lines");
  if (isEmpty(run)) return say("verdict.empty");
  if (isGood && losses.includes(LATE)) return say("runs.late_events");
  if (isGood && name) return say("runs.looks_like", { name });
  if (cause?.cut_within === "event" || cause?.cut_within === "character") return cutText(cause.cut_within, cause.type, cause.n);
  if (cause && (isGood || isCut || code === null)) {
    if (cause.id_change !== undefined) return say("detail.id_change", cause.id_change);
    return leftOpenText(cause) || noteOf(cause.n, cause.note, cause.type ?? "");
  }
  return refusalText(run) || (isGood ? namesOf(run) : "");
}

/** @param {RunSummary} run */
function namesOf(run) {
  const { repair_names: repairs = [], loss_names: losses = [], missed_bytes: missed } = run;
  const texts = [
    losses.length > 0 && say("runs.lost", { names: losses.join(", ") }),
    repairs.length > 0 && say("runs.repaired", { names: repairs.join(", ") }),
    missed > 0 && say("runs.missed", { size: bytes(missed) }),
  ];
  return texts.filter(Boolean).join(say("list.between"));
}
