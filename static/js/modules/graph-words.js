// The words on the drawing. They tick with the picture, so they are made here; the page's language chooses.

import { duration, now } from "./times.js";

const zh = document.documentElement.lang.startsWith("zh");
const pick = (en, cn) => (zh ? cn : en);

export const KIND = {
  tool: pick("tool", "工具"),
  switch: pick("switch", "分支"),
  approval: pick("approval", "审批"),
  wait: pick("timer", "定时"),
  verifier: pick("check", "核验"),
  agent: pick("agent", "智能体"),
  input: pick("question", "提问"),
  notify: pick("notice", "通知"),
  compensation: pick("undoing", "撤销"),
  compensation_check: pick("check of the undoing", "撤销的核验"),
};

export const STATUS = {
  running: pick("running", "运行中"),
  hold: pick("on hold", "挂起"),
  unknown: pick("unknown", "结果未知"),
  failed: pick("failed", "失败"),
  killed: pick("killed", "已终止"),
  succeeded: pick("succeeded", "成功"),
  mark_successed: pick("succeeded by hand", "人工置为成功"),
  skipped: pick("skipped", "已跳过"),
  queued: pick("queued", "排队中"),
  waiting: pick("waiting", "等待中"),
};

const CAUSE = {
  user: pick("skipped by hand", "人工跳过"),
  branch: pick("branch not taken", "未走此分支"),
  rejected: pick("rejected", "已拒绝"),
  upstream_failed: pick("upstream failed", "上游失败"),
  or_lost: pick("another branch won", "其他分支先完成"),
  cancelled: pick("run cancelled", "运行已取消"),
  deadline: pick("deadline passed", "已过截止时间"),
  pause: pick("paused", "已暂停"),
  input: pick("needs input", "等待输入"),
  external: pick("waits outside", "等待外部事件"),
  operation: pick("effect open", "副作用未结"),
  stopped: pick("stopped", "紧急停止"),
  yielded: pick("yielded", "已让出"),
};

export const WORDS = {
  critical: pick("Critical path", "关键路径"),
  find: pick("Find step", "查找步骤"),
  findLong: pick("Find a step by name, tool or status", "按名称、工具或状态查找步骤"),
  of: (n, all) => pick(`${n} of ${all}`, `${n} / ${all}`),
  none: pick("none", "无"),
  fit: pick("Show everything", "显示全部"),
  zoomIn: pick("Zoom in", "放大"),
  zoomOut: pick("Zoom out", "缩小"),
  overview: pick("Overview; click to go there", "缩略图，点击跳转"),
  groups: pick("Groups", "分组"),
  steps: pick("All steps", "全部步骤"),
  list: pick("List", "列表"),
  map: pick("Map", "图"),
  count: (n) => pick(`${n} ${n === 1 ? "step" : "steps"}`, `${n} 个步骤`),
  drawing: (n, undoing = 0) =>
    pick(
      `${n} steps. Arrow keys move along the edges, Enter opens a step, plus and minus zoom, 0 shows everything.`,
      `共 ${n} 个步骤。方向键沿连线移动，回车打开步骤，加减号缩放，0 显示全部。`,
    ) + (undoing ? pick(
      ` ${undoing} more ${undoing === 1 ? "undoes an effect" : "undo effects"}, reached across the edges, behind the step that is undone.`,
      `另有 ${undoing} 个步骤用于撤销副作用，沿横向方向键可在被撤销的步骤之后到达。`,
    ) : ""),
  undo: pick("undo", "撤销"),
  check: pick("check", "核验"),
  undoes: (check, title) => (check ? pick(`Check of the undoing: ${title}`, `撤销的核验：${title}`) : pick(`Undoing: ${title}`, `撤销：${title}`)),
  filterBy: (status, n) => pick(`${STATUS[status]}: ${n}. Show only these`, `${STATUS[status]}：${n}。只看这些`),
  gone: pick("This picture is no longer kept live.", "此图已不再实时更新。"),
  failed: pick("The graph could not be loaded.", "无法加载流程图。"),
  again: pick("Load it again", "重新加载"),
};

// A picture of the past is told by the clock of its event.
let moment = null;
export const asOf = (at) => {
  moment = new Date(at);
};
const clock = () => moment || now();

const since = (from, until) => Math.max(0, ((until ? new Date(until) : clock()) - new Date(from)) / 1000);

/** How long a step ran or has been running; null when it never started. */
export function took(node) {
  return node.started_at ? since(node.started_at, node.finished_at) : null;
}

/** What stands after the kind on a node's second line: [text, toned]. */
export function detail(node) {
  switch (node.status) {
    case "succeeded":
      return [node.started_at ? duration(took(node), false) : STATUS.succeeded, false];
    case "running":
      if (node.hold_requested) return [pick("pause asked", "请求暂停"), true];
      return [`${STATUS.running} ${node.started_at ? duration(took(node)) : ""}`, true];
    case "queued":
      return [`${STATUS.queued} ${node.queued_at ? duration(since(node.queued_at)) : ""}`, false];
    case "hold": {
      const word = CAUSE[node.cause] || pick("held", "挂起");
      return [node.since ? `${word} ${duration(since(node.since))}` : word, true];
    }
    case "unknown":
      return [node.since ? `${STATUS.unknown} ${duration(since(node.since))}` : STATUS.unknown, true];
    case "failed":
      return [node.started_at ? `${STATUS.failed} ${duration(took(node), false)}` : STATUS.failed, true];
    case "killed":
      return [STATUS.killed, true];
    case "skipped":
      return [CAUSE[node.cause] || STATUS.skipped, false];
    case "mark_successed":
      return [pick("by hand", "人工"), true];
    default:
      return waiting(node);
  }
}

function waiting(node) {
  if (node.not_before) {
    const left = Math.max(0, (new Date(node.not_before) - clock()) / 1000);
    const word = node.cause === "retry_scheduled" ? pick("retry in", "重试倒计时")
      : node.cause === "stopped" ? CAUSE.stopped : pick("in", "还有");
    return [node.cause === "stopped" ? word : `${word} ${duration(left)}`, node.cause === "retry_scheduled"];
  }
  if (CAUSE[node.cause]) return [CAUSE[node.cause], false];
  if (node.before.length > 1) {
    const done = node.before.filter((one) => ENDED.has(one.status)).length;
    return [pick(`${done} of ${node.before.length} done`, `已完成 ${done} / ${node.before.length}`), false];
  }
  return [STATUS.waiting, false];
}

export const ENDED = new Set(["succeeded", "failed", "killed", "skipped", "mark_successed"]);

/** Everything the drawing tells of a node, in words, for those who do not see it. */
export function spoken(node) {
  const tries = node.attempt > 1 ? pick(`, attempt ${node.attempt}`, `，第 ${node.attempt} 次尝试`) : "";
  const [text, toned] = detail(node);
  const more = text.startsWith(STATUS[node.status]) || toned === null ? text : `${STATUS[node.status]}, ${text}`;
  // The title of what undoes an effect says its kind.
  return node.undoes ? `${node.title}, ${more}${tries}` : `${node.title}, ${KIND[node.kind] || node.kind}, ${more}${tries}`;
}
