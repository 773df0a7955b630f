// Looks at the page as a reader does, and writes down what there is.
const rgb = (text) => text.match(/[\d.]+/g).map(Number);
const light = (color) => {
  const [r, g, b] = rgb(color).map((value) => value / 255).map((value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (color !== "transparent" && (rgb(color)[3] ?? 1) === 1) return color;
  }
  return "rgb(255, 255, 255)";
};
const box = (element) => element.getBoundingClientRect();
const isShown = (element) => box(element).width + box(element).height > 0;
const ink = (element) => {
  const style = getComputedStyle(element);
  return style.fill === "none" ? style.stroke : style.fill;
};
const charts = [...document.querySelectorAll("svg.plot")].map((svg) => ({
  id: svg.id,
  label: svg.getAttribute("aria-label"),
  width: box(svg).width,
  height: box(svg).height,
  marks: [...svg.querySelectorAll(".mark")].filter(isShown).length,
  inside: [...svg.querySelectorAll(".mark, text")].every((element) =>
    box(element).left >= box(svg).left - 10 && box(element).right <= box(svg).right + 10 &&
    box(element).top >= box(svg).top - 10 && box(element).bottom <= box(svg).bottom + 10),
  ink: Math.min(...[...svg.querySelectorAll(".mark")].map((mark) => contrast(ink(mark), behind(svg)))),
  text: Math.min(...[...svg.querySelectorAll("text")].map((text) => contrast(getComputedStyle(text).fill, behind(svg)))),
}));
const texts = [...document.querySelectorAll("h1, h2, p, b, th, td, button")];
const found = {
  charts,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  page: light(getComputedStyle(document.body).backgroundColor),
  text: Math.min(...texts.map((text) => contrast(getComputedStyle(text).color, behind(text)))),
  rows: document.querySelectorAll("tbody tr").length,
  overflow: document.documentElement.scrollWidth - innerWidth,
  requests: performance.getEntriesByType("resource").map((entry) => entry.name),
};
const shown = () => [...document.querySelectorAll(".mark")].filter(isShown).length;
const button = document.querySelector(".legend button");
const before = shown();
button.click();
found.hidden = before - shown();
found.pressed = button.getAttribute("aria-pressed");
button.click();
found.restored = shown() === before;
const mark = document.querySelector("svg.plot .point, svg.plot .bar");
mark.dispatchEvent(new PointerEvent("pointermove", { clientX: 50, clientY: 50 }));
found.tip = document.getElementById("tip").innerText;
const place = document.createElement("pre");
place.id = "found";
place.textContent = JSON.stringify(found);
document.body.append(place);
