'use strict';
// Tools of the server, called from inside a sandbox.
//
//   const { tools } = require('ringfence');
//   const page = await tools.call('http_fetch', { url: 'https://example.com/' });
//
// Each use is a call of its own: policy decides about it, it is recorded, and it is cancelled when the
// call that this program runs for is cancelled or ends. A connection carries one request at a time.

const net = require('net');

const SOCKET = '/box/ringfence.sock';
const MAX_REQUEST = 4 << 20;
const MAX_CONNECTIONS = 8;
const CONNECT_MS = 10_000;

// A use of the SDK that gave no result. `code` is stable; `callId` names the call if there is one.
class RingfenceError extends Error {
  constructor(message, { code = 'error', callId, details, retryAfter } = {}) {
    super(message);
    this.name = this.constructor.name;
    Object.assign(this, { code, callId, details, retryAfter });
  }
}

class Unavailable extends RingfenceError {}
class Ended extends RingfenceError {}
class BadRequest extends RingfenceError {}
class NotGranted extends RingfenceError {}
class NotFound extends RingfenceError {}
class NotActive extends RingfenceError {}
class InvalidArguments extends RingfenceError {}
class Denied extends RingfenceError {}
class Held extends RingfenceError {}
class Failed extends RingfenceError {}
class Cancelled extends RingfenceError {}
class Busy extends RingfenceError {}
class OutcomeUnknown extends RingfenceError {}

const kinds = {
  bad_request: BadRequest,
  busy: Busy,
  cancelled: Cancelled,
  denied: Denied,
  ended: Ended,
  failed: Failed,
  held: Held,
  invalid_arguments: InvalidArguments,
  not_active: NotActive,
  not_found: NotFound,
  not_granted: NotGranted,
  outcome_unknown: OutcomeUnknown,
  unavailable: Unavailable,
};

const idle = [];
const waiting = [];
let open = 0;

// A free connection, a new one, or the wait for one.
function take() {
  const free = idle.pop();
  if (free !== undefined) {
    free.ref();
    return Promise.resolve(free);
  }
  if (open >= MAX_CONNECTIONS) return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
  open += 1;
  return connect(Date.now() + CONNECT_MS).catch((error) => {
    open -= 1;
    const next = waiting.shift();
    if (next) take().then(next.resolve, next.reject);
    throw new Unavailable(`this program was not granted any tools: ${error.message}`, { code: 'unavailable' });
  });
}

function connect(until) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(SOCKET);
    const fail = (error) => {
      // The queue of the socket is full while more connections are made than are taken.
      if (error.code !== 'EAGAIN' || Date.now() > until) return reject(error);
      return setTimeout(() => connect(until).then(resolve, reject), 10);
    };
    socket.once('error', fail);
    socket.once('connect', () => {
      socket.removeListener('error', fail);
      resolve(socket);
    });
  });
}

// An idle connection does not keep the program alive.
function give(socket) {
  const next = waiting.shift();
  if (next) return next.resolve(socket);
  socket.unref();
  return idle.push(socket);
}

function lose(socket) {
  open -= 1;
  socket.destroy();
  const next = waiting.shift();
  if (next) take().then(next.resolve, next.reject);
}

// Sends a request and returns the answer. It is never sent twice.
async function exchange(request) {
  const call = process.env.RINGFENCE_CALL_ID;
  let text;
  try {
    text = JSON.stringify({ ...request, for: call || undefined });
  } catch (error) {
    throw new InvalidArguments(`the arguments are not JSON: ${error.message}`, { code: 'invalid_arguments' });
  }
  const body = Buffer.from(text);
  if (body.length > MAX_REQUEST) {
    throw new InvalidArguments(`a request has at most ${MAX_REQUEST} bytes; use a file`, { code: 'invalid_arguments' });
  }
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length);
  const socket = await take();
  try {
    const answer = await once(socket, Buffer.concat([head, body]));
    give(socket);
    return JSON.parse(answer);
  } catch (error) {
    lose(socket);
    throw new Unavailable(`the server closed the connection: ${error.message}`, { code: 'unavailable' });
  }
}

