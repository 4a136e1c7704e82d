'use strict';

// The proxy of a sandbox, for versions of Node that do not read it from the environment.
//
// Newer versions do so by themselves (`NODE_USE_ENV_PROXY`). Here `fetch` and the usual agents of
// `http` and `https` open a tunnel for each connection. Code that brings its own agent, such as npm,
// reads the environment itself.

require('./limits.js');

const http = require('http');
const https = require('https');
const net = require('net');
const tls = require('tls');

const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

if (process.env.NODE_USE_ENV_PROXY === '1' && process.env.http_proxy && !isBuiltIn()) {
  install(new URL(process.env.http_proxy));
}

function isBuiltIn() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  return major > 24 || (major === 24 && minor >= 5) || (major === 22 && minor >= 21);
}

function install(proxy) {
  const open = (options, done) => tunnel(proxy, options, done);
  http.globalAgent = new http.Agent({ keepAlive: true });
  http.globalAgent.createConnection = open;
  https.globalAgent = new https.Agent({ keepAlive: true });
  https.globalAgent.createConnection = (options, done) => {
    open(options, (error, socket) => (error ? done(error) : encrypt(socket, options, done)));
  };
  const plain = globalThis.fetch;
  let isReady = false;
  globalThis.fetch = function fetch(...args) {
    if (!isReady) {
      isReady = true;
      // The first fetch loads the client, whose dispatcher is then replaced.
      plain('data:,').catch(() => {});
      const Agent = globalThis[DISPATCHER].constructor;
      globalThis[DISPATCHER] = new Agent({ connect: (options, done) => dispatch(open, options, done) });
    }
    return plain(...args);
  };
}

function dispatch(open, options, done) {
  const secure = options.protocol === 'https:';
  const port = options.port || (secure ? 443 : 80);
  const to = { host: options.hostname, port, servername: options.servername };
  open(to, (error, socket) => {
    if (error) return done(error, null);
    return secure ? encrypt(socket, to, done) : done(null, socket);
  });
}

function encrypt(socket, options, done) {
  const servername = options.servername || (net.isIP(options.host) ? '' : options.host);
  const secured = tls.connect({ ...options, socket, servername, ALPNProtocols: ['http/1.1'] });
  secured.once('secureConnect', () => done(null, secured));
  secured.once('error', (error) => done(error));
}

function tunnel(proxy, options, done) {
  const host = net.isIPv6(options.host) ? `[${options.host}]` : options.host;
  const authority = `${host}:${options.port}`;
  const socket = net.connect(Number(proxy.port), proxy.hostname);
  let head = Buffer.alloc(0);
  let isDone = false;
  const finish = (error) => {
    if (isDone) return;
    isDone = true;
    socket.removeListener('data', read);
    if (error) socket.destroy();
    done(error, error ? undefined : socket);
  };
  const read = (chunk) => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0) return;
    const [line] = head.toString('latin1').split('\r\n');
    if (/^HTTP\/1\.[01] 200 /.test(line)) return finish(null);
    const why = head.subarray(end + 4).toString().trim();
    finish(Object.assign(new Error(`proxy refused ${authority}: ${why || line}`), { code: 'EPROXY' }));
  };
  socket.on('connect', () => socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`));
  socket.on('data', read);
  socket.once('error', finish);
  socket.once('end', () => finish(new Error(`proxy closed the connection to ${authority}`)));
}
