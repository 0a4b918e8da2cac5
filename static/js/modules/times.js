// Ticking times. The server wrote each of them by the database's clock; the difference between that clock and this
// browser's is taken once, so a wrong clock here shows no wrong countdown.

let offset = 0;

export const now = () => new Date(Date.now() + offset);

const two = (n) => String(Math.floor(n)).padStart(2, "0");

/** The same words for a length of time as the server's `times.duration`; units come from the page's language. */
export function duration(seconds, whole = true) {
  const zh = document.documentElement.lang.startsWith("zh");
  if (seconds < 0.095 && !whole) return Math.round(Math.max(0, seconds) * 1000) + (zh ? " 毫秒" : " ms");
  if (seconds < 10 && !whole) return seconds.toFixed(1) + (zh ? " 秒" : " s");
  if (seconds < 60) return Math.floor(seconds) + (zh ? " 秒" : " s");
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
  const hours = Math.floor(seconds / 3600);
  if (seconds < 86400) return zh ? `${hours} 小时 ${two((seconds % 3600) / 60)}` : `${hours} h ${two((seconds % 3600) / 60)}`;
  const days = Math.floor(seconds / 86400);
  return zh ? `${days} 天 ${hours % 24} 小时` : `${days} d ${hours % 24} h`;
}

function left(seconds) {
  const zh = document.documentElement.lang.startsWith("zh");
  if (seconds <= 0) return zh ? "已过" : "over";
  if (seconds < 900) return `${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
  if (seconds < 3600) return Math.floor(seconds / 60) + (zh ? " 分钟" : " min");
  return duration(seconds);
}

function ago(seconds) {
  const zh = document.documentElement.lang.startsWith("zh");
  if (seconds < 1) return null;
  const [n, unit] = seconds < 60 ? [seconds, ["s", "秒"]] : seconds < 3600 ? [seconds / 60, ["min", "分钟"]]
    : seconds < 86400 ? [seconds / 3600, ["h", "小时"]] : [seconds / 86400, ["d", "天"]];
  return zh ? `${Math.floor(n)} ${unit[1]}前` : `${Math.floor(n)} ${unit[0]} ago`;
}

const put = (node, text) => { if (text !== null && node.textContent !== text) node.textContent = text; };

let clock;

// The clock of the page's zone, which need not be this browser's. A zone that the browser does not know is shown as UTC.
function clockOf(zone) {
  const form = (timeZone) => new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone });
  try {
    clock ??= form(zone || "UTC");
  } catch {
    clock = form("UTC");
  }
  return clock;
}

function tick() {
  const at = now();
  for (const node of document.querySelectorAll("[data-since]")) put(node, duration((at - new Date(node.dataset.since)) / 1000, false));
  for (const node of document.querySelectorAll("time[data-ago]")) put(node, ago((at - new Date(node.dateTime)) / 1000));
  for (const node of document.querySelectorAll("[data-due]")) {
    const seconds = (new Date(node.dataset.due) - at) / 1000;
    const word = node.querySelector("span") || node;
    put(word, left(seconds));
    if (node.dataset.tone === undefined && node.classList.contains("due")) {
      node.classList.toggle("st-failed", seconds < 300);
      node.classList.toggle("st-hold", seconds >= 300 && seconds < 900);
      node.classList.toggle("tone", seconds < 900);
    }
    announce(node, seconds);
  }
  for (const node of document.querySelectorAll("[data-clock]")) {
    put(node, clockOf(node.dataset.zone).format(at));
  }
}

// A countdown is told at 15, 5 and 1 minute, not each second.
function announce(node, seconds) {
  if (!node.dataset.announce) return;
  const step = [900, 300, 60].find((mark) => seconds <= mark && seconds > mark - 2);
  if (!step || node.dataset.told === String(step)) return;
  node.dataset.told = String(step);
  const region = document.getElementById("toasts");
  if (region) region.append(Object.assign(document.createElement("p"), { className: "vh", textContent: `${node.dataset.announce} ${left(seconds)}` }));
}

export function startTimes() {
  const clock = document.querySelector("[data-clock]");
  if (clock) {
    offset = new Date(clock.dataset.clock) - Date.now();
    const form = document.querySelector("[data-zones]");
    const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const local = form && form.querySelector("[data-local]");
    if (local && here) {
      local.value = here;
      local.hidden = false;
      local.querySelector("small").textContent = here;
    }
  }
  tick();
  setInterval(tick, 1000);
}
