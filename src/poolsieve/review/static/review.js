// Keys, pictures that are shown when asked for, batches. Without it every page still works by buttons and links.
"use strict";

const grid = [...document.querySelectorAll("form .task[data-task]")];
let place = 0;

function current() {
  return grid.length ? grid[place] : document.querySelector(".task.current");
}

function address(picture, blur, grey) {
  return `${picture.dataset.picture}?blur=${blur}&grey=${grey}`;
}

function show(picture, blur, grey) {
  picture.dataset.nowBlur = blur;
  picture.dataset.nowGrey = grey;
  picture.src = address(picture, blur, grey);
  picture.alt = picture.alt.replace(/, (blurred|shown)$/, blur === "true" ? ", blurred" : ", shown");
}

function toggle(kind) {
  const picture = current()?.querySelector("img.picture");
  if (!picture) return;
  const now = { blur: picture.dataset.nowBlur ?? picture.dataset.blur, grey: picture.dataset.nowGrey ?? picture.dataset.grey };
  now[kind] = now[kind] === "true" ? "false" : "true";
  picture.dataset.kept = "true";  // a key's choice outlasts the pointer
  show(picture, now.blur, now.grey);
  document.querySelector(`[data-toggle="${kind}"]`)?.setAttribute("aria-pressed", now[kind]);
}

for (const picture of document.querySelectorAll("img.picture")) {
  const frame = picture.closest(".frame");
  frame.addEventListener("pointerenter", (event) => {
    if (event.pointerType === "mouse" && !picture.dataset.kept) show(picture, "false", picture.dataset.grey);
  });
  frame.addEventListener("pointerleave", () => {
    if (!picture.dataset.kept) show(picture, picture.dataset.blur, picture.dataset.grey);
  });
}

function go(to) {
  if (!grid.length) return;
  place = Math.min(Math.max(to, 0), grid.length - 1);
  grid.forEach((task, number) => task.classList.toggle("current", number === place));
  grid[place].scrollIntoView({ block: "nearest" });
}

function decide(decision) {
  const form = document.getElementById("decide");
  if (!form) return;
  if (grid.length && !form.querySelector("input[name=tasks]:checked")) {
    grid[place].querySelector("input[name=tasks]").checked = true;
  }
  form.querySelector(`button[value="${decision}"]`).click();
}

const keys = {
  a: () => decide("approve"),
  r: () => decide("reject"),
  e: () => decide("escalate"),
  s: () => decide("skip"),
  u: () => document.querySelector('button[data-key="u"]')?.click(),
  b: () => toggle("blur"),
  g: () => toggle("grey"),
  x: () => grid[place]?.querySelector("input[name=tasks]").click(),
  "?": () => document.getElementById("help")?.showModal(),
  ArrowRight: () => go(place + 1),
  ArrowLeft: () => go(place - 1),
  Enter: () => grid[place]?.querySelector("a.frame").click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.isComposing) return;
  const field = event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable], dialog");
  if (field || document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  if (event.shiftKey && event.key !== "?") return;
  if (Object.hasOwn(keys, event.key) && (grid.length || document.getElementById("help"))) {
    event.preventDefault();
    keys[event.key]();
  }
});

document.getElementById("show-help")?.addEventListener("click", keys["?"]);
document.getElementById("choose-all")?.addEventListener("click", () => {
  const boxes = [...document.querySelectorAll("#decide input[name=tasks]")];
  const all = boxes.every((box) => box.checked);
  for (const box of boxes) box.checked = !all;
});
for (const button of document.querySelectorAll("[data-toggle]")) {
  button.addEventListener("click", () => toggle(button.dataset.toggle));
}
document.getElementById("decide")?.addEventListener("submit", (event) => {
  if (!event.target.querySelector("input[name=tasks]:checked, input[name=tasks][type=hidden]")) event.preventDefault();
});
if (document.querySelector("[data-look-again]")) setTimeout(() => location.reload(), 20_000);
go(0);
