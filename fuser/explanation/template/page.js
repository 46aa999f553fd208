"use strict";

// Without this script everything can be read; it connects graphs with their kernels.

const nodesOf = (step) => [...step.closest(".partition").querySelectorAll(`[data-step="${step.id}"]`)];

function mark(step) {
  const drawing = step.closest(".partition").querySelector(".drawing");
  if (!drawing) return;
  drawing.querySelectorAll(".chosen").forEach((node) => node.classList.remove("chosen"));
  const chosen = step.open ? nodesOf(step) : [];
  chosen.forEach((node) => node.classList.add("chosen"));
  drawing.classList.toggle("choosing", chosen.length > 0);
}

function unmark(drawing) {
  drawing.classList.remove("choosing");
  drawing.querySelectorAll(".chosen").forEach((node) => node.classList.remove("chosen"));
}

function tell(node) {
  const readout = node.closest("figure").querySelector(".readout");
  readout.textContent = node.querySelector("title").textContent;
}

function choose(node) {
  tell(node);
  const step = document.getElementById(node.dataset.step ?? "");
  if (!step) return;
  step.open = true;
  mark(step);
  const panel = step.parentElement;
  if (panel.scrollHeight > panel.clientHeight) panel.scrollTop = step.offsetTop - panel.offsetTop;
  else step.scrollIntoView({ block: "nearest" });
}

function focus(node, nodes) {
  nodes.forEach((other) => other.setAttribute("tabindex", "-1"));
  node.setAttribute("tabindex", "0");
  node.focus();
}

// -- a graph: nodes by mouse and keys, zoom, and dragging ----------------------------------------

function connect(stage) {
  const drawing = stage.querySelector(".drawing");
  const nodes = [...drawing.querySelectorAll(".node")];
  drawing.addEventListener("pointerover", (event) => {
    const node = event.target.closest(".node");
    if (node) tell(node);
  });
  drawing.addEventListener("focusin", (event) => {
    const node = event.target.closest(".node");
    if (node) tell(node);
  });
  drawing.addEventListener("click", (event) => {
    const node = event.target.closest(".node");
    if (node) choose(node);
    else unmark(drawing);
  });
  drawing.addEventListener("keydown", (event) => {
    const at = nodes.indexOf(event.target.closest(".node"));
    if (at < 0) return;
    const moves = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
    if (event.key in moves) focus(nodes[(at + moves[event.key] + nodes.length) % nodes.length], nodes);
    else if (event.key === "Enter" || event.key === " ") choose(nodes[at]);
    else if (event.key === "Escape") unmark(drawing);
    else return;
    event.preventDefault();
  });
  connectZoom(stage, drawing);
  connectDragging(stage);
}

const LEGIBLE = 0.75; // of the size of text

function connectZoom(stage, drawing) {
  const { width, height } = drawing.viewBox.baseVal;
  let scale = 1;
  const zoom = (wanted) => {
    const next = Math.min(4, Math.max(0.05, wanted));
    const x = (stage.scrollLeft + stage.clientWidth / 2) / scale;
    const y = (stage.scrollTop + stage.clientHeight / 2) / scale;
    drawing.setAttribute("width", width * next);
    drawing.setAttribute("height", height * next);
    stage.scrollLeft = x * next - stage.clientWidth / 2;
    stage.scrollTop = y * next - stage.clientHeight / 2;
    scale = next;
  };
  const by = {
    in: () => zoom(scale * 1.25),
    out: () => zoom(scale / 1.25),
    fit: () => zoom(Math.min(1, stage.clientWidth / width, (stage.clientHeight - 2) / height)),
  };
  new ResizeObserver((_, observer) => {  // once the partition is open, and so has a width
    if (!stage.clientWidth) return;
    observer.disconnect();
    zoom(Math.min(1, Math.max(LEGIBLE, stage.clientWidth / width)));
    stage.scrollTo((width * scale - stage.clientWidth) / 2, 0);
  }).observe(stage);
  stage.parentElement.querySelectorAll("[data-zoom]").forEach((button) => {
    button.addEventListener("click", () => by[button.dataset.zoom]());
  });
  stage.addEventListener("keydown", (event) => {
    const action = { "+": "in", "=": "in", "-": "out", 0: "fit" }[event.key];
    if (action && !event.ctrlKey && !event.metaKey) by[action]();
  });
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(scale * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
  }, { passive: false });
}

function connectDragging(stage) {
  let from = null;
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest(".node")) return;
    from = { x: event.clientX + stage.scrollLeft, y: event.clientY + stage.scrollTop };
    stage.classList.add("held");
  });
  window.addEventListener("pointermove", (event) => {
    if (!from) return;
    stage.scrollLeft = from.x - event.clientX;
    stage.scrollTop = from.y - event.clientY;
  });
  window.addEventListener("pointerup", () => {
    from = null;
    stage.classList.remove("held");
  });
}

// -- the page ------------------------------------------------------------------------------------

document.querySelectorAll(".stage").forEach(connect);
document.querySelectorAll(".step").forEach((step) => {
  step.querySelector("summary").addEventListener("click", () => setTimeout(() => mark(step)));
});
document.querySelectorAll("[data-all]").forEach((button) => {
  button.addEventListener("click", () => {
    const open = button.dataset.all === "open";
    document.querySelectorAll(".graph, .partition").forEach((part) => { part.open = open; });
  });
});
