const picture = document.getElementById("picture");
const button = document.getElementById("theme");
const wish = matchMedia("(prefers-color-scheme: dark)");
const tall = figure.layout.height;
let chosen = null;

function wanted() { return chosen || (wish.matches ? "dark" : "light"); }

function colours(theme) {
  const dark = theme === "dark";
  const change = {
    "font.color": dark ? "#e6e9ed" : "#1c2127",
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "hoverlabel.font.color": "#1c2127",
    "hoverlabel.bgcolor": "#ffffff",
    "modebar.bgcolor": "rgba(0,0,0,0)",
    "modebar.color": dark ? "#9aa4af" : "#59636e",
  };
  for (const name of Object.keys(figure.layout)) {
    if (/^[xy]axis/.test(name)) {
      change[name + ".gridcolor"] = dark ? "#2b323a" : "#e6e9ed";
      change[name + ".linecolor"] = dark ? "#4a535d" : "#b8c0c8";
      change[name + ".zerolinecolor"] = dark ? "#4a535d" : "#b8c0c8";
    }
  }
  return change;
}

function upperTimes(shown) {
  const axes = Object.keys(figure.layout).filter(name => /^xaxis/.test(name)).slice(0, -1);
  return Object.fromEntries(axes.map(name => [name + ".showticklabels", shown]));
}

function show(theme) {
  document.documentElement.dataset.theme = theme;
  button.textContent = theme === "dark" ? "Light" : "Dark";
  return Plotly.relayout(picture, colours(theme));
}

Plotly.newPlot(picture, figure.data, figure.layout,
  {responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"]})
  .then(() => show(wanted()))
  .then(() => { picture.dataset.drawn = "yes"; });
button.addEventListener("click", () => {
  chosen = wanted() === "dark" ? "light" : "dark";
  show(chosen);
});
wish.addEventListener("change", () => show(wanted()));
addEventListener("beforeprint", () => {
  show("light");
  // One page of A4, in the pixels of CSS.
  Plotly.relayout(picture, {width: 700, height: Math.min(tall, 840), ...upperTimes(false)});
  for (const each of document.querySelectorAll("details")) each.open = true;
});
addEventListener("afterprint", () => {
  Plotly.relayout(picture, {width: null, height: tall, autosize: true, ...upperTimes(true)});
  show(wanted());
});
