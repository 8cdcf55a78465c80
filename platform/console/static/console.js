"use strict";
/* Keys, local times, the refresh of a page, live messages, and the order that moves a group. Pages are whole without it. */
const $ = (one) => document.querySelector(one);

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select")) {
    if (event.key === "Escape" && (event.target.tagName === "SELECT" || !event.target.value)) event.target.blur();
    return;
  }
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "/") { const box = $("input[type=search]"); if (box) { box.focus(); event.preventDefault(); } }
  if (event.key === "j" || event.key === "k") {
    const links = [...document.querySelectorAll(".problems a, tbody th a")];
    const at = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    if (links[at]) links[at].focus();
  }
});

function localTimes(inside) {
  for (const one of inside.querySelectorAll("time[datetime]")) {
    const at = new Date(one.dateTime);
    if (isNaN(at) || !at.getTimezoneOffset() || one.nextElementSibling?.className === "local") continue;
    const two = (number) => String(number).padStart(2, "0");
    const words = document.createElement("span");
    words.className = "local";
    const day = at.getDate() === at.getUTCDate() ? "" : `${two(at.getMonth() + 1)}-${two(at.getDate())} `;
    words.textContent = ` (${day}${two(at.getHours())}:${two(at.getMinutes())} here)`;
    one.after(words);
  }
}

/* What stays the same over a refresh: a link by its address, a table's box by its name. */
const nameOf = (one) => one.getAttribute("href") ?? one.ariaLabel;
async function refresh() {
  const answer = await fetch(location.href);
  if (!answer.headers.get("content-type")?.startsWith("text/html")) return;
  const made = new DOMParser().parseFromString(await answer.text(), "text/html");
  const active = document.activeElement;
  const focused = $("main").contains(active) ? nameOf(active) : null;
  const scrolled = new Map([...document.querySelectorAll(".scroll")].map((one) => [one.ariaLabel, one.scrollLeft]));
  localTimes(made);
  $("main").replaceWith(made.querySelector("main"));
  for (const box of document.querySelectorAll(".scroll")) box.scrollLeft = scrolled.get(box.ariaLabel) ?? 0;
  if (focused === null) return;
  const same = [...document.querySelectorAll("main a, main .scroll")].filter((one) => nameOf(one) === focused);
  (same.find((one) => one.closest("table")) ?? same[0])?.focus({ preventScroll: true });
}
let last = Date.now();
setInterval(() => {
  const wait = Number($("main").dataset.refresh ?? 10);
  if (!wait || Date.now() - last < wait * 1000) return;
  if (document.hidden || document.activeElement.matches("input, select, button") || $("[data-live][aria-pressed=true]")) return;
  last = Date.now();
  refresh().catch(() => { /* The next turn asks again. */ });
}, 1000);

const MOST_ROWS = 200;
let source = null;
function cell(kind, text) { const made = document.createElement(kind); made.textContent = text; return made; }
function show(row) {
  const line = document.createElement("tr");
  const head = cell("th", `${row.partition}:${row.offset}`);
  head.scope = "row";
  const time = document.createElement("time");
  const at = new Date(row.timestamp_ms);
  time.textContent = isNaN(at) ? `${row.timestamp_ms} ms` : at.toISOString().slice(0, 19).replace("T", " ");
  if (!isNaN(at)) time.dateTime = at.toISOString();
  const when = document.createElement("td");
  when.append(time);
  const words = cell("td", "");
  words.className = "w";
  words.append(cell("code", row.text));
  if (row.why) words.append(cell("small", row.why));
  line.append(head, when, cell("td", row.key ?? "–"), words);
  localTimes(line);
  const body = $("#messages tbody");
  body.prepend(line);
  while (body.children.length > MOST_ROWS) body.lastChild.remove();
}
function live(button) {
  const state = $("#live-state");
  const stop = (words) => { source?.close(); source = null; button.ariaPressed = "false"; state.textContent = words; };
  if (source) return stop("");
  source = new EventSource(button.dataset.live);
  button.ariaPressed = "true";
  state.textContent = "waiting for messages";
  source.onmessage = (event) => {
    const found = JSON.parse(event.data);
    found.rows.forEach(show);
    state.textContent = found.left_out ? `${found.left_out} more came than are shown` : "live";
  };
  source.addEventListener("ended", (event) => stop(JSON.parse(event.data)));
  source.onerror = () => { if (source) state.textContent = "the connection broke: trying again"; };
}
async function move(button) {
  const state = $("#move-state");
  button.disabled = true;
  state.textContent = "moving";
  try {
    const answer = await fetch("/api/group/move", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: button.dataset.order });
    const found = await answer.json();
    state.textContent = answer.ok ? "The group has moved." : `Nothing has moved: ${found.error}`;
  } catch (error) { state.textContent = `No answer: ${error}. Load the page again: it shows what is committed.`; }
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.live) live(button);
  if (button?.dataset.order) move(button);
});
localTimes(document);
