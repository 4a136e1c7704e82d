'use strict';
// Evaluates cells as the developer tools do: V8's REPL mode, where `let` and `const` can
// be declared again, `await` works at the top level and variables survive.
//
// The inspector session is in-process: no port is opened. The synchronous part of a cell
// runs under node's SIGINT watchdog, which ends even `while (true);`.

const inspector = require('inspector');
const vm = require('vm');

const session = new inspector.Session();
session.connect();
const post = session.post.bind(session);

let taken; // Where the page side leaves a value for us.
let pending; // What the watched script is about to do.
const TAKE = Symbol.for('ringfence.take');
const START = Symbol.for('ringfence.start');
Object.defineProperty(globalThis, TAKE, { value: (value) => { taken = value; } });
Object.defineProperty(globalThis, START, { value: () => pending() });
const start = new vm.Script('globalThis[Symbol.for("ringfence.start")]()', { filename: __filename });

// Evaluates source; `begun()` is called when it can be interrupted. `done(outcome)` is
// called with a value, an exception, or neither when the synchronous part was interrupted.
function evaluate(code, name, begun, done) {
  const expression = `${code}\n//# sourceURL=${name}`;
  const options = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' };
  pending = () => {
    begun();
    post('Runtime.evaluate', options, (failure, answer) => done(outcome(failure, answer)));
  };
  try {
    start.runInThisContext({ breakOnSigint: true, displayErrors: false });
  } catch (error) {
    if (error?.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw error;
    done({ isInterrupted: true });
  }
}

function outcome(failure, answer) {
  if (failure) return { error: new Error(failure.message) };
  const details = answer.exceptionDetails;
  const told = details
    ? { isError: true, error: live(details.exception), line: details.lineNumber, column: details.columnNumber }
    : { value: live(answer.result) };
  post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  return told;
}

// The value itself behind the inspector's description of it.
function live(remote) {
  if (remote === undefined) return undefined;
  if (remote.objectId !== undefined) return fetchObject(remote.objectId);
  if (remote.subtype === 'null') return null;
  if (remote.unserializableValue === undefined) return remote.value;
  const text = remote.unserializableValue;
  return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
}

function fetchObject(objectId) {
  const functionDeclaration = 'function (value) { globalThis[Symbol.for("ringfence.take")](value); }';
  taken = undefined;
  post('Runtime.callFunctionOn', { objectId, functionDeclaration, arguments: [{ objectId }] });
  const value = taken;
  taken = undefined;
  return value;
}

// A value looked up without side effects; undefined when that is not possible.
function peek(expression) {
  let found;
  post('Runtime.evaluate', { expression, throwOnSideEffect: true, objectGroup: 'cell' }, (failure, answer) => {
    if (!failure && !answer.exceptionDetails) found = live(answer.result);
  });
  return found;
}

// Names declared by `let`, `const` and `class`.
function lexicalNames() {
  let names = [];
  post('Runtime.globalLexicalScopeNames', {}, (failure, answer) => {
    if (!failure) names = answer.names;
  });
  return names;
}

// Forgets a `let`, `const` or `class`: V8 cannot remove it, so it becomes undefined. A name
// can be declared again only as what it was, hence the second attempt.
function forget(names) {
  for (const name of names) {
    if (!declares(`let ${name};`)) declares(`const ${name} = undefined;`);
  }
}

function declares(expression) {
  let isDone = false;
  post('Runtime.evaluate', { expression, replMode: true }, (failure, answer) => {
    isDone = !failure && !answer.exceptionDetails;
  });
  return isDone;
}

module.exports = { evaluate, peek, lexicalNames, forget };
