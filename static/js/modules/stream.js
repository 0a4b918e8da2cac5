// A run's socket: a snapshot or what moved since `after`, then small patches, each told once and without a gap.
// The picture is the caller's; this module only says what to draw, in what order, and how it stands with the connection.
//
//   new RunStream(runId, { after, tenant, onSnapshot(message), onPatch(message), onState(state, problem) })
//   state: "live" | "paused" | "lost" | "gone" (refused for good; `problem` says why)

const SILENT_MS = 4000;
// So long may opening take, and the first word after it: on a slow network longer with each try, up to three times.
const OPENING_MS = 5000;
const WAITS_MS = [200, 500, 1000, 2000, 4000];
const FINAL = new Set([4400, 4401, 4403, 4404]);

export class RunStream {
  constructor(runId, { after, tenant, onSnapshot, onPatch, onState }) {
    Object.assign(this, { runId, tenant, onSnapshot, onPatch, onState });
    this.seq = after ?? null;
    this.state = "lost";
    this.failures = 0;
    this.problem = null;
    this.watchdog = setInterval(() => this.#watch(), 1000);
    addEventListener("online", () => this.#again(0));
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.state === "lost") this.#again(0);
    });
    this.#open();
  }

  pause() {
    this.#say("paused");
    clearTimeout(this.timer);
    this.#drop();
  }

  resume() {
    this.failures = 0;
    this.#say("lost");
    this.#open();
  }

  // What has been drawn; the server stops sending to those who do not keep up.
  confirm(seq) {
    if (this.confirmed === seq || this.ackTimer) return;
    this.ackTimer = setTimeout(() => {
      this.ackTimer = null;
      this.confirmed = this.seq;
      this.#send({ type: "ack", seq: this.seq });
    }, 150);
  }

  #open() {
    this.#drop();
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const query = this.seq === null ? "" : `?after=${this.seq}`;
    const socket = new WebSocket(`${scheme}//${location.host}/ws/runs/${this.runId}/${query}`);
    this.socket = socket;
    this.heard = performance.now();
    this.confirmed = null;
    this.told = false;
    socket.onopen = () => {
      if (socket === this.socket) this.heard = performance.now();
    };
    socket.onmessage = (event) => {
      if (socket === this.socket) this.#take(JSON.parse(event.data));
    };
    socket.onclose = (event) => {
      if (socket !== this.socket || this.state === "paused") return;
      this.socket = null;
      if (FINAL.has(event.code)) {
        this.#say("gone", this.problem);
        return;
      }
      if (event.code === 4410) this.seq = null;
      // Who is told when to come back comes no sooner: too many are open here, or too many of one's own.
      const after = this.problem?.retry_after;
      this.problem = null;
      this.#again(after ? after * 1000 * (1 + Math.random() / 2) : undefined);
    };
  }

  #take(message) {
    this.heard = performance.now();
    this.told = true;
    if (message.type === "problem") {
      this.problem = message;
      return;
    }
    if (message.type === "resync") {
      this.#send({ type: "read", after: this.seq });
      return;
    }
    if (message.type === "snapshot") {
      this.seq = message.seq;
      this.onSnapshot(message);
    } else if (message.type === "patch") {
      if (this.seq !== null && message.from_seq > this.seq + 1) {
        this.#send({ type: "read", after: this.seq });
        return;
      }
      this.seq = Math.max(this.seq ?? 0, message.to_seq);
      this.onPatch(message);
    } else if (message.type === "tick" && this.seq !== null && message.seq > this.seq) {
      this.#send({ type: "read", after: this.seq });
      return;
    }
    this.failures = 0;
    this.#say("live");
  }

  #say(state, problem = null) {
    this.state = state;
    this.onState(state, problem);
  }

  #send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  #drop() {
    const socket = this.socket;
    this.socket = null;
    if (socket) socket.close();
  }

  // Silence for longer than a few signs of life is a loss, whatever the browser still believes of the socket. So is an
  // opening that comes to no end, and an open socket that never says a word: else "reconnecting" would last for ever.
  #watch() {
    if (!this.socket || this.state === "paused" || this.state === "gone") return;
    const limit = this.told ? SILENT_MS : OPENING_MS * Math.min(1 + this.failures, 3);
    if (performance.now() - this.heard <= limit) return;
    this.#drop();
    this.#again(this.told ? 0 : undefined);
  }

  #again(wait) {
    if (this.state === "paused" || this.state === "gone" || this.socket?.readyState === WebSocket.CONNECTING) return;
    this.#say("lost");
    clearTimeout(this.timer);
    const pause = wait ?? WAITS_MS[Math.min(this.failures, WAITS_MS.length - 1)] * (0.75 + Math.random() / 2);
    this.failures += 1;
    this.timer = setTimeout(() => this.#open(), pause);
  }
}
