// The terminal of a sandbox: xterm.js over a WebSocket.
"use strict";
(() => {
  // xterm.js makes style elements and style attributes, which the content security policy refuses.
  // The same rules are allowed as constructed style sheets and through the object model.
  const create = Document.prototype.createElement;
  Document.prototype.createElement = function (name, options) {
    if (String(name).toLowerCase() !== "style") return create.call(this, name, options);
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets.push(sheet);
    const element = create.call(this, "template");
    Object.defineProperty(element, "textContent", { get: () => "", set: (text) => sheet.replaceSync(text) });
    Object.defineProperty(element, "sheet", { get: () => sheet });
    return element;
  };
  const set = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value; else set.call(this, name, value);
  };

  addEventListener("DOMContentLoaded", () => {
    const place = document.querySelector("[data-terminal]");
    if (!place) return;
    const style = getComputedStyle(document.documentElement);
    const terminal = new Terminal({
      fontFamily: style.getPropertyValue("--mono"), fontSize: 14, cursorBlink: true, screenReaderMode: true,
      theme: { background: "#101217", foreground: "#e8eaf0", cursor: "#a5a8ff" },
    });
    const fit = new FitAddon.FitAddon();
    terminal.loadAddon(fit);
    terminal.open(place);
    const socket = new WebSocket(place.dataset.terminal);
    socket.binaryType = "arraybuffer";
    const resize = () => {
      fit.fit();
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ rows: terminal.rows, columns: terminal.cols }));
    };
    const encoder = new TextEncoder();
    socket.onopen = () => { resize(); terminal.focus(); };
    socket.onmessage = (event) => { if (typeof event.data !== "string") terminal.write(new Uint8Array(event.data)); };
    socket.onclose = () => terminal.write("\r\n[the program has ended]\r\n");
    terminal.onData((text) => socket.readyState === WebSocket.OPEN && socket.send(encoder.encode(text)));
    terminal.onBinary((text) => socket.readyState === WebSocket.OPEN && socket.send(Uint8Array.from(text, (c) => c.charCodeAt(0))));
    addEventListener("resize", resize);
  });
})();
