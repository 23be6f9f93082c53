// The agent's interface, as /openapi.json describes it.

/** Longer than the agent waits for its store. */
const PATIENCE = 5000;
/** Longer than between two signs of life of the agent's events. */
const SILENCE = 25_000;

/** The agent has answered with a problem. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.message ?? `the agent answers with ${status}`);
    this.status = status;
    this.code = problem?.code ?? "";
  }
}

/** The agent has not answered, or not in time. What it was asked to do may have been done. */
export class Silent extends Error {}

export class Agent {
  #token;

  /** `token` may be null, where the agent asks for none. */
  constructor(token) {
    this.#token = token;
  }

  async #ask(path, options, patience) {
    const headers = { ...options.headers };
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
    const signals = [AbortSignal.timeout(patience), ...(options.signal ? [options.signal] : [])];
    const asked = { ...options, headers, cache: "no-store", credentials: "omit", signal: AbortSignal.any(signals) };
    try {
      const answer = await fetch(path, asked);
      if (answer.ok) return await answer.json();
      throw new Refused(answer.status, await answer.json().catch(() => null));
    } catch (error) {
      throw error instanceof Refused ? error : new Silent(error.message);
    }
  }

  get(path) {
    return this.#ask(path, {}, PATIENCE);
  }

  post(path, body) {
    const headers = { "content-type": "application/json" };
    return this.#ask(path, { method: "POST", headers, body: JSON.stringify(body) }, 2 * PATIENCE);
  }

  /** One record, or null. */
  async record(key) {
    const sent = performance.now();
    const page = await this.get(`/v1/leases?limit=1&prefix=${encodeURIComponent(key)}`);
    const row = page.leases[0];
    return row?.key === key ? { ...row, sent } : null;
  }

  /** All records, page by page, the first a small one. Each says when it was asked for. */
  async *pages() {
    let after = "";
    for (let limit = 200; ; limit = 1000) {
      const sent = performance.now();
      const page = await this.get(`/v1/leases?limit=${limit}${after}`);
      yield page.leases.map((row) => ({ ...row, sent }));
      if (!page.next) return;
      after = `&after=${encodeURIComponent(page.next)}`;
    }
  }

  /** What the agent has seen become of records, the newest first. */
  async tenures() {
    return (await this.get("/v1/tenures?limit=1000")).tenures;
  }

  /** Tells each event until the stream ends or `signal` comes; `opened` is called once nothing is missed any more. */
  async listen(signal, opened, event) {
    const quiet = new AbortController();
    const stop = AbortSignal.any([signal, quiet.signal]);
    const headers = this.#token ? { authorization: `Bearer ${this.#token}` } : {};
    let timer = setTimeout(() => quiet.abort(), SILENCE);
    try {
      const answer = await fetch("/v1/events?records=true", { headers, cache: "no-store", credentials: "omit", signal: stop });
      if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => null));
      opened();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ; ) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => quiet.abort(), SILENCE);
        const messages = (rest + value).split("\n\n");
        rest = messages.pop();
        for (const message of messages) {
          const data = message.split("\n").find((line) => line.startsWith("data: "));
          if (data) event(JSON.parse(data.slice(6)));
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }
}