function once(socket, bytes) {
  return new Promise((resolve, reject) => {
    const parts = [];
    let length = 0;
    const finish = (error, answer) => {
      socket.removeListener('data', read);
      socket.removeListener('error', finish);
      socket.removeListener('close', closed);
      if (error) reject(error);
      else resolve(answer);
    };
    const closed = () => finish(new Error('end of the connection'));
    const read = (part) => {
      parts.push(part);
      length += part.length;
      if (length < 4) return;
      if (parts[0].length < 4) parts.splice(0, parts.length, Buffer.concat(parts));
      if (length < 4 + parts[0].readUInt32LE(0)) return;
      finish(null, Buffer.concat(parts).subarray(4).toString());
    };
    socket.on('data', read);
    socket.once('error', finish);
    socket.once('close', closed);
    socket.write(bytes);
  });
}

async function ask(request) {
  const answer = await exchange(request);
  const { error } = answer;
  if (!error) return answer.result;
  const Kind = kinds[error.kind] || RingfenceError;
  throw new Kind(error.message, {
    code: error.code,
    callId: answer.call_id,
    details: error.details,
    retryAfter: error.retry_after_ms === undefined ? undefined : error.retry_after_ms / 1000,
  });
}

// Calls a tool. `hold: 'wait'` waits for a person where policy wants one; otherwise `Held` is thrown.
function call(name, args = {}, { version, hold } = {}) {
  return ask({ op: 'call', tool: name, version, args, hold });
}

function content(value) {
  if (value instanceof Uint8Array) return { base64: Buffer.from(value).toString('base64') };
  return { content: typeof value === 'string' ? value : JSON.stringify(value) };
}

const tools = {
  call,
  search: async (query, limit) => (await call('tool_search', { query, limit })).tools,
};

const storage = {
  save: (title, value, about = {}, options) =>
    call('artifact_write', { ...about, ...content(value), operation: 'create', title }, options),
  update: (artifact, value, changes = '', options) =>
    call('artifact_write', { ...content(value), operation: 'update', artifact, changes }, options),
  async get(artifact, version) {
    const { base64, ...found } = await call('artifact_read', { artifact, version });
    return base64 === undefined ? found : { ...found, content: Buffer.from(base64, 'base64') };
  },
  search: async (by = {}) => (await call('artifact_search', by)).artifacts,
};

const llm = {
  generate: (prompt, options = {}, how) => call('llm_generate', { ...options, prompt }, how),
  generateCode(prompt, language = 'javascript', options = {}, how) {
    const wanted = `Answer with ${language} source code only, without explanations.\n\n${prompt}`;
    return llm.generate(wanted, options, how);
  },
};
llm.generate_code = llm.generateCode;

const state = {
  get: async (key) => (await call('state_get', { key })).value,
  set: (key, value) => call('state_set', { key, value }),
};

const memory = {
  write: (text, about = {}) => call('memory_write', { ...about, text }),
  recall: (query, about = {}) => call('memory_recall', { ...about, query }),
};

const visual = {
  renderDiagram: async (source, language = 'graphviz') => (await call('diagram_render', { source, language })).svg,
};
visual.render_diagram = visual.renderDiagram;

// Says how far the program is: readers of the call see the latest report.
const progress = async (done, total, message) => {
  await ask({ op: 'progress', done, total, message });
};

// Writes one line to standard error, which readers of the call see at once.
function log(message, level = 'info', fields = {}) {
  const extra = Object.entries(fields).map(([name, value]) => ` ${name}=${JSON.stringify(value)}`).join('');
  process.stderr.write(`${level.toUpperCase()} ${message}${extra}\n`);
}

const errors = { ...Object.fromEntries(Object.values(kinds).map((kind) => [kind.name, kind])), RingfenceError };

module.exports = { tools, storage, llm, state, memory, visual, progress, log, ...errors };
