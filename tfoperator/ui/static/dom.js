// Elements made from data. Text is always set as text: these functions can't turn a string into markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (`class`, `aria-label`, ...), listeners (`onclick`) and children (nodes or text). */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
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

/** Set text if it differs: this avoids a needless layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set an attribute if it differs; null removes it. */
export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Calls a function once in the next frame, for any number of requests. */
export function framed(draw) {
  let asked = 0;
  return () => {
    if (!asked) asked = requestAnimationFrame(() => { asked = 0; draw(); });
  };
}
