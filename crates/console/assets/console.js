// Keyboard, copy buttons, confirmations and relative times. Every page works without this file.
"use strict";
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const one = (selector) => document.querySelector(selector);

  // Controls that do nothing without this file are hidden until it runs.
  const reveal = (root) => all("[data-copy][hidden], [data-help][hidden], [data-upload][hidden]", root).forEach((button) => { button.hidden = false; });

  const relative = (then) => {
    const seconds = Math.round((Date.now() - then) / 1000);
    const away = Math.abs(seconds);
    if (away < 2) return "just now";
    const [count, unit] = away < 60 ? [away, "s"] : away < 3600 ? [Math.floor(away / 60), "min"]
      : away < 172800 ? [Math.floor(away / 3600), "h"] : [Math.floor(away / 86400), "days"];
    return seconds < 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`;
  };
  const tick = () => all("time[datetime]").forEach((time) => {
    const text = relative(Date.parse(time.dateTime));
    if (time.textContent !== text) time.textContent = text;
  });

  const rows = () => all("[data-row]");
  const move = (step) => {
    const found = rows();
    if (!found.length) return;
    const at = found.indexOf(document.activeElement);
    const next = at < 0 ? (step > 0 ? 0 : found.length - 1) : Math.min(Math.max(at + step, 0), found.length - 1);
    found[next].focus();
    found[next].scrollIntoView({ block: "nearest" });
  };

  const approve = () => {
    const button = one("[data-approve]");
    const dialog = one("#confirm");
    if (!button || !dialog || dialog.open) return;
    const chosen = one("#decide input[name=scope]:checked");
    const scope = chosen ? chosen.closest("label").querySelector("strong").textContent : "";
    dialog.querySelector("[data-confirm-scope]").textContent = `Approved for: ${scope.toLowerCase()}.`;
    dialog.returnValue = "";
    dialog.showModal();
    dialog.addEventListener("close", () => {
      if (dialog.returnValue === "yes") { button.dataset.confirmed = "1"; button.form.requestSubmit(button); }
    }, { once: true });
  };

  let leader = 0;
  const isTyping = (target) => target.closest("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable], .terminal");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (one("dialog[open]")) return;
    const isAfterG = Date.now() - leader < 1200;
    leader = 0;
    if (isAfterG) {
      const link = one(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    const actions = {
      "/": () => { const search = one("[data-search]"); if (search) { search.focus(); search.select(); } },
      j: () => move(1), k: () => move(-1), a: approve, g: () => { leader = Date.now(); },
      "?": () => one("#help").showModal(),
    };
    const action = actions[event.key];
    if (action) { event.preventDefault(); action(); }
  });

  document.addEventListener("click", (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      navigator.clipboard?.writeText(copy.dataset.copy).then(() => {
        copy.textContent = "copied";
        setTimeout(() => { copy.textContent = "copy"; }, 1200);
      }, () => {});
    }
    if (event.target.closest("[data-help]")) one("#help").showModal();
    const button = event.target.closest("[data-approve]");
    if (button && !button.dataset.confirmed) { event.preventDefault(); approve(); }
    const sure = event.target.closest("[data-confirm]");
    if (sure && !window.confirm(sure.dataset.confirm)) event.preventDefault();
  });

  // A file is sent as it is; the page that answers takes the place of this one.
  document.addEventListener("change", async (event) => {
    const place = event.target.closest("[data-upload]");
    const file = place && event.target.files[0];
    if (!file) return;
    const path = (place.dataset.folder ? place.dataset.folder + "/" : "") + file.name;
    const headers = { "Content-Type": "application/octet-stream", "X-Form-Token": place.dataset.token };
    const answer = await fetch(`${place.dataset.upload}?path=${encodeURIComponent(path)}`, { method: "POST", headers, body: file });
    if (answer.redirected) location.assign(answer.url); else window.alert(`${file.name} was not saved: ${answer.status}`);
  });

  // A form is sent once.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "1";
    setTimeout(() => { delete form.dataset.sent; }, 4000);
  });

  document.addEventListener("htmx:afterSwap", (event) => { reveal(event.target.parentElement || document); tick(); });
  reveal(document);
  tick();
  setInterval(tick, 10000);
})();
