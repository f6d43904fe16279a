// Creates elements from data. These functions insert each string as text, and never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Create an HTML element with attributes (`class`, `aria-label`, ...), listeners (`onclick`) and children (nodes or text). */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Create an SVG element. The parameters are the same as the parameters of `h`. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Set the text of an element only if it differs from the current text. This avoids a needless layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set an attribute of an element only if it differs from the current value. The value null removes the attribute. */
export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Return a function that makes the browser call `draw` once in the next frame, even if the function is called often. */
export function framed(draw) {
  let asked = 0;
  return () => {
    if (!asked) asked = requestAnimationFrame(() => { asked = 0; draw(); });
  };
}
